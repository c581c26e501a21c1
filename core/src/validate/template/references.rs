//! Checks the references between a template's objects: their ids, their order, and feedback loops in which
//! each write would cause the next.

use std::collections::BTreeSet;

use copyrator_cel::RESERVED;

use super::{
    node::{Formula, Node},
    object::CompiledObject,
    order::order,
};
use crate::{
    api::{ConflictPolicy, CopyratorTemplateSpec, Problem},
    validate::{invalid, template_kinds::group},
};

/// Ids that no object of a template can have, beside CEL's reserved words: names of variables, and of
/// libraries of functions.
const TAKEN: [&str; 14] = [
    "base64",
    "format",
    "ip",
    "jsonpatch",
    "lists",
    "math",
    "namespaceObject",
    "object",
    "optional",
    "pods",
    "request",
    "self",
    "sets",
    "strings",
];
/// The kinds whose pods an expression can read.
const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// Checks that ids are valid and unique, and that no two objects have the same kind and name.
pub(super) fn ids(objects: &[CompiledObject], problems: &mut Vec<Problem>) {
    let (mut known, mut slots) = (BTreeSet::new(), BTreeSet::new());
    for (index, object) in objects.iter().enumerate() {
        let id = &object.id;
        let at = format!("spec.objects[{index}].id");
        let mut bytes = id.bytes();
        let is_identifier = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_identifier {
            problems.push(invalid(
                &at,
                format!("{id:?} is not a valid id: use letters, digits and _, and no digit first"),
            ));
        } else if RESERVED.contains(&id.as_str()) || TAKEN.contains(&id.as_str()) {
            problems.push(invalid(&at, format!("{id:?} is reserved; choose another name")));
        } else if !known.insert(id) {
            problems.push(invalid(&at, format!("{id:?} is already the id of another object")));
        }
        let slot = match &object.name {
            Node::Literal(name) => name.as_str().map(|name| (group(&object.api_version), &object.kind, name)),
            _ => None,
        };
        if slot.is_some_and(|slot| !slots.insert(slot)) {
            let what = format!("another object is also a {} with this name", object.kind);
            problems.push(invalid(&format!("spec.objects[{index}].template.metadata.name"), what));
        }
    }
}

/// Checks that expressions read the pods of workloads only.
pub(super) fn pods<'f>(
    objects: &[CompiledObject],
    all: impl Iterator<Item = &'f Formula>,
    problems: &mut Vec<Problem>,
) {
    let others: Vec<_> = objects.iter().filter(|object| !WORKLOADS.contains(&object.kind.as_str())).collect();
    for formula in all {
        if let Some(object) = others.iter().find(|object| formula.expression.reads(&object.pods)) {
            let what = format!(
                "${{{}}}: {} is a {}, but pods(…) needs a Deployment, StatefulSet or DaemonSet",
                formula.source, object.id, object.kind
            );
            problems.push(invalid("spec.objects", what));
        }
    }
}

/// Sorts the objects into the order in which they can be created.
pub(super) fn sort(objects: &mut Vec<CompiledObject>, problems: &mut Vec<Problem>) {
    let reads = |one: &CompiledObject| {
        let is_read =
            |other: &(usize, &CompiledObject)| one.formulas().any(|formula| other.1.is_read_by(formula));
        objects.iter().enumerate().filter(is_read).map(|(index, _)| index).collect()
    };
    let reads: Vec<BTreeSet<usize>> = objects.iter().map(reads).collect();
    match order(&reads) {
        Ok(order) => {
            let mut unsorted: Vec<Option<CompiledObject>> = objects.drain(..).map(Some).collect();
            objects.extend(order.into_iter().filter_map(|index| unsorted[index].take()));
        }
        Err(circle) => {
            let mut names: Vec<&str> = circle.iter().map(|index| objects[*index].id.as_str()).collect();
            names.extend(names.first().copied());
            let names = names.join(" → ");
            let what = format!("{names} depend on each other in a circle; remove one of the references");
            problems.push(invalid("spec.objects", what));
        }
    }
}

/// Reports expressions that read a status field that `writeStatus` writes: each write would cause the next.
pub(super) fn feedback(
    spec: &CopyratorTemplateSpec,
    objects: &[CompiledObject],
    status: Option<&Node>,
    problems: &mut Vec<Problem>,
) {
    let Some(written) = &spec.write_status else { return };
    let is_fed_back = |formula: &&Formula| {
        formula.expression.paths().iter().any(|path| {
            path.variable == "object"
                && match path.steps.as_slice() {
                    [] => true,
                    [one] => one == "status",
                    [one, field, ..] => one == "status" && written.contains_key(field),
                }
        })
    };
    let mut say = |of: &str, formula: &Formula| {
        let source = &formula.source;
        let what = format!(
            "{of}: ${{{source}}} reads a field of object.status that writeStatus writes; read the template's objects instead"
        );
        problems.push(invalid("spec.writeStatus", what));
    };
    for object in objects {
        object.formulas().filter(is_fed_back).for_each(|formula| say(&object.id, formula));
    }
    let own = status.into_iter().flat_map(Node::formulas);
    own.filter(is_fed_back).for_each(|formula| say("writeStatus", formula));
}

/// Refuses to take over objects whose names come from the instance: the creator of the instance would choose
/// which object is taken over.
pub(super) fn takeovers(
    spec: &CopyratorTemplateSpec,
    objects: &[CompiledObject],
    problems: &mut Vec<Problem>,
) {
    if spec.conflict_policy == ConflictPolicy::Refuse {
        return;
    }
    for object in objects {
        let paths = object.name.paths();
        if let Some(path) = paths.into_iter().find(|path| path.variable != "namespaceObject") {
            let (id, policy) = (&object.id, spec.conflict_policy);
            let what = format!(
                "{policy:?} is not allowed, because the name of {id} reads {}: the user who creates an instance could choose the object \
                 to take over; use Refuse, or a name that reads only namespaceObject",
                path.variable
            );
            problems.push(invalid("spec.conflictPolicy", what));
        }
    }
}
