//! Builds trees: source, copies, workloads. This pure module reads plans and facts, and makes no decisions.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    explain::{CopyRow, CopyState, Course, OnChange, RestartOutlook, Restartable, on_change},
    model::World,
    names::{Declarer, NamespacedName, ObjectKey},
    plan::{
        copy::status_of,
        restart::{RestartState, monitors_watching},
    },
    survey::Survey,
};

/// The input of trees.
pub struct Seen<'s> {
    /// The surveyed world.
    pub world: &'s World,
    /// The planned action on each copy to show.
    pub outlooks: Vec<&'s CopyRow>,
    /// The state of each workload; empty if the caller may not read workloads.
    pub restarts: &'s [RestartOutlook],
    /// The time of the survey.
    pub now: Timestamp,
}

impl<'s> Seen<'s> {
    /// The input about one namespace, or about all.
    pub(crate) fn of(survey: &'s Survey, namespace: Option<&str>) -> Self {
        let restarts = survey.restarts.as_deref().unwrap_or_default();
        Self { world: &survey.world, outlooks: survey.shown(namespace), restarts, now: survey.now }
    }
}

/// Trees, and the notes on their nodes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Forest {
    /// The sources, each with its copies.
    pub roots: Vec<Node>,
    /// The notes that nodes refer to by number.
    pub notes: Vec<Note>,
}

/// A node: one object.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// For a copy: the rule that makes it, `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What becomes of a copy, or the state of a workload; one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<NodeState>,
    /// The numbers of the notes on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<usize>,
    /// The copies of the object, and the workloads that use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// The state of a node; as JSON, one word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeState {
    /// The planned action on a copy.
    Copy(Course),
    /// The state of a workload.
    Workload(RestartState),
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(course) => course.fmt(f),
            Self::Workload(state) => state.fmt(f),
        }
    }
}

/// A note on nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Note {
    pub number: usize,
    /// The reason, one word.
    pub reason: String,
    pub message: String,
}

impl Forest {
    /// The kind and name of every node.
    pub(super) fn kinds_and_names(&self) -> Vec<(&str, &str)> {
        fn below<'n>(node: &'n Node, all: &mut Vec<(&'n str, &'n str)>) {
            all.push((&node.kind, &node.name));
            node.children.iter().for_each(|child| below(child, all));
        }
        let mut all = Vec::new();
        self.roots.iter().for_each(|root| below(root, &mut all));
        all
    }

    /// Merges the trees of a second namespace into these. Trees of the same root become one.
    pub fn and(mut self, other: Self) -> Self {
        let numbers: BTreeMap<usize, usize> =
            other.notes.iter().map(|note| (note.number, self.note(&note.reason, &note.message))).collect();
        for mut root in other.roots {
            root.renumber(&numbers);
            let is_it = |one: &Node| {
                (&one.kind, &one.namespace, &one.name) == (&root.kind, &root.namespace, &root.name)
            };
            match self.roots.iter_mut().find(|one| is_it(one)) {
                Some(known) => {
                    let new = root.children.into_iter().filter(|child| !known.children.contains(child));
                    known.children.extend(new.collect::<Vec<_>>());
                }
                None => self.roots.push(root),
            }
        }
        self
    }

    /// The number of a note; equal notes share one.
    fn note(&mut self, reason: &str, message: &str) -> usize {
        let is_it = |note: &&Note| note.reason == reason && note.message == message;
        if let Some(known) = self.notes.iter().find(is_it) {
            return known.number;
        }
        let number = self.notes.len() + 1;
        self.notes.push(Note { number, reason: reason.to_owned(), message: message.to_owned() });
        number
    }

    /// Adds a source with these copies and with its own users, or a template with the objects that it
    /// declares.
    fn plant(&mut self, seen: &Seen<'_>, origin: &Origin, copies: &[&CopyRow]) {
        let (mut root, is_there) = match origin {
            Origin::Object(source) => (node(source), seen.world.object(source).is_some()),
            Origin::Template(template) => (declared(template), seen.world.templates().contains_key(template)),
        };
        if !is_there {
            root.notes.push(self.note("Gone", "the source no longer exists"));
        }
        if let Origin::Object(source) = origin {
            root.children = self.users(seen, source);
        }
        root.children.extend(copies.iter().map(|outlook| self.copy(seen, outlook)));
        self.roots.push(root);
    }

    fn copy(&mut self, seen: &Seen<'_>, outlook: &CopyRow) -> Node {
        let state = Some(NodeState::Copy(outlook.state.action()));
        let notes = match outlook.state {
            CopyState::Current => Vec::new(),
            _ => vec![self.note(outlook.reason.as_str(), &outlook.message)],
        };
        // The object is shown below its template, so the rule is not named.
        let rule = outlook.rule.as_ref().filter(|rule| rule.as_template().is_none()).map(ToString::to_string);
        // The users of an object that blocks the slot do not belong to the source.
        let children =
            if outlook.state == CopyState::Blocked { Vec::new() } else { self.users(seen, &outlook.slot) };
        Node { rule, state, notes, children, ..node(&outlook.slot) }
    }

    /// The workloads that use an object, and the pods that a monitor selects itself.
    fn users(&mut self, seen: &Seen<'_>, object: &ObjectKey) -> Vec<Node> {
        let mut users: Vec<Node> =
            on_change(seen.world, object).iter().map(|change| self.workload(seen, change)).collect();
        for monitor in monitors_watching(seen.world, object) {
            let of = Restartable::Pods(monitor.clone());
            let Some(outlook) = seen.restarts.iter().find(|outlook| outlook.of == of) else { continue };
            users.push(Node {
                kind: "Pods".into(),
                namespace: monitor.namespace().to_string(),
                name: monitor.named().name.to_string(),
                rule: None,
                state: Some(NodeState::Workload(outlook.state.clone())),
                notes: self.standing(outlook),
                children: Vec::new(),
            });
        }
        users
    }

    fn workload(&mut self, seen: &Seen<'_>, change: &OnChange) -> Node {
        let key = &change.workload;
        let of = Restartable::Workload(key.clone());
        let outlook = seen.restarts.iter().find(|outlook| outlook.of == of);
        let declined = change.declined.as_ref().map(|(reason, message)| self.note(reason.as_str(), message));
        let standing = match (declined, outlook) {
            (None, Some(outlook)) => self.standing(outlook),
            _ => Vec::new(),
        };
        Node {
            kind: key.kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            rule: None,
            state: outlook.map(|outlook| NodeState::Workload(outlook.state.clone())),
            notes: declined.into_iter().chain(standing).collect(),
            children: Vec::new(),
        }
    }

    fn standing(&mut self, outlook: &RestartOutlook) -> Vec<usize> {
        match outlook.state {
            RestartState::Current => Vec::new(),
            _ => vec![self.note(outlook.reason.as_str(), &outlook.message)],
        }
    }
}

