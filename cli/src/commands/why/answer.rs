//! Why an object exists, and what depends on it, from plans and facts. This module is pure, and makes no
//! decisions.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    api::WorkloadKind,
    arguments::{Named, Sort},
    authority::author,
    commands::tree::{Origin, Seen, origin_of},
    explain::{CopyRow, CopyState, Course, RestartOutlook, RestartReason, Restartable, on_change},
    model::{ObjectFacts, Owner, World},
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    plan::{
        Reason,
        copy::ProblemReason,
        restart::{RestartState, monitors_watching},
    },
    validate::{CompiledObject, WrittenField},
};

/// What is known of one object: where it comes from, and what uses it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WhyObject")]
pub struct Why {
    /// The kind of the object, in lower case.
    pub object: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// It is there; a copy that is yet to be made is not.
    pub exists: bool,
    /// Of a ConfigMap or Secret: an upper bound of its last change of content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub changed_at: Option<Timestamp>,
    /// The rules that make it, or would; the one that it belongs to first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_by: Vec<Made>,
    /// The rules that copy it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copied_by: Vec<Copied>,
    /// Of what can be a copy or declared by a template: who may edit it, and where that is best done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<String>,
    /// Of a ConfigMap or Secret: what uses it, and whether that restarts when it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_change: Vec<User>,
    /// Of a workload whose restarts somebody asks for: whether it restarts, and what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartOutlook>,
    /// Of a workload: what it uses, and whether it restarts when that changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<Used>,
}

/// A rule behind a copy.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    /// `namespace/name`, of a template `namespace/template:name`; none where the copy belongs to nobody any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What is copied, or the template that declares the object: `Kind namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What a template declares the object for, where that is an object: `Kind namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Of an object that Kubernetes deletes together with what it was declared for: that kind and its API version. It goes when the
    /// definition of the kind is deleted, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goes_with: Option<String>,
    /// The fields that a template's expressions give, as the template writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Keyed digest of what was written, where the object is this rule's copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whose rights the rule acts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Who wrote its spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What becomes of the copy.
    pub action: Course,
    /// The reason, in one word.
    #[schemars(with = "String")]
    pub reason: Reason,
    /// The reason, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it goes, where nobody wants it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
}

/// A field whose value a template's expressions give.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Field {
    /// Its path in the manifest, such as `spec.replicas`.
    pub path: String,
    /// What the template writes there, such as `${object.spec.size}`.
    pub text: String,
}

/// A rule that copies the object.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Copied {
    pub rule: String,
    /// Copies that it makes of it.
    pub copies: usize,
    /// How many of them are in order.
    pub current: usize,
}

/// What uses an object.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// What uses it: a workload, or the pods without one that a monitor finds.
    #[serde(flatten)]
    pub of: Restartable,
    /// It restarts when the object changes.
    pub restarts: bool,
    /// The monitors that ask for that, in its own namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<String>,
    /// Its own annotation asks for that.
    pub by_annotation: bool,
    /// How the workload stands, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<RestartState>,
    /// Why it does not restart, or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<RestartReason>,
    /// The state, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What a workload uses.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    pub kind: String,
    pub name: String,
    pub exists: bool,
    /// The workload restarts when it changes.
    pub restarts: bool,
    /// `namespace/name` of the source, where it is a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

impl Made {
    /// Whether a template declares the object, so that it is no copy.
    pub fn is_declared(&self) -> bool {
        let rule = self.rule.as_deref().and_then(Declarer::parse);
        rule.is_some_and(|rule| rule.as_template().is_some())
    }
}

impl Why {
    /// Kind and name of everything that restarts when the object changes.
    pub(super) fn restarting(&self) -> impl Iterator<Item = (&str, Arc<str>)> {
        self.on_change.iter().filter(|user| user.restarts).map(|user| (user.of.kind(), user.of.name()))
    }

