//! Sources and target namespaces that a rule names and that do not exist.

use super::{inert::source_namespaces, targets::targets};
use crate::{
    model::{Store, World},
    names::{Declarer, Kind, ObjectKey},
    validate::CompiledRule,
};

/// The maximum number of names in a message; the message gives only the number of further names.
const NAMED: usize = 3;

/// The sources that a rule names literally, without a selector, and that do not exist.
pub(super) fn absent_sources(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Vec<ObjectKey> {
    let by_name = compiled.names.as_ref().filter(|_| compiled.object_selector.is_none());
    let names = by_name.map_or(&[][..], |names| names.names());
    let places = source_namespaces(rule, compiled);
    let named = places.flat_map(|namespace| {
        names.iter().map(move |name| ObjectKey::new(compiled.kind, namespace, name.as_str()))
    });
    named.filter(|key| world.object(key).is_none()).collect()
}

/// The target namespaces that a rule names literally and that do not exist. Empty if the process reads only
/// some namespaces: a namespace that it does not read may exist.
pub(super) fn absent_targets<'w>(world: &World, compiled: &'w CompiledRule) -> Vec<&'w str> {
    let named =
        compiled.targets.iter().filter_map(|term| term.names.as_ref()).flat_map(|names| names.names());
    let named = named.map(String::as_str).filter(|name| !compiled.exclude.matches(name));
    named
        .filter(|name| world.namespace_scope().is_none() && !world.namespaces().contains_key(*name))
        .collect()
}

/// What a rule does not do yet for lack of namespaces, in words. Empty if the process reads only some
/// namespaces, since namespaces that it does not read may exist.
pub(crate) fn lacking_targets(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Vec<String> {
    if world.namespace_scope().is_some() {
        return Vec::new();
    }
    let absent = absent_targets(world, compiled);
    let pronoun = if absent.len() == 1 { "it is" } else { "they are" };
    let named = namespaces_absent(&absent)
        .map(|said| format!("{said}: Copyrator copies there once {pronoun} created"));
    let only_source = match source_namespaces(rule, compiled).collect::<Vec<_>>()[..] {
        [one] => Some(one),
        _ => None,
    };
    let is_nowhere = !names_only(compiled, &absent)
        && targets(world, compiled).all(|namespace| Some(&**namespace) == only_source);
    let nowhere = is_nowhere.then(|| {
        "spec.targets matches no namespace now: Copyrator copies to namespaces that match later".to_owned()
    });
    named.into_iter().chain(nowhere).collect()
}

/// The literally named sources that do not exist, in words; `None` if all exist, or if this process does not
/// watch objects of the kind.
pub(crate) fn lacking_sources(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Option<String> {
    sees_sources(world, rule, compiled).then(|| sources_not_found(&absent_sources(world, rule, compiled)))?
}

/// Whether this process knows the objects among which a rule's sources are. The sources of a rule that is
/// about to be written may be in a namespace that no rule has needed so far.
pub(crate) fn sees_sources(world: &World, rule: &Declarer, compiled: &CompiledRule) -> bool {
    world.settings().stores.contains(&Store::of(compiled.kind))
        && world.namespace_scope().is_none()
        && source_namespaces(rule, compiled).all(|namespace| world.knows(compiled.kind, namespace))
}

/// Whether a rule's targets are always exactly these namespaces.
pub(super) fn names_only(compiled: &CompiledRule, namespaces: &[&str]) -> bool {
    !namespaces.is_empty()
        && compiled.targets.iter().all(|term| {
            let names = term.names.as_ref().and_then(|names| names.literals());
            names.is_some_and(|names| names.iter().all(|name| namespaces.contains(&name.as_str())))
        })
}

/// Says that some sources were not found; `None` for an empty list.
pub(super) fn sources_not_found(sources: &[ObjectKey]) -> Option<String> {
    let noun = if sources.len() == 1 { "source" } else { "sources" };
    let has_secrets = sources.iter().any(|source| source.kind == Kind::Secret);
    // The lists of Secrets leave these types out (`model::SECRETS`), so that such a Secret looks like none.
    let types = if has_secrets { " (Helm releases and tokens are never copied)" } else { "" };
    listed(sources).map(|names| format!("{noun} {names} not found{types}"))
}

/// Says that some namespaces do not exist; `None` for an empty list.
pub(super) fn namespaces_absent(namespaces: &[&str]) -> Option<String> {
    let (noun, verb) = if namespaces.len() == 1 { ("namespace", "does") } else { ("namespaces", "do") };
    listed(namespaces).map(|names| format!("{noun} {names} {verb} not exist"))
}

/// The first names in words, and how many more follow; `None` for an empty list.
pub(super) fn listed(names: &[impl ToString]) -> Option<String> {
    let first: Vec<String> = names.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named_and_the_others_counted() {
        assert_eq!(namespaces_absent(&[]), None);
        assert_eq!(namespaces_absent(&["shpo"]).unwrap(), "namespace shpo does not exist");
        assert_eq!(
            namespaces_absent(&["a", "b", "c", "d", "e"]).unwrap(),
            "namespaces a, b, c and 2 more do not exist"
        );
    }
}