impl Node {
    fn renumber(&mut self, numbers: &BTreeMap<usize, usize>) {
        for note in &mut self.notes {
            *note = numbers.get(note).copied().unwrap_or(*note);
        }
        self.children.iter_mut().for_each(|child| child.renumber(numbers));
    }
}

fn node(object: &ObjectKey) -> Node {
    Node {
        kind: object.kind.to_string(),
        namespace: object.namespace.to_string(),
        name: object.name.to_string(),
        rule: None,
        state: None,
        notes: Vec::new(),
        children: Vec::new(),
    }
}

/// A rule or template as a node.
fn declared(name: &Declarer) -> Node {
    let (kind, NamespacedName { namespace, name }) = match name {
        Declarer::Template(name) => ("CopyratorTemplate", name.clone()),
        _ => ("CopyratorRule", name.named()),
    };
    Node {
        kind: kind.into(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        rule: None,
        state: None,
        notes: Vec::new(),
        children: Vec::new(),
    }
}

/// Where the content of an object comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The object is a copy of this source.
    Object(ObjectKey),
    /// This template declares the object.
    Template(Declarer),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(source) => source.fmt(f),
            Self::Template(template) => f.write_str(&template.said()),
        }
    }
}

/// The origin of a copy: a source of the kind that its rule names or, if the rule is gone, of the copy's own
/// kind.
pub fn origin_of(world: &World, outlook: &CopyRow) -> Option<Origin> {
    let source = outlook.source.as_ref()?;
    if let Some(template @ Declarer::Template(_)) = &outlook.rule {
        return Some(Origin::Template(template.clone()));
    }
    let facts = outlook.rule.as_ref().and_then(|rule| world.rules().get(rule));
    let kind = facts.and_then(|facts| Some(facts.compiled.as_ref().ok()?.kind)).unwrap_or(outlook.slot.kind);
    Some(Origin::Object(ObjectKey::new(kind, source.namespace.clone(), source.name.clone())))
}

/// The trees of all sources.
pub(super) fn grow(seen: &Seen<'_>) -> Forest {
    plant_all(seen, |_| true)
}

fn plant_all(seen: &Seen<'_>, is_shown: impl Fn(&CopyRow) -> bool) -> Forest {
    let mut origins: BTreeMap<Origin, Vec<&CopyRow>> = BTreeMap::new();
    for outlook in seen.outlooks.iter().copied().filter(|outlook| is_shown(outlook)) {
        if let Some(origin) = origin_of(seen.world, outlook) {
            origins.entry(origin).or_default().push(outlook);
        }
    }
    let mut forest = Forest::default();
    for (origin, mut copies) in origins {
        copies.sort_by(|a, b| (&a.slot, &a.rule).cmp(&(&b.slot, &b.rule)));
        forest.plant(seen, &origin, &copies);
    }
    forest
}

/// The tree of one object, or of its source if the object is a copy; `None` for an object that does not
/// exist.
pub(super) fn of_object(seen: &Seen<'_>, object: &ObjectKey) -> Option<Forest> {
    let itself = Origin::Object(object.clone());
    let is_source = |outlook: &CopyRow| origin_of(seen.world, outlook).as_ref() == Some(&itself);
    let as_source = plant_all(seen, is_source);
    if !as_source.roots.is_empty() {
        return Some(as_source);
    }
    let as_copy = plant_all(seen, |outlook| outlook.slot == *object);
    if !as_copy.roots.is_empty() {
        return Some(as_copy);
    }
    seen.world.object(object)?;
    let mut forest = Forest::default();
    forest.plant(seen, &itself, &[]);
    Some(forest)
}

/// The trees of a rule's sources, or of a template; `None` if the rule or template does not exist.
pub(super) fn of_rule(seen: &Seen<'_>, rule: &Declarer) -> Option<Forest> {
    let mut forest = plant_all(seen, |outlook| outlook.rule.as_ref() == Some(rule));
    if !forest.roots.is_empty() {
        return Some(forest);
    }
    let status = status_of(seen.world, rule, seen.now)?;
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let note = ready.map(|ready| forest.note(&ready.reason, &ready.message));
    forest.roots.push(Node { notes: note.into_iter().collect(), ..declared(rule) });
    Some(forest)
}