    fn new(sort: Sort, namespace: &str, name: &str) -> Self {
        Self {
            object: sort.to_string(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            exists: true,
            changed_at: None,
            made_by: Vec::new(),
            copied_by: Vec::new(),
            edit: None,
            on_change: Vec::new(),
            restart: None,
            uses: Vec::new(),
        }
    }
}

/// The answer; `None` if the object does not exist and is not planned.
pub(super) fn why(seen: &Seen<'_>, named: &Named, namespace: &str) -> Option<Why> {
    let name = named.name.as_str();
    match named.known_in(seen.world).sort {
        Sort::Object(kind) => of_object(seen, &ObjectKey::new(kind, namespace, name)),
        Sort::Workload(kind) => {
            of_workload(seen, &WorkloadKey { kind, namespace: namespace.into(), name: name.into() })
        }
        Sort::Rule | Sort::Template | Sort::Further => None,
    }
}

fn of_object(seen: &Seen<'_>, object: &ObjectKey) -> Option<Why> {
    let facts = seen.world.object(object);
    let made_by = made_by(seen, object);
    if facts.is_none() && made_by.is_empty() {
        return None;
    }
    let is_guarded = facts.is_some_and(ObjectFacts::is_guarded);
    let edit = edit(&made_by, object.kind).unwrap_or_else(|| match is_guarded {
        true => "only users with the verb override on copies.copyrator.dev: an admission policy protects the object because of its label, \
         although it is not a copy and Copyrator does not update it; let such a user delete the object, or remove the label \
         copyrator.dev/rule"
            .to_owned(),
        false => "every user with RBAC rights on the object: it is not a copy".to_owned(),
    });
    Some(Why {
        exists: facts.is_some(),
        changed_at: facts.map(|facts| facts.changed_at),
        made_by,
        copied_by: copied_by(seen, object),
        edit: facts.map(|_| edit),
        on_change: users(seen, object),
        ..Why::new(Sort::Object(object.kind), &object.namespace, &object.name)
    })
}

/// The rules or templates that make an object, or would make the object; first the rule or template that the
/// object belongs to.
fn made_by(seen: &Seen<'_>, object: &ObjectKey) -> Vec<Made> {
    let of_it = seen.outlooks.iter().filter(|outlook| outlook.slot == *object);
    let mut made_by: Vec<Made> = of_it.map(|outlook| made(seen.world, outlook)).collect();
    made_by.sort_by_key(|made| made.digest.is_none());
    made_by
}

/// Who may edit the object, and the best place to edit it; `None` for an object that Copyrator did not make.
fn edit(made_by: &[Made], kind: Kind) -> Option<String> {
    let made = made_by.first().filter(|made| made.digest.is_some())?;
    let origin = made.source.as_ref()?;
    let read = match &made.instance {
        Some(instance) => format!("of {instance} or of the namespace"),
        None => "of the namespace".to_owned(),
    };
    Some(match (made.is_declared(), kind.is_whole()) {
        (true, true) => format!(
            "{origin}, or the fields {read} that its expressions read; only users with the verb override on copies.copyrator.dev may edit \
             the object itself, and Copyrator reverts the edit"
        ),
        (true, false) => format!(
            "{origin}, or the fields {read} that its expressions read; users with RBAC rights may edit other fields of the object, and \
             Copyrator reverts edits of declared fields"
        ),
        (false, _) => format!(
            "its source, {origin}; only users with the verb override on copies.copyrator.dev may edit the copy itself, and Copyrator \
             reverts the edit"
        ),
    })
}

fn made(world: &World, outlook: &CopyRow) -> Made {
    let rule = outlook.rule.as_ref();
    let marks = world.object(&outlook.slot).and_then(|facts| facts.marks.as_deref());
    let is_its = |rule: &Declarer| marks.is_some_and(|marks| marks.rule == *rule);
    // An object that blocks the slot is not a copy of this rule. A source that lost the slot to a second
    // source (`DuplicateName`) has no copy in the slot.
    let has_it = rule.is_some_and(is_its) && outlook.reason != ProblemReason::DuplicateName.into();
    let digest = marks.filter(|_| has_it).map(|marks| marks.digest.to_string());
    let declared = rule.and_then(|rule| world.declaration(rule));
    Made {
        rule: rule.map(ToString::to_string),
        source: origin_of(world, outlook).map(|origin| origin.to_string()),
        instance: outlook.instance.clone(),
        goes_with: rule.and_then(|rule| goes_with(world, rule, &outlook.slot)),
        fields: rule.map(|rule| fields(world, rule, &outlook.slot)).unwrap_or_default(),
        digest,
        identity: rule.and_then(|rule| Some(world.rule_authority(rule)?.identity.clone())),
        author: declared.and_then(|declared| Some(author(declared.annotations()).ok()?.user)),
        action: outlook.state.action(),
        reason: outlook.reason,
        message: outlook.message.clone(),
        at: outlook.at,
    }
}

/// The kind of the instance with which Kubernetes deletes this object; `None` if the object has no owner (any
/// more).
fn goes_with(world: &World, template: &Declarer, slot: &ObjectKey) -> Option<String> {
    let compiled = world.templates().get(template)?.compiled.as_deref().ok()?;
    let is_owned = world.object(slot).is_none_or(|facts| facts.owners != Owner::NONE);
    compiled.owning_any().filter(|_| is_owned).map(ToString::to_string)
}

/// The fields of an object that a template's expressions give.
fn fields(world: &World, template: &Declarer, slot: &ObjectKey) -> Vec<Field> {
    let compiled = world.templates().get(template).and_then(|facts| facts.compiled.as_deref().ok());
    let rendered = world.rendered_at(slot).find(|(name, ..)| *name == template);
    let declared = compiled
        .zip(rendered)
        .and_then(|(compiled, (_, _, _, rendered))| compiled.objects.get(usize::from(rendered.position)));
    let fields = declared.into_iter().flat_map(CompiledObject::written_fields);
    fields.map(|WrittenField { path, text }| Field { path, text }).collect()
}

fn copied_by(seen: &Seen<'_>, object: &ObjectKey) -> Vec<Copied> {
    let mut all: Vec<Copied> = Vec::new();
    let itself = Origin::Object(object.clone());
    let of_it =
        seen.outlooks.iter().filter(|outlook| origin_of(seen.world, outlook).as_ref() == Some(&itself));
    for outlook in of_it {
        let Some(rule) = outlook.rule.as_ref().map(ToString::to_string) else { continue };
        let current = usize::from(outlook.state == CopyState::Current);
        match all.iter_mut().find(|copied| copied.rule == rule) {
            Some(known) => {
                known.copies += 1;
                known.current += current;
            }
            None => all.push(Copied { rule, copies: 1, current }),
        }
    }
    all
}

fn users(seen: &Seen<'_>, object: &ObjectKey) -> Vec<User> {
    let mut users: Vec<User> = Vec::new();
    for change in on_change(seen.world, object) {
        let of = Restartable::Workload(change.workload);
        let outlook = restart_of(seen, &of);
        let waits = || outlook.map(|outlook| (outlook.reason.clone(), outlook.message.clone()));
        let restarts = change.declined.is_none();
        let (reason, message) = change.declined.or_else(waits).unzip();
        users.push(User {
            of,
            restarts,
            monitors: change.monitors.iter().map(|monitor| monitor.named().name.to_string()).collect(),
            by_annotation: change.by_annotation,
            state: outlook.map(|outlook| outlook.state.clone()),
            reason,
            message: message.unwrap_or_default(),
        });
    }
    for monitor in monitors_watching(seen.world, object) {
        let of = Restartable::Pods(monitor.clone());
        let Some(outlook) = restart_of(seen, &of) else { continue };
        users.push(User {
            of,
            restarts: true,
            monitors: vec![monitor.named().name.to_string()],
            by_annotation: false,
            state: Some(outlook.state.clone()),
            reason: Some(outlook.reason.clone()),
            message: outlook.message.clone(),
        });
    }
    users
}

fn restart_of<'s>(seen: &Seen<'s>, of: &Restartable) -> Option<&'s RestartOutlook> {
    seen.restarts.iter().find(|outlook| outlook.of == *of)
}

