//! Objects of files, as if `kubectl apply` had just written them. The webhook's code judges each object, with the caller as its
//! writer, and accepted objects become part of the world. No value of a ConfigMap or Secret is ever shown: differences are named by
//! key.

use std::collections::BTreeMap;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::{file_outlook::FileOutlook, policies::FileContents};
use crate::{
    access::{CallerAuthorizer, review},
    admit::{
        Parties, Purpose,
        decide::{Decision, verdict},
    },
    authority::TrustedWriters,
    digest::Fingerprint,
    explain::{Course, Difference},
    files::{Admission, FileKind, FileObject, Item, Write, existing, has_webhook, put, spec, stored},
    model::{Unseen, World, WriteFault},
    names::{NameKind, ObjectKey},
    plan::{Reason, copy::ProblemReason},
    read::content::decode,
    validate::name_fault,
};

/// Why an object would be refused: reason and message.
type Refusal = (Reason, String);

/// A user who applies files.
pub(super) struct Applier<'a> {
    pub client: &'a Client,
    pub caller: &'a CallerAuthorizer,
    pub trusted: &'a TrustedWriters,
    pub now: Timestamp,
}

impl Applier<'_> {
    /// Applies the objects to the world, and adds the resulting content of ConfigMaps and Secrets to `contents`.
    pub(super) async fn apply(
        &self,
        world: &mut World,
        items: Vec<Item>,
        contents: &mut FileContents,
    ) -> Vec<FileOutlook> {
        let mut all = Vec::new();
        for item in items {
            let outcome = self.one(world, &item, contents).await;
            let Item { of, place, .. } = item;
            let place = place.to_string();
            all.push(match outcome {
                Ok((course, difference, warnings)) => {
                    let is_policy = of.kind == FileKind::Policy;
                    let message = if is_policy {
                        "the plan checks copies and objects of files against it, too"
                    } else {
                        ""
                    };
                    let message = message.to_owned();
                    FileOutlook { course, of, place, reason: None, message, difference, warnings }
                }
                Err((reason, message)) => {
                    let (course, reason) = (Course::Refuse, Some(reason));
                    let (difference, warnings) = Default::default();
                    FileOutlook { course, of, place, reason, message, difference, warnings }
                }
            });
        }
        all
    }

    async fn one(
        &self,
        world: &mut World,
        item: &Item,
        contents: &mut FileContents,
    ) -> Result<(Course, Difference, Vec<String>), Refusal> {
        let of = &item.of;
        takes(world, of)?;
        let data = of.data();
        let live = match &data {
            Some(object) => fetch(self.client, object).await?,
            None => existing(of, world),
        };
        let written = spec(of.kind, &item.value["spec"]);
        // Without a new spec, neither the generation nor the author changes.
        if written.is_some() && written.as_ref() == live.as_ref().map(|live| &live["spec"]) {
            return Ok((Course::Current, Difference::default(), Vec::new()));
        }
        let new = stored(item, live.as_ref(), self.now).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            (Reason::Invalid, faults.join("; "))
        })?;
        let change = match &data {
            Some(object) => Some(Change::of(world, object, live.as_ref(), &new)?),
            None => None,
        };
        let write = Write { of, writer: self.caller.caller(), new, old: live.as_ref(), now: self.now };
        let admission = write.admit(&Purpose::OwnKinds, &self.parties(world), world);
        let Admission { mut object, decision, breaches } =
            admission.map_err(|fault| (Reason::Unread, format!("it cannot be judged: {fault}")))?;
        let mut warnings = self.allowed(world, decision).await?;
        let judged = verdict(&breaches.unwrap_or_default());
        if judged.denial.is_some() {
            return Err((ProblemReason::Fault(WriteFault::RefusedByPolicy).into(), judged.message));
        }
        warnings.extend(judged.warnings);
        let invalid =
            |error: serde_json::Error| (Reason::Invalid, format!("its metadata cannot be read: {error}"));
        let Some((name, change)) = data.zip(change) else {
            put(of.kind, object, world, self.now).map_err(invalid)?;
            let course = if live.is_some() { Course::Change } else { Course::Create };
            return Ok((course, Difference::default(), warnings));
        };
        if change.is_of_content {
            note_writer(&mut object, self.now);
        }
        contents.extend(decode(name.kind, &object.to_string()).map(|content| (name.clone(), content)));
        put(of.kind, object, world, self.now).map_err(invalid)?;
        world.assume_fingerprint(&name, change.after);
        Ok((change.course, change.difference, warnings))
    }

    fn parties(&self, world: &World) -> Parties {
        let settings = world.settings();
        let system_namespaces = settings.system_namespaces.iter().chain([&settings.own_namespace]);
        Parties {
            trusted: self.trusted.clone(),
            template_kinds: settings.template_kinds.clone(),
            system_namespaces: system_namespaces.cloned().collect(),
            ..Parties::default()
        }
    }

    /// Returns the warnings of a decision, or why the webhook refuses the object. If the caller may not check
    /// rights, this function accepts the object, and the plan says that the rights were not checked.
    async fn allowed(&self, world: &World, decision: Decision) -> Result<Vec<String>, Refusal> {
        let has_webhook = has_webhook(world);
        let verdict = match decision {
            Decision::Now(verdict) => verdict,
            Decision::Ask(inquiry) if has_webhook => {
                let allow = inquiry.allow.clone();
                review::settle(self.caller, *inquiry).await.unwrap_or(allow)
            }
            // The plan checks the author's rights, since the plan knows where copies can be written.
            Decision::Ask(inquiry) => inquiry.allow,
        };
        match verdict.denial {
            Some(denial) => Err((denial.into(), verdict.message)),
            // Without a webhook, the API server prints no warnings.
            None => Ok(if has_webhook { verdict.warnings } else { Vec::new() }),
        }
    }
}

