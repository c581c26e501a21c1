//! What is said where a kind is not granted, its objects are not known, or its schema has no place for what a template says.

use super::templates::{not_granted_object, not_read_kind, unknown_kind};
use crate::{
    api::Problem,
    model::{InstancesRead, World},
    names::{InstanceKind, Kind},
    plan::Reason,
    validate::{CompiledObject, CompiledTemplate},
};

/// What is said where objects of a rule's kind are not copied here, with the way out.
pub(crate) fn not_granted(kind: Kind) -> String {
    format!(
        "this Copyrator writes no {kind}: have {kind} added to the chart's value copies.kinds (--copy-kinds); until then \
         nothing is written or removed here"
    )
}

/// Why a template's kinds are not granted, with the way out; `None` where they are.
pub(crate) fn not_granted_to(world: &World, compiled: &CompiledTemplate) -> Option<String> {
    let unwritten = |object: &CompiledObject| match Kind::written_as(&object.api_version, &object.kind) {
        Some(kind) => not_granted(kind),
        None => {
            let CompiledObject { api_version, kind, .. } = object;
            format!(
                "this Copyrator writes no {kind} of {api_version}: have {{apiVersion: {api_version}, kind: {kind}, resource: …, \
                 use: [render]}} added to the chart's value templates.kinds (--template-kinds); until then nothing is written or \
                 removed here"
            )
        }
    };
    let unread = |kind: &InstanceKind| {
        let (what, used) = match compiled.writes_status() {
            true => ("reads no {kind}, or writes no status of it", "forEach, status"),
            false => ("reads no {kind}", "forEach"),
        };
        let what = what.replace("{kind}", &kind.to_string());
        format!(
            "this Copyrator {what}: have {{apiVersion: {}, kind: {}, resource: …, use: [{used}]}} added to the chart's value \
             templates.kinds (--template-kinds); until then nothing is written or removed here",
            kind.api_version, kind.kind
        )
    };
    let unwritten = not_granted_object(world, compiled).map(unwritten);
    unwritten.or_else(|| not_read_kind(world, compiled).map(unread))
}

/// Why objects that a template is rendered for, or declares, are not known: reason and message.
pub(crate) fn not_listed(world: &World, compiled: &CompiledTemplate) -> Option<(Reason, String)> {
    let (kind, read) = unknown_kind(world, compiled)?;
    Some(match read {
        InstancesRead::NotServed => {
            let message = format!(
                "the API server serves no {kind}: apply its definition; until then nothing is written or removed here"
            );
            (Reason::KindNotServed, message)
        }
        InstancesRead::Failed(why) => (
            Reason::KindUnread,
            format!("{kind} cannot be listed, and nothing is written or removed here: {why}"),
        ),
        InstancesRead::NotYet | InstancesRead::Listed | InstancesRead::Doubtful => {
            (Reason::KindUnread, format!("{kind} has not been listed yet"))
        }
    })
}

/// What is said before it is known whether the API server would take what a template says.
pub(crate) const UNJUDGED: &str =
    "its fields are held against the schemas of their kinds first; nothing is written or removed before";

/// What is said where the API server would refuse what a template says.
pub(crate) fn mistyped(faults: &[Problem]) -> String {
    let first = faults.first().map(|fault| fault.message.as_str()).unwrap_or_default();
    let more = match faults.len() {
        0 | 1 => String::new(),
        2 => "; and 1 more".to_owned(),
        number => format!("; and {} more", number - 1),
    };
    format!(
        "{first}{more}; nothing is written or removed until the template or the definition of the kind is changed"
    )
}