fn of_workload(seen: &Seen<'_>, key: &WorkloadKey) -> Option<Why> {
    let world = seen.world;
    let declared = Some(key).filter(|key| key.kind == WorkloadKind::Deployment);
    let declared =
        declared.map(|key| ObjectKey::new(Kind::Deployment, key.namespace.clone(), key.name.clone()));
    let made_by = declared.map(|object| made_by(seen, &object)).unwrap_or_default();
    let facts = world.workloads().get(key);
    if facts.is_none() && made_by.is_empty() {
        return None;
    }
    let restart = restart_of(seen, &Restartable::Workload(key.clone())).cloned();
    let uses = facts.into_iter().flat_map(|facts| &facts.references).map(|reference| {
        let object = ObjectKey::new(reference.kind, key.namespace.clone(), reference.name.clone());
        let counts = |change: &crate::explain::OnChange| change.workload == *key && change.declined.is_none();
        let known = world.object(&object);
        Used {
            kind: reference.kind.to_string(),
            name: reference.name.to_string(),
            exists: known.is_some(),
            restarts: on_change(world, &object).iter().any(counts),
            copy_of: known.and_then(|facts| Some(facts.marks.as_deref()?.origin().to_string())),
        }
    });
    let uses = uses.collect();
    Some(Why {
        exists: facts.is_some(),
        edit: edit(&made_by, Kind::Deployment).filter(|_| facts.is_some()),
        made_by,
        restart,
        uses,
        ..Why::new(Sort::Workload(key.kind), &key.namespace, &key.name)
    })
}
