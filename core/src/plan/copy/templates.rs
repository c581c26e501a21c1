//! Where templates declare objects, and whether it is known which.

use std::sync::Arc;

use super::targets::takes_copies;
use crate::{
    authority::Bounds,
    model::{NamespaceFacts, RenderedSet, TemplateFacts, World, hash_of},
    names::{Kind, NamespacedName, ObjectKey},
    validate::{CompiledTarget, CompiledTemplate, Instances},
};

/// Whether it is known everything that a template, as it is now, declares in one namespace.
pub(crate) fn is_rendered(
    world: &World,
    template: &NamespacedName,
    facts: &TemplateFacts,
    namespace: &str,
) -> bool {
    let is_selected = facts.compiled.as_ref().is_ok_and(|compiled| selects(world, compiled, namespace));
    let is_whole = |set: &RenderedSet| is_of(world, set, facts, namespace) && set.faults.is_empty();
    !is_selected || world.rendered(template, namespace).is_some_and(is_whole)
}

/// Whether a set was rendered from the template and the namespace as they are now.
pub(super) fn is_of(world: &World, set: &RenderedSet, facts: &TemplateFacts, namespace: &str) -> bool {
    let (Some(known), Ok(compiled)) = (world.namespaces().get(namespace), &facts.compiled) else {
        return false;
    };
    set.template.0 == facts.uid
        && set.template.1 == facts.generation
        && set.namespace == hash_of(known, compiled)
}

/// Whether a template is rendered for this namespace.
pub fn selects(world: &World, compiled: &CompiledTemplate, namespace: &str) -> bool {
    let takes = |facts: &NamespaceFacts| {
        takes_copies(world, namespace, facts) && compiled.selects_namespace(namespace, &facts.labels)
    };
    world.namespaces().get(namespace).is_some_and(takes)
}

/// The namespaces that a template is rendered for, in order.
pub fn instances<'w>(world: &'w World, compiled: &CompiledTemplate) -> impl Iterator<Item = &'w Arc<str>> {
    world.namespaces().keys().filter(|name| selects(world, compiled, name))
}

/// The first kind that a template declares and that is not written here.
pub(crate) fn not_granted_kind(world: &World, compiled: &CompiledTemplate) -> Option<Kind> {
    compiled.kinds().find(|kind| !world.settings().copies(*kind))
}

/// How many objects a template declares, if they are more than one may have.
pub fn too_many_objects(world: &World, compiled: &CompiledTemplate) -> Option<usize> {
    let most = world.settings().spread_limits.max_copies;
    if most == 0 || world.namespaces().len().saturating_mul(compiled.objects.len()) <= most {
        return None;
    }
    let objects = instances(world, compiled).count().saturating_mul(compiled.objects.len());
    (objects > most).then_some(objects)
}

/// The namespaces that a template's identity is asked about one by one, as far as they exist.
pub fn template_bounds(world: &World, compiled: &CompiledTemplate) -> Bounds {
    let tag = |name: &String| Some(Bounds::tag(name, &world.namespaces().get(name.as_str())?.uid));
    let named = compiled.literal_namespaces();
    let can_grow = named.is_none();
    let targets = named.map(|names| names.iter().filter_map(tag).collect());
    Bounds { sources: Default::default(), targets, can_grow }
}

/// Whether the current spec makes Copyrator ask about deleting objects of this kind in this namespace.
pub(super) fn asks_about(compiled: &CompiledTemplate, slot: &ObjectKey) -> bool {
    let (Instances::Namespaces { terms, .. } | Instances::Objects { namespaces: terms, .. }) =
        &compiled.instances;
    let by_name =
        |term: &CompiledTarget| term.names.as_ref().is_some_and(|names| names.matches(&slot.namespace));
    compiled.kinds().any(|kind| kind == slot.kind)
        && (compiled.literal_namespaces().is_none() || terms.iter().any(by_name))
}
