//! Rules of files, as if they had just been applied: the webhook's own code judges them, with the caller as their
//! author, and those that it takes join the world.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DeserializeGuard;
use serde_json::{Value, json, value::RawValue};

use crate::{
    admit::{
        Parties, Purpose, UserInfo,
        decide::{Case, Decision, Verdict, read},
        decode::{GroupVersionKind, Operation, Review},
        inquiry,
    },
    api::{CopyratorRule, CopyratorRuleSpec, GROUP, VERSION},
    authority::{AskError, CallerAuthorizer, Subject, TrustedWriters},
    cli::manifests::Document,
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::{NamespacedName, RuleFacts, World},
    observe::watched::Watched as _,
};

/// A rule of a file.
#[derive(Debug)]
pub(in crate::cli) struct FromFile {
    /// Its name.
    pub rule: NamespacedName,
    /// `FILE:LINE`.
    pub place: String,
    /// What its writer would be warned of.
    pub warnings: Vec<String>,
    object: Value,
}

/// A rule of a file that would be refused.
#[derive(Debug)]
pub(in crate::cli) struct Declined {
    /// Its name.
    pub rule: NamespacedName,
    /// `FILE:LINE`.
    pub place: String,
    /// One word.
    pub reason: String,
    /// What the webhook says.
    pub message: String,
}

/// The rules among documents; and of everything else what it is, and where.
pub(in crate::cli) fn rules_in(documents: Vec<Document>, namespace: &str) -> (Vec<FromFile>, Vec<String>) {
    let (mut rules, mut others) = (Vec::new(), Vec::new());
    for Document { place, value: mut object } in documents {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let home = Some(text("/metadata/namespace")).filter(|it| !it.is_empty()).unwrap_or(namespace);
        if (version, kind) != (&*format!("{GROUP}/{VERSION}"), "CopyratorRule") || name.is_empty() {
            let what = [version, kind, name].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
            let what = if what.is_empty() { "a document without a kind".to_owned() } else { what.join(" ") };
            others.push(format!(
                "{place}: {what}: left out, only named {GROUP}/{VERSION} CopyratorRules are planned with"
            ));
            continue;
        }
        let rule = NamespacedName::new(home, name);
        object["metadata"]["namespace"] = (*rule.namespace).into();
        rules.push(FromFile { rule, place, warnings: Vec::new(), object });
    }
    (rules, others)
}

