//! The kinds of the objects that a survey lists.

use crate::{
    model::{TemplateFacts, World},
    names::Kind,
};

/// The kinds to read besides ConfigMaps and Secrets.
pub(super) fn further(world: &World) -> Vec<Kind> {
    world.settings().copy_kinds.iter().copied().collect()
}

/// The kinds to read besides ConfigMaps and Secrets if templates are not served: the kinds that rules copy.
pub(super) fn of_rules(world: &World) -> Vec<Kind> {
    further(world).into_iter().filter(|kind| kind.is_copied()).collect()
}

/// The kind with this group and plural: ConfigMap, Secret, or one of `further`.
pub(super) fn copied(further: &[Kind], group: &str, plural: &str) -> Option<Kind> {
    let is_one = |kind: &Kind| (kind.resource().group, kind.resource().plural) == (group, plural);
    [Kind::ConfigMap, Kind::Secret].into_iter().chain(further.iter().copied()).find(is_one)
}

/// Whether a rule copies objects of a kind, or a template declares objects of the kind.
pub(super) fn is_named(world: &World, kind: Kind) -> bool {
    let declares = |facts: &TemplateFacts| {
        let granted = &world.settings().template_kinds;
        facts.compiled.as_ref().is_ok_and(|template| template.kinds(granted).any(|declared| declared == kind))
    };
    world.templates().values().any(declares)
        || world.rules().values().any(|facts| facts.compiled.as_ref().is_ok_and(|rule| rule.kind == kind))
}
