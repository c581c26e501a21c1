//! What is said where a kind is not granted, its objects are not known, or its schema has no place for what a template says.

use super::templates::{not_granted_object, not_read_kind, unknown_kind};
use crate::{
    api::Problem,
    model::{InstancesRead, World},
    names::{InstanceKind, Kind, TemplateKind},
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

/// An entry of the chart's value `templates.kinds`.
pub(super) fn entry(kind: &InstanceKind, plural: &str, uses: &[&str]) -> String {
    let InstanceKind { api_version, kind } = kind;
    format!("{{apiVersion: {api_version}, kind: {kind}, resource: {plural}, use: [{}]}}", uses.join(", "))
}

/// What to do so that a kind is granted for this, beside what it is granted for.
fn grant(world: &World, kind: &InstanceKind, lacking: &[&str]) -> String {
    let all = &world.settings().template_kinds;
    let is_it = |one: &&TemplateKind| one.kind == *kind;
    // Its versions have one plural.
    let is_version = |one: &&TemplateKind| one.kind.group() == kind.group() && one.kind.kind == kind.kind;
    let (plural, hint) = match all.iter().find(is_version) {
        Some(known) => (known.plural.as_str(), ""),
        None => ("…", ", whose resource `kubectl api-resources` names"),
    };
    let before = all.iter().filter(is_it).flat_map(TemplateKind::uses);
    let mut uses: Vec<&str> = before.filter(|one| !lacking.contains(one)).collect();
    let place = match all.iter().any(|one| is_it(&one)) {
        false => "added to the chart's value templates.kinds (--template-kinds)",
        true => "instead of the entry of this kind in the chart's value templates.kinds (--template-kinds)",
    };
    let has_place = uses.contains(&"statusField");
    uses.extend(lacking.iter().filter(|one| **one != "status" || !has_place));
    let other = match uses.contains(&"status") {
        true => {
            " (statusField in the place of status, where the definition of the kind has no status subresource)"
        }
        false => "",
    };
    let entry = entry(kind, plural, &uses);
    format!("have {entry}{other} {place}{hint}; until then nothing is written or removed here")
}

/// Why a template's kinds are not granted, with the way out; `None` where they are.
pub(crate) fn not_granted_to(world: &World, compiled: &CompiledTemplate) -> Option<String> {
    let unwritten = |object: &CompiledObject| match Kind::written_as(&object.api_version, &object.kind) {
        Some(kind) => not_granted(kind),
        None => {
            let kind = InstanceKind::new(object.api_version.as_str(), object.kind.as_str());
            format!("this Copyrator writes no {kind}: {}", grant(world, &kind, &["render"]))
        }
    };
    let unread = |kind: &InstanceKind| match compiled.writes_status() {
        true => {
            let grant = grant(world, kind, &["forEach", "status"]);
            format!("this Copyrator reads no {kind}, or writes no status of it: {grant}")
        }
        false => format!("this Copyrator reads no {kind}: {}", grant(world, kind, &["forEach"])),
    };
    let unwritten = not_granted_object(world, compiled).map(unwritten);
    unwritten.or_else(|| not_read_kind(world, compiled).map(unread))
}

/// Why objects that a template is rendered for, or declares, are not known: reason and message.
pub(crate) fn not_listed(world: &World, compiled: &CompiledTemplate) -> Option<(Reason, String)> {
    unknown_kind(world, compiled).map(|(kind, read)| unknown(&kind, read))
}

/// Why the sources of a rule are not known: the same.
pub(crate) fn not_listed_sources(world: &World, kind: Kind) -> (Reason, String) {
    let resource = kind.resource();
    unknown(&InstanceKind::new(resource.api_version, resource.kind), world.granted_read(kind))
}

fn unknown(kind: &InstanceKind, read: InstancesRead) -> (Reason, String) {
    match read {
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
    }
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
