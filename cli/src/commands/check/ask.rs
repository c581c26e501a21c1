//! Gives one object to the webhook's own code, `read`, `look` and `judge` of [`crate::admit::decide`], as if
//! an unknown user had just written the object.

use jiff::Timestamp;
use serde_json::{Value, value::RawValue};

use super::{
    input::Item,
    report::{Finding, title},
};
use crate::{
    admit::{
        Parties, Purpose, UserInfo,
        decide::{Case, DecideError, Decision, Verdict, read},
        decode::{GroupVersionKind, Operation, Review},
        respond::patch,
    },
    api::{GROUP, VERSION},
    model::World,
    names::TemplateKind,
};

/// Returns the webhook's findings about a rule, template, monitor or policy, except those about its author's
/// rights. `served` is the kind of custom resource that the webhook serves.
pub(super) fn own_kind(item: &Item, served: Option<TemplateKind>) -> Vec<Finding> {
    if item.name.is_empty() && item.value.pointer("/metadata/generateName").is_none() {
        let named = title(item.kind, &item.namespace, "");
        return vec![Finding::refused(
            "manifest",
            None,
            format!("{named}: has no metadata.name; give it one"),
        )];
    }
    let parties = Parties { template_kinds: served.into_iter().collect(), ..Parties::default() };
    settled(item, &item.value, &Purpose::Files, &parties, "spec")
}

/// The webhook's findings about Copyrator's annotations.
pub(super) fn annotations(item: &Item, object: &Value) -> Vec<Finding> {
    settled(item, object, &Purpose::Annotations, &Parties::default(), "annotations")
}

/// Adds the defaults of policies to the object.
pub(super) fn defaulted(item: &Item, mut object: Value, world: &World) -> Result<Value, Vec<Finding>> {
    let parties = Parties::default();
    let edits = asked(item, &object, &Purpose::Defaults, &parties, |case| match case {
        Case::Write(write) => Ok(write.judge(write.look(world)?).edits),
        Case::Settled(_) | Case::Instance(_) => Ok(Vec::new()),
    })?;
    match json_patch::patch(&mut object, &patch(&edits)) {
        Ok(()) => Ok(object),
        Err(_) => Err(unreadable(item, "what policies add to it cannot be added; check its metadata")),
    }
}

/// The violations of policies by an object.
pub(super) fn policies(item: &Item, object: &Value, world: &World) -> Vec<Finding> {
    let parties = Parties::default();
    let breaches = asked(item, object, &Purpose::Policies, &parties, |case| match case {
        Case::Write(write) => Ok(write.breaches(&write.look(world)?)),
        Case::Settled(_) | Case::Instance(_) => Ok(Vec::new()),
    });
    breaches.map_or_else(|faults| faults, |breaches| breaches.into_iter().map(Finding::from).collect())
}

/// Judges an object as far as the webhook can without a cluster. Rights are not checked, since the author is
/// not known.
fn settled(item: &Item, object: &Value, purpose: &Purpose, parties: &Parties, rule: &str) -> Vec<Finding> {
    let verdict = asked(item, object, purpose, parties, |case| match case {
        Case::Settled(Decision::Now(verdict)) => Ok(verdict),
        Case::Settled(Decision::Ask(inquiry)) => Ok(inquiry.allow),
        Case::Write(_) | Case::Instance(_) => Ok(Verdict::allow()),
    });
    match verdict {
        Ok(Verdict { denial: Some(_), message, .. }) => vec![Finding::refused(rule, None, message)],
        Ok(Verdict { warnings, .. }) => {
            warnings.into_iter().map(|warning| Finding::warned(rule, warning)).collect()
        }
        Err(faults) => faults,
    }
}

fn asked<T>(
    item: &Item,
    object: &Value,
    purpose: &Purpose,
    parties: &Parties,
    answer: impl FnOnce(Case<'_>) -> Result<T, DecideError>,
) -> Result<T, Vec<Finding>> {
    let raw = serde_json::value::to_raw_value(object)
        .map_err(|_| unreadable(item, "cannot be written as JSON; check its keys"))?;
    let review = review(item, &raw);
    let answered = read(&review, purpose, parties, Timestamp::now()).and_then(answer);
    answered.map_err(|error| unreadable(item, &error.to_string()))
}

fn unreadable(item: &Item, what: &str) -> Vec<Finding> {
    let named = title(item.kind, &item.namespace, &item.name);
    vec![Finding::refused("manifest", None, format!("{named}: {what}"))]
}

fn review<'a>(item: &'a Item, object: &'a RawValue) -> Review<'a> {
    let (group, version) = match item.policed() {
        Some(_) => ("", "v1"),
        None => (GROUP, VERSION),
    };
    // In a review, the API server gives a Namespace its own name as the namespace.
    let namespace = if item.kind == "Namespace" { &item.name } else { &item.namespace };
    Review {
        uid: "check".into(),
        kind: GroupVersionKind { group: group.into(), version: version.into(), kind: item.kind.into() },
        sub_resource: None,
        name: item.name.as_str().into(),
        namespace: namespace.as_str().into(),
        operation: Operation::Create,
        user_info: UserInfo::default(),
        object: Some(object),
        old_object: None,
        dry_run: Some(false),
    }
}