/// Whether Copyrator and the API server take an object in its namespace.
fn takes(world: &World, of: &FileObject) -> Result<(), Refusal> {
    let namespace = &of.name.namespace;
    let not_served = |message: &str| Err((Unseen::NotServed.into(), message.to_owned()));
    // `kubectl apply` does not generate names.
    if of.name.name.is_empty() {
        return Err((Reason::Invalid, "it has no metadata.name".into()));
    }
    // The name becomes part of a request's path.
    if let Some(fault) = name_fault(&of.name.name, NameKind::Object) {
        return Err((Reason::Invalid, format!("metadata.name: {fault}")));
    }
    match of.kind {
        FileKind::Policy if !has_webhook(world) => not_served(
            "Copyrator looks at some namespaces only here, without a webhook: policies have no effect",
        ),
        FileKind::Template if world.namespace_scope().is_some() => {
            not_served("templates are served, and planned, only where all namespaces are looked at")
        }
        FileKind::Policy => Ok(()),
        _ if world.namespaces().contains_key(namespace) => Ok(()),
        _ => Err(match world.unseen(namespace) {
            Some((reason, message)) => (reason.into(), message),
            None => (Reason::NotFound, format!("namespace {namespace} does not exist: create it first")),
        }),
    }
}

/// Reads the whole object, to compare the file with it.
async fn fetch(client: &Client, object: &ObjectKey) -> Result<Option<Value>, Refusal> {
    let path = format!("{}/{}", object.kind.resource().path(Some(&object.namespace)), object.name);
    let unread = |why: String| (Reason::Unread, format!("cannot read {object}, to compare: {why}"));
    let request = Request::get(path).body(Vec::new()).map_err(|error| unread(error.to_string()))?;
    match client.request_text(request).await {
        Ok(text) => {
            let value =
                serde_json::from_str(&text).map_err(|_| unread("the answer is not an object".into()))?;
            Ok(Some(value))
        }
        Err(kube::Error::Api(said)) if said.code == 404 => Ok(None),
        Err(kube::Error::Api(said)) => Err(unread(said.message.clone())),
        Err(error) => Err(unread(error.to_string())),
    }
}