/// Takes rules into the world that the webhook would let through.
pub(super) async fn take_in(
    world: &mut World,
    files: Vec<FromFile>,
    caller: &CallerAuthorizer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> (BTreeMap<NamespacedName, FromFile>, Vec<Declined>) {
    let (mut taken, mut declined) = (BTreeMap::new(), Vec::new());
    for mut file in files {
        let known = world.rules.get(&file.rule);
        let spec = serde_json::from_value::<CopyratorRuleSpec>(file.object["spec"].clone());
        // Nothing changes, neither the generation nor the author.
        if spec.as_ref().is_ok_and(|spec| known.is_some_and(|known| known.spec == *spec)) {
            taken.insert(file.rule.clone(), file);
            continue;
        }
        let verdict = match world.namespaces.contains_key(&file.rule.namespace) {
            true => judge(&file, known, caller, trusted).await,
            false => {
                let message = format!("namespace {} does not exist: create it first", file.rule.namespace);
                Verdict::refuse(404, "NotFound", &message)
            }
        };
        if !verdict.allowed {
            let FromFile { rule, place, .. } = file;
            declined.push(Declined { rule, place, reason: verdict.reason.into(), message: verdict.message });
            continue;
        }
        file.warnings = verdict.warnings;
        let suspends = known.zip(spec.ok()).is_some_and(|(known, spec)| {
            spec.suspend && spec == CopyratorRuleSpec { suspend: true, ..known.spec.clone() }
        });
        let author = known.filter(|_| suspends).map(|known| &known.annotations);
        let stored = stored(&file, known, author, caller.caller(), now);
        match serde_json::from_value::<DeserializeGuard<CopyratorRule>>(stored) {
            Ok(rule) => drop(rule.put(world, now)),
            Err(error) => {
                let FromFile { rule, place, .. } = file;
                let message = format!("its metadata cannot be read: {error}");
                declined.push(Declined { rule, place, reason: "Invalid".into(), message });
                continue;
            }
        }
        taken.insert(file.rule.clone(), file);
    }
    (taken, declined)
}

/// The webhook's verdict. What it may not ask is let through here: the plan says that nobody was asked.
async fn judge(
    file: &FromFile,
    known: Option<&RuleFacts>,
    caller: &CallerAuthorizer,
    trusted: &TrustedWriters,
) -> Verdict {
    let raw = |value: &Value| serde_json::value::to_raw_value(value);
    let old = known.and_then(|known| raw(&json!({ "spec": known.spec })).ok());
    let Ok(new) = raw(&file.object) else { return Verdict::refuse(422, "Invalid", "cannot be read") };
    let review = review(file, caller.caller(), &new, old.as_deref());
    let parties = Parties { trusted: trusted.clone(), ..Parties::default() };
    match read(&review, &Purpose::OwnKinds, &parties) {
        Ok(Case::Settled(Decision::Now(verdict))) => verdict,
        Ok(Case::Settled(Decision::Ask(asking))) => {
            let allow = asking.allow.clone();
            let asked: Result<Verdict, AskError> = inquiry::settle(caller, *asking).await;
            asked.unwrap_or(allow)
        }
        Ok(Case::Write(_)) => Verdict::allow(),
        Err(error) => Verdict::refuse(422, "Invalid", &error.to_string()),
    }
}

fn review<'a>(
    file: &'a FromFile,
    caller: &Subject,
    new: &'a RawValue,
    old: Option<&'a RawValue>,
) -> Review<'a> {
    Review {
        uid: "plan".into(),
        kind: GroupVersionKind { group: GROUP.into(), version: VERSION.into(), kind: "CopyratorRule".into() },
        sub_resource: None,
        name: (&*file.rule.name).into(),
        namespace: (&*file.rule.namespace).into(),
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        user_info: UserInfo {
            username: caller.user.clone(),
            uid: caller.uid.clone(),
            groups: caller.groups.clone(),
            extra: caller.extra.clone(),
        },
        object: Some(new),
        old_object: old,
        dry_run: Some(true),
    }
}

/// The rule as the API server would store it: a new generation, stamped with its author.
fn stored(
    file: &FromFile,
    known: Option<&RuleFacts>,
    author: Option<&BTreeMap<String, String>>,
    caller: &Subject,
    now: Timestamp,
) -> Value {
    let mut object = file.object.clone();
    let metadata = &mut object["metadata"];
    metadata["uid"] = known.map_or("not-applied-yet", |known| &known.uid).into();
    metadata["resourceVersion"] = known.map_or("0", |known| &known.resource_version).into();
    metadata["generation"] = known.map_or(1, |known| known.generation + 1).into();
    metadata["creationTimestamp"] = known.map_or(now, |known| known.created).to_string().into();
    let groups = Value::from(caller.groups.clone()).to_string();
    // What is no map is left as it is: decoding says so.
    let can_be_stamped = matches!(metadata["annotations"], Value::Null | Value::Object(_));
    let stamps = [(AUTHOR, &caller.user), (AUTHOR_GROUPS, &groups)];
    for (key, own) in stamps.into_iter().filter(|_| can_be_stamped) {
        let kept = author.map(|annotations| annotations.get(key).map(String::as_str).unwrap_or_default());
        metadata["annotations"][key] = kept.unwrap_or(own).into();
    }
    object["status"] = known.and_then(|known| serde_json::to_value(&known.status).ok()).unwrap_or_default();
    object
}
