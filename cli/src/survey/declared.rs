//! Rules, templates, monitors and policies of files, as if they had just been applied. The webhook's own code
//! judges each object, with the caller as its author, and accepted objects become part of the world.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{judged::Refusal, review::review};
use crate::{
    access::{AskError, CallerAuthorizer, review},
    admit::{
        Parties, Purpose,
        decide::{Case, Decision, Verdict, read},
        decode::GroupVersionKind,
    },
    api::{
        ConfigMonitor, ConfigMonitorSpec, ConfigPolicy, ConfigPolicySpec, CopyratorRule, CopyratorRuleSpec,
        CopyratorTemplate, CopyratorTemplateSpec, GROUP, VERSION,
    },
    arguments::manifests::Document,
    authority::{Subject, TrustedWriters},
    explain::Course,
    intake::{AsWritten, watched::Watched as _},
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::{Declared, Unseen, World},
    names::{Declarer, NamespacedName},
    plan::Reason,
};

/// The kinds of ours that can be planned from files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurKind {
    Rule,
    Template,
    Monitor,
    Policy,
}

impl OurKind {
    fn of(kind: &str) -> Option<Self> {
        [Self::Rule, Self::Template, Self::Monitor, Self::Policy].into_iter().find(|one| one.as_str() == kind)
    }

    /// The kind in a manifest.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "CopyratorRule",
            Self::Template => "CopyratorTemplate",
            Self::Monitor => "ConfigMonitor",
            Self::Policy => "ConfigPolicy",
        }
    }

    /// The rule, template or monitor of this name; `None` for a policy.
    pub(crate) fn declarer(self, name: &NamespacedName) -> Option<Declarer> {
        match self {
            Self::Rule => Some(Declarer::Rule(name.clone())),
            Self::Template => Some(Declarer::Template(name.clone())),
            Self::Monitor => Some(Declarer::Monitor(name.clone())),
            Self::Policy => None,
        }
    }

    /// A spec as the API server would store it, with defaults; `None` for a spec that cannot be decoded.
    fn spec(self, written: &Value) -> Option<Value> {
        fn stored<S: DeserializeOwned + Serialize>(written: &Value) -> Option<Value> {
            serde_json::to_value(serde_json::from_value::<S>(written.clone()).ok()?).ok()
        }
        match self {
            Self::Rule => stored::<CopyratorRuleSpec>(written),
            Self::Template => stored::<CopyratorTemplateSpec>(written),
            Self::Monitor => stored::<ConfigMonitorSpec>(written),
            Self::Policy => stored::<ConfigPolicySpec>(written),
        }
    }
}

/// A rule, template, monitor or policy of a file.
#[derive(Debug)]
pub struct FromFile {
    pub kind: OurKind,
    /// The object's name; a policy has no namespace.
    pub name: NamespacedName,
    /// One of `Create`, `Change` and `Current`.
    pub course: Course,
    /// `FILE:LINE` of the document.
    pub place: String,
    /// The warnings for the author of the object.
    pub warnings: Vec<String>,
    object: Value,
}

impl FromFile {
    /// The spec of a rule; `None` for any other kind, or if the spec cannot be decoded.
    pub(super) fn rule(&self) -> Option<CopyratorRuleSpec> {
        let spec = Some(&self.object["spec"]).filter(|_| self.kind == OurKind::Rule)?;
        serde_json::from_value(spec.clone()).ok()
    }
}

/// A rule, template, monitor or policy of a file that the webhook would refuse.
#[derive(Debug)]
pub struct Declined {
    pub kind: OurKind,
    pub name: NamespacedName,
    /// `FILE:LINE` of the document.
    pub place: String,
    /// The reason in one word.
    pub reason: Reason,
    /// The webhook's message for the user who applies it.
    pub message: String,
}

/// The object of the same kind and name in the cluster.
struct ExistingObject {
    uid: String,
    resource_version: String,
    generation: i64,
    created: Timestamp,
    annotations: BTreeMap<String, String>,
    spec: Value,
    status: Value,
}

impl ExistingObject {
    fn of<S: Serialize, C, T: Serialize>(facts: &Declared<S, C, T>) -> Self {
        Self {
            uid: facts.uid.to_string(),
            resource_version: facts.resource_version.to_string(),
            generation: facts.generation,
            created: facts.created,
            annotations: facts.annotations.clone(),
            spec: serde_json::to_value(&facts.spec).unwrap_or_default(),
            status: serde_json::to_value(&facts.status).unwrap_or_default(),
        }
    }
}

