//! Triggers of a Kyverno rule: Namespaces, or the objects of a kind in namespaces.

use serde_json::Value;

use super::blocks::blocks;
use crate::{
    api::TargetTerm,
    expressions::{NAMESPACE, OBJECT},
    finding::{Finding, none},
    jmespath::{of_namespace, of_object},
    kinds::{is_cluster_scoped, known},
    names::InstanceKind,
};

/// The resources for each of which a rule makes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Each Namespace.
    Namespace,
    /// Each object of a kind.
    Objects(InstanceKind),
}

impl Trigger {
    /// The CEL variable of the trigger.
    pub(super) fn variable(&self) -> &'static str {
        match self {
            Self::Namespace => NAMESPACE,
            Self::Objects(_) => OBJECT,
        }
    }

    /// Returns the function that translates an expression of the rule to CEL.
    pub(super) fn cel(&self) -> fn(&str) -> Option<String> {
        match self {
            Self::Namespace => of_namespace,
            Self::Objects(_) => of_object,
        }
    }

    /// The kind of the trigger.
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::Namespace => "Namespace",
            Self::Objects(kind) => &kind.kind,
        }
    }

    /// The trigger in the singular, for messages.
    pub(super) fn one(&self) -> &str {
        match self {
            Self::Namespace => "namespace",
            Self::Objects(kind) => &kind.kind,
        }
    }

    /// The trigger in the plural, for messages.
    pub(super) fn several(&self) -> String {
        match self {
            Self::Namespace => "namespaces".into(),
            Self::Objects(kind) => format!("objects of kind {}", kind.kind),
        }
    }

    /// Whether a block of `match` or `exclude` is for this trigger, or for every kind.
    pub(super) fn is_meant(&self, block: &Value) -> bool {
        let kinds = block["resources"]["kinds"].as_array().filter(|kinds| !kinds.is_empty());
        let is_meant = |kind: &Value| kind.as_str().is_none_or(|kind| self.is_written_as(kind));
        kinds.is_none_or(|kinds| kinds.iter().any(is_meant))
    }

    /// Whether a kind in Kyverno's notation may be the trigger's kind, in any version: an object is the same
    /// in all versions.
    fn is_written_as(&self, written: &str) -> bool {
        let (of_group, of_kind) = match self {
            Self::Namespace => ("", "Namespace"),
            Self::Objects(kind) => (kind.group(), &*kind.kind),
        };
        let is = |written: &str, name: &str| written.contains(['*', '?']) || written == name;
        match written.split('/').collect::<Vec<_>>().as_slice() {
            [kind] | [_, kind] => is(kind, of_kind),
            [group, _, kind] => is(group, of_group) && is(kind, of_kind),
            _ => false,
        }
    }
}

/// The resources that a rule's `match`, `exclude` and preconditions select.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Terms on namespaces, one of which must match.
    pub(super) terms: Vec<TargetTerm>,
    /// Names and globs of excluded namespaces, for a rule on Namespaces.
    pub(super) exclude: Vec<String>,
    /// Names, globs and labels of the objects in the namespaces, for a rule on objects.
    pub(super) objects: TargetTerm,
    /// Further conditions, in CEL.
    pub(super) conditions: Vec<String>,
}

/// The owner reference that a rule sets on its objects, if the owner is the trigger. The reference contains
/// the group and version of the trigger's kind.
pub(super) struct Owner {
    api_version: String,
    kind: String,
}

impl Owner {
    /// Returns the owner in metadata, if the owner is the only one and is the object that triggers the rule.
    pub(super) fn of(metadata: &Value) -> Option<Self> {
        let [owner] = metadata["ownerReferences"].as_array()?.as_slice() else { return None };
        let is = |field: &str, path: &str| {
            let text = owner[field].as_str().unwrap_or_default().trim();
            let inner = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
            inner.is_some_and(|inner| inner.trim() == path)
        };
        let is_trigger = is("uid", "request.object.metadata.uid")
            && (is("name", "request.object.metadata.name") || is("name", "request.name"));
        let text = |field: &str| owner[field].as_str().map(str::to_owned);
        Some(Self { api_version: text("apiVersion")?, kind: text("kind")? }).filter(|_| is_trigger)
    }

    /// Whether the owner is of the trigger's kind.
    pub(super) fn is_of(&self, trigger: &Trigger) -> bool {
        matches!(trigger, Trigger::Objects(kind) if *kind.kind == *self.kind)
    }
}

/// Returns each trigger in the blocks of `match`, once, and findings about kinds without an equivalent.
pub(super) fn triggers(of: &Value, owner: Option<&Owner>) -> (Vec<Trigger>, Vec<Finding>) {
    let (is_all, blocks) = blocks(of);
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    let kinds = |block: &Value| -> Vec<String> {
        let kinds = block["resources"]["kinds"].as_array().into_iter().flatten();
        kinds.map(|kind| kind.as_str().unwrap_or_default().to_owned()).collect()
    };
    for kind in blocks.iter().flat_map(kinds) {
        match read(&kind, owner) {
            Ok(_) if all.iter().any(|known: &Trigger| known.is_written_as(&kind)) => {}
            Ok(trigger) => all.push(trigger),
            Err(why) => findings.push(none("match.resources.kinds", why)),
        }
    }
    if all.is_empty() && findings.is_empty() {
        let told = "names no kind, so the rule matches every kind and import skips it: a template is for Namespaces, or for objects of \
         one kind";
        findings.push(none("match.resources.kinds", told));
    } else if is_all && findings.is_empty() {
        all.retain(|trigger: &Trigger| blocks.iter().all(|block| trigger.is_meant(block)));
        if all.is_empty() {
            findings.push(none(
                "match.all",
                "has blocks for different kinds, so the rule matches no object in Kyverno",
            ));
        }
    }
    (all, findings)
}