/// The change of a ConfigMap or Secret.
struct Change {
    course: Course,
    difference: Difference,
    /// Whether the write sets or removes keys.
    is_of_content: bool,
    after: Fingerprint,
}

impl Change {
    fn of(world: &World, object: &ObjectKey, live: Option<&Value>, new: &Value) -> Result<Self, Refusal> {
        let Some(key) = world.key() else {
            let message = "the key that content is compared with was not read: run the command again";
            return Err((Reason::Unread, message.into()));
        };
        let print = |value: &Value| -> Option<Fingerprint> {
            Some(decode(object.kind, &value.to_string())?.fingerprint(key))
        };
        let before = live.and_then(print);
        let after =
            print(new).ok_or_else(|| (Reason::Invalid, format!("it is not a valid {}", object.kind)))?;
        let difference = difference(before.as_ref(), &after);
        let Difference { keys_added, keys_changed, keys_removed, .. } = &difference;
        let changes = !(keys_added.is_empty() && keys_changed.is_empty() && keys_removed.is_empty());
        let Some(before) = before else {
            return Ok(Self { course: Course::Create, difference, is_of_content: true, after });
        };
        let immutable = |message: &str| Err((Reason::Immutable, message.to_owned()));
        if before.type_ != after.type_ {
            return immutable("a Secret's type cannot be changed: delete it first");
        }
        if before.immutable && changes {
            return immutable("it is immutable: delete it first, or give it a new name");
        }
        let source = world.object(object).and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.source);
        if let Some(source) = source.filter(|_| changes) {
            return Err((Reason::Copy, format!("it is a copy: change its source {source} instead")));
        }
        let course = if difference == Difference::default() { Course::Current } else { Course::Change };
        Ok(Self { course, difference, is_of_content: changes, after })
    }
}

/// Notes in managedFields that the content was written now.
fn note_writer(object: &mut Value, now: Timestamp) {
    let written = json!({
        "manager": "copyrator-plan", "operation": "Update",
        "time": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
        "fieldsV1": { "f:data": {} },
    });
    match object["metadata"]["managedFields"].as_array_mut() {
        Some(entries) => entries.push(written),
        None => object["metadata"]["managedFields"] = json!([written]),
    }
}

/// The names of the keys and fields that change.
fn difference(before: Option<&Fingerprint>, after: &Fingerprint) -> Difference {
    let none = BTreeMap::new();
    let old = before.map_or(&none, |print| &print.keys);
    let is_new = |key: &&String| !old.contains_key(*key);
    let differs = |(key, print): &(&String, &_)| old.get(*key).is_some_and(|known| known != *print);
    Difference {
        keys_added: after.keys.keys().filter(is_new).cloned().collect(),
        keys_changed: after.keys.iter().filter(differs).map(|(key, _)| key.clone()).collect(),
        keys_removed: old.keys().filter(|key| !after.keys.contains_key(*key)).cloned().collect(),
        fields: before
            .filter(|before| before.immutable != after.immutable)
            .map(|_| "immutable".to_owned())
            .into_iter()
            .collect(),
        ..Difference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Settings, names::NamespacedName};

    #[test]
    fn a_name_that_would_change_the_path_of_a_request_is_refused() {
        let world = World::new(Settings::default());
        for name in ["?", "?watch=true", "a/b", "..", "%2e"] {
            let of = FileObject { kind: FileKind::Secret, name: NamespacedName::new("shop", name) };
            let (reason, message) = takes(&world, &of).unwrap_err();
            assert_eq!(reason, Reason::Invalid);
            assert!(message.starts_with(&format!("metadata.name: {name:?} is not ")), "{message}");
        }
    }
}