/// The rules, templates, monitors and policies among the documents, and a note with its position for every
/// other document.
pub(crate) fn declared_in(documents: Vec<Document>, namespace: &str) -> (Vec<FromFile>, Vec<String>) {
    let (mut declared, mut others) = (Vec::new(), Vec::new());
    for Document { place, value: mut object, .. } in documents {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let home = Some(text("/metadata/namespace")).filter(|it| !it.is_empty()).unwrap_or(namespace);
        let ours = OurKind::of(kind).filter(|_| version == format!("{GROUP}/{VERSION}") && !name.is_empty());
        let Some(kind) = ours else {
            let what = [version, kind, name].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
            let what = if what.is_empty() { "a document without a kind".to_owned() } else { what.join(" ") };
            others.push(format!(
                "{place}: {what}: left out, only named {GROUP}/{VERSION} CopyratorRules, CopyratorTemplates, ConfigMonitors and \
                 ConfigPolicies, ConfigMaps and Secrets are planned with"
            ));
            continue;
        };
        let name = NamespacedName::new(if kind == OurKind::Policy { "" } else { home }, name);
        if kind != OurKind::Policy {
            object["metadata"]["namespace"] = (*name.namespace).into();
        }
        declared.push(FromFile { kind, name, course: Course::Create, place, warnings: Vec::new(), object });
    }
    (declared, others)
}