/// Parses a kind in Kyverno's notation: `Kind`, `version/Kind` or `group/version/Kind`.
fn read(written: &str, owner: Option<&Owner>) -> Result<Trigger, String> {
    let parts: Vec<&str> = written.split('/').collect();
    let is_version = |part: &str| {
        let rest = part.strip_prefix('v').unwrap_or_default();
        part == "*" || rest.starts_with(|one: char| one.is_ascii_digit())
    };
    let is_kind = |part: &str| {
        part.starts_with(|one: char| one.is_ascii_uppercase())
            && part.bytes().all(|one| one.is_ascii_alphanumeric())
    };
    let (group, version, kind) = match parts.as_slice() {
        [kind] => ("*", "*", *kind),
        ["*" | "", kind] => ("*", "*", *kind),
        [version, kind] if is_version(version) => ("*", *version, *kind),
        [group, version, kind] if is_version(version) => (*group, *version, *kind),
        _ => ("", "", ""),
    };
    if written.contains(['*', '?']) && !is_kind(kind) {
        return Err(format!("{written} matches several kinds, so import skips it: list each kind by name"));
    }
    if !is_kind(kind) {
        return Err(format!("{written} is not a kind (perhaps a subresource), so import skips it"));
    }
    if kind == "Namespace" && ["*", ""].contains(&group) {
        return Ok(Trigger::Namespace);
    }
    if is_cluster_scoped(kind) {
        return Err(format!(
            "{kind} is cluster-scoped, but a template with forEach.objects makes objects in the namespace of each object: keep this rule \
             with Kyverno"
        ));
    }
    if kind == "Secret" && ["*", ""].contains(&group) {
        return Err("a template cannot select Secrets, because its expressions could put their values into other objects. To copy a \
         Secret, write a CopyratorRule in the template's namespace"
            .into());
    }
    if kind == "Event" || group == crate::api::GROUP {
        return Err(format!("a template cannot select {written}: keep this rule with Kyverno"));
    }
    let owned = owner.filter(|owner| owner.kind == kind).map(|owner| owner.api_version.as_str());
    let is_wide = |part: &str| part == "*";
    let known = known(kind).filter(|known| {
        (is_wide(group) || group == known.group) && (is_wide(version) || version == known.version)
    });
    let api_version = match (group, version) {
        (group, version) if !is_wide(group) && !is_wide(version) => match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        },
        _ => match (owned, known) {
            (Some(owned), _) => owned.to_owned(),
            (None, Some(known)) => known.api_version.to_owned(),
            (None, None) => {
                return Err(format!(
                    "is for {written}, whose group and version are not known here, so that nothing is made: write \
                     group/version/{kind}, and import again"
                ));
            }
        },
    };
    Ok(Trigger::Objects(InstanceKind::new(api_version, kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_in_each_form_that_kyverno_takes() {
        let owner = Owner { api_version: "kubevirt.io/v1".into(), kind: "VirtualMachineInstance".into() };
        for (written, expected) in [
            ("Namespace", "Namespace"),
            ("*/v1/Namespace", "Namespace"),
            ("/v1/Namespace", "Namespace"),
            ("*/Namespace", "Namespace"),
            ("Deployment", "Deployment of apps/v1"),
            ("apps/v1/Deployment", "Deployment of apps/v1"),
            ("v1/Service", "Service of v1"),
            ("*/Service", "Service of v1"),
            ("/v1/ConfigMap", "ConfigMap of v1"),
            ("apps/*/Deployment", "Deployment of apps/v1"),
            ("batch/v1beta1/CronJob", "CronJob of batch/v1beta1"),
            ("serving.knative.dev/v1/Service", "Service of serving.knative.dev/v1"),
            ("VirtualMachineInstance", "VirtualMachineInstance of kubevirt.io/v1"),
        ] {
            let told = match read(written, Some(&owner)) {
                Ok(Trigger::Namespace) => "Namespace".into(),
                Ok(Trigger::Objects(kind)) => kind.to_string(),
                Err(why) => why,
            };
            assert_eq!(told, expected, "{written}");
        }
        for written in [
            "*",
            "Pod*",
            "*/*",
            "Pod/exec",
            "v1/Pod/exec",
            "Certificate",
            "v2/Deployment",
            "Node",
            "Secret",
            "v1/Secret",
            "Event",
            "copyrator.dev/v1alpha1/CopyratorRule",
            "deployments",
            "",
        ] {
            assert!(read(written, None).is_err(), "{written}");
        }
    }
}