/// Adds the rules, templates, monitors and policies that the webhook would accept to the world.
pub(super) async fn take_in(
    world: &mut World,
    files: Vec<FromFile>,
    caller: &CallerAuthorizer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> (Vec<FromFile>, Vec<Declined>) {
    let (mut taken, mut declined) = (Vec::new(), Vec::new());
    let template_kinds = world.settings().template_kinds.clone();
    let settings = world.settings();
    let system_namespaces =
        settings.system_namespaces.iter().chain([&settings.own_namespace]).cloned().collect();
    let parties =
        Parties { trusted: trusted.clone(), template_kinds, system_namespaces, ..Parties::default() };
    for mut file in files {
        let known = match file.kind {
            OurKind::Rule => world.rules().get(&Declarer::Rule(file.name.clone())).map(ExistingObject::of),
            OurKind::Template => {
                world.templates().get(&Declarer::Template(file.name.clone())).map(ExistingObject::of)
            }
            OurKind::Monitor => {
                world.monitors().get(&Declarer::Monitor(file.name.clone())).map(ExistingObject::of)
            }
            OurKind::Policy => world.policies().get(&*file.name.name).map(ExistingObject::of),
        };
        let known = known.as_ref();
        let spec = file.kind.spec(&file.object["spec"]);
        // Without a new spec, neither the generation nor the author changes.
        if spec.as_ref().is_some_and(|spec| known.is_some_and(|known| known.spec == *spec)) {
            file.course = Course::Current;
            taken.push(file);
            continue;
        }
        if known.is_some() {
            file.course = Course::Change;
        }
        let namespace = &file.name.namespace;
        let has_webhook = world.namespace_scope().is_none_or(|places| !places.is_all());
        let judged = match (world.namespaces().contains_key(namespace), world.unseen(namespace)) {
            _ if file.kind == OurKind::Policy && !has_webhook => {
                let message = "Copyrator looks at some namespaces only here, without a webhook: policies have no effect";
                Err((Unseen::NotServed.into(), message.to_owned()))
            }
            _ if file.kind == OurKind::Template && world.namespace_scope().is_some() => {
                let message = "templates are served, and planned, only where all namespaces are looked at";
                Err((Unseen::NotServed.into(), message.to_owned()))
            }
            _ if file.kind == OurKind::Policy => judge(&file, known, caller, &parties, has_webhook).await,
            (true, _) => judge(&file, known, caller, &parties, has_webhook).await,
            (false, Some((reason, message))) => Err((reason.into(), message)),
            (false, None) => {
                Err((Reason::NotFound, format!("namespace {namespace} does not exist: create it first")))
            }
        };
        let decline = |file: FromFile, reason: Reason, message: String| {
            let FromFile { kind, name, place, .. } = file;
            Declined { kind, name, place, reason, message }
        };
        match judged {
            // Without a webhook (Copyrator reads only some namespaces) the API server prints no warnings.
            Ok(warnings) => file.warnings = if has_webhook { warnings } else { Vec::new() },
            Err((reason, message)) => {
                declined.push(decline(file, reason, message));
                continue;
            }
        }
        let suspends = known.zip(spec).is_some_and(|(known, spec)| {
            let mut suspended = known.spec.clone();
            suspended["suspend"] = true.into();
            spec == suspended
        });
        let author = known.filter(|_| suspends).map(|known| &known.annotations);
        let stored = stored(&file, known, author, caller.caller(), now);
        let put =
            match file.kind {
                OurKind::Rule => serde_json::from_value::<AsWritten<CopyratorRule>>(stored)
                    .map(|rule| rule.put(world, now)),
                OurKind::Template => serde_json::from_value::<AsWritten<CopyratorTemplate>>(stored)
                    .map(|template| template.put(world, now)),
                OurKind::Monitor => serde_json::from_value::<AsWritten<ConfigMonitor>>(stored)
                    .map(|monitor| monitor.put(world, now)),
                OurKind::Policy => serde_json::from_value::<AsWritten<ConfigPolicy>>(stored)
                    .map(|policy| policy.put(world, now)),
            };
        match put {
            Ok(_) => taken.push(file),
            Err(error) => {
                declined.push(decline(
                    file,
                    Reason::Invalid,
                    format!("its metadata cannot be read: {error}"),
                ));
            }
        }
    }
    (taken, declined)
}

/// Returns the warnings of the webhook, or why the webhook refuses the object. If the caller may not check
/// rights, the object is accepted by this function, and the plan says that the rights were not checked.
/// Without `asks`, the plan checks the author's rights, since the plan knows where copies can be written.
async fn judge(
    file: &FromFile,
    known: Option<&ExistingObject>,
    caller: &CallerAuthorizer,
    parties: &Parties,
    asks: bool,
) -> Result<Vec<String>, Refusal> {
    let raw = |value: &Value| serde_json::value::to_raw_value(value);
    let old = known.and_then(|known| raw(&json!({ "spec": known.spec })).ok());
    let Ok(new) = raw(&file.object) else { return Err((Reason::Invalid, "cannot be read".into())) };
    let kind =
        GroupVersionKind { group: GROUP.into(), version: VERSION.into(), kind: file.kind.as_str().into() };
    let review = review(kind, &file.name.namespace, &file.name.name, caller.caller(), &new, old.as_deref());
    let verdict = match read(&review, &Purpose::OwnKinds, parties, Timestamp::now()) {
        Ok(Case::Settled(Decision::Now(verdict))) => verdict,
        Ok(Case::Settled(Decision::Ask(asking))) if !asks => asking.allow,
        Ok(Case::Settled(Decision::Ask(asking))) => {
            let allow = asking.allow.clone();
            let asked: Result<Verdict, AskError> = review::settle(caller, *asking).await;
            asked.unwrap_or(allow)
        }
        Ok(Case::Write(_) | Case::Instance(_)) => Verdict::allow(),
        Err(error) => return Err((Reason::Invalid, error.to_string())),
    };
    match verdict.denial {
        None => Ok(verdict.warnings),
        Some(denial) => Err((denial.into(), verdict.message)),
    }
}

/// The object as the API server would store it: with a new generation, and author annotations.
fn stored(
    file: &FromFile,
    known: Option<&ExistingObject>,
    author: Option<&BTreeMap<String, String>>,
    caller: &Subject,
    now: Timestamp,
) -> Value {
    let mut object = file.object.clone();
    let metadata = &mut object["metadata"];
    metadata["uid"] = known.map_or("not-applied-yet", |known| known.uid.as_str()).into();
    metadata["resourceVersion"] = known.map_or("0", |known| known.resource_version.as_str()).into();
    metadata["generation"] = known.map_or(1, |known| known.generation + 1).into();
    metadata["creationTimestamp"] = known.map_or(now, |known| known.created).to_string().into();
    let groups = Value::from(caller.groups.clone()).to_string();
    // A policy uses no rights, so it has no author. Decoding reports metadata that is not a map.
    let can_be_stamped =
        file.kind != OurKind::Policy && matches!(metadata["annotations"], Value::Null | Value::Object(_));
    let stamps = [(AUTHOR, &caller.user), (AUTHOR_GROUPS, &groups)];
    for (key, own) in stamps.into_iter().filter(|_| can_be_stamped) {
        let kept = author.map(|annotations| annotations.get(key).map(String::as_str).unwrap_or_default());
        metadata["annotations"][key] = kept.unwrap_or(own).into();
    }
    object["status"] = known.map(|known| known.status.clone()).unwrap_or_default();
    object
}
