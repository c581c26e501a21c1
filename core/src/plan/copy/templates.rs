//! Finds the instances for which templates declare objects, and whether these objects are known.

use super::targets::takes_copies;
use crate::{
    api::{ConflictPolicy, DeletionPolicy},
    authority::Bounds,
    marks::Proof,
    model::{
        InstanceFacts, InstancesRead, NamespaceFacts, ObjectFacts, Owner, RenderedSet, TemplateFacts, World,
        hash_of,
    },
    names::{Declarer, InstanceKind, InstanceName, Kind, ObjectKey, TemplateKind},
    validate::{CompiledObject, CompiledTarget, CompiledTemplate, Instances, declared_kind},
};

/// Whether the current version of the template that made this object was rendered for the object's instance.
pub(crate) fn is_rendered(
    world: &World,
    template: &Declarer,
    facts: &TemplateFacts,
    slot: &ObjectKey,
) -> bool {
    let Ok(compiled) = &facts.compiled else { return true };
    let instance = made_for(world, compiled, slot);
    let unread = compiled.instance_kind().zip(instance.object());
    if unread.is_some_and(|(kind, name)| world.unreadable_instance(kind, &name).is_some()) {
        return false;
    }
    if !selects(world, template, compiled, &instance) {
        // An object that is about to be removed may still need the instance.
        let known = compiled.instance_kind().zip(instance.object());
        let known = known.and_then(|(kind, name)| world.instance(kind, &name));
        return known.is_none_or(|known| !known.terminating);
    }
    is_known(world, template, &instance)
}

/// Whether all objects are known that the current version of a template declares for this instance.
pub fn is_known(world: &World, template: &Declarer, instance: &InstanceName) -> bool {
    let Some(facts) = world.templates().get(template) else { return false };
    let is_whole = |set: &RenderedSet| is_of(world, set, facts, instance) && set.faults.is_empty();
    world.rendered(template, instance).is_some_and(is_whole)
}

/// The instance that an object of a template was made for, as the object's marks say.
pub(super) fn made_for(world: &World, compiled: &CompiledTemplate, slot: &ObjectKey) -> InstanceName {
    let marks = world.object(slot).and_then(|object| object.marks.as_deref());
    match (compiled.instance_kind(), marks) {
        (Some(_), Some(marks)) => InstanceName {
            namespace: slot.namespace.clone(),
            object: Some(marks.source.name.clone()).filter(|_| marks.source.namespace == slot.namespace),
        },
        _ => InstanceName::from(&slot.namespace),
    }
}

/// The state of the instance that an object was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfInstance {
    /// The instance exists, or the object has no instance with which Kubernetes would delete the object.
    There,
    /// The instance is gone, and Kubernetes deletes the object with it.
    Gone,
    /// The instance is gone, and its dependents were left behind (`kubectl delete --cascade=orphan`): the
    /// garbage collector removed the owner from the object before it deleted the instance.
    Orphaning,
}

/// The state of the instance of an object that this template made.
pub(super) fn of_instance(
    world: &World,
    compiled: &CompiledTemplate,
    slot: &ObjectKey,
    facts: &ObjectFacts,
) -> OfInstance {
    let known = compiled.instance_kind().zip(made_for(world, compiled, slot).object());
    let (Some((kind, name)), Some(marks)) = (known, facts.marks.as_deref()) else { return OfInstance::There };
    let is_it = |known: &InstanceFacts| *known.uid == *marks.source_uid;
    // An object that the template may have taken over never has an owner.
    if compiled.conflict != ConflictPolicy::Refuse || world.instance(kind, &name).is_some_and(is_it) {
        return OfInstance::There;
    }
    match facts.owners {
        Owner::NONE => OfInstance::Orphaning,
        _ => OfInstance::Gone,
    }
}

/// The objects that a template has made for this instance, by their marks, including objects that the
/// template no longer declares.
pub fn made_for_instance<'w>(
    world: &'w World,
    template: &'w Declarer,
    instance: &'w InstanceName,
) -> impl Iterator<Item = &'w ObjectKey> {
    let source = instance.source(template);
    let is_its = |slot: &&ObjectKey| {
        let marks = world.object(slot).and_then(|object| object.marks.as_deref());
        marks.is_some_and(|marks| marks.rule == *template)
    };
    world.copies_of_source_in(&source, &instance.namespace).filter(is_its)
}

/// The facts of an object that a template made for this instance, as the object's marks prove: expressions
/// read only such an object by its id.
pub fn made<'w>(
    world: &'w World,
    template: &Declarer,
    instance: &InstanceName,
    slot: &ObjectKey,
) -> Option<&'w ObjectFacts> {
    let facts = world.object(slot)?;
    let marks = facts.marks.as_deref()?;
    let source = instance.source(template);
    let is_its = marks.rule == *template && marks.source == source;
    let is_proven = world.key().is_some_and(|key| marks.proof(slot, key) == Proof::Ours);
    (is_its && is_proven).then_some(facts)
}

/// Whether a set was rendered from the current versions of template, namespace and object.
pub(super) fn is_of(
    world: &World,
    set: &RenderedSet,
    facts: &TemplateFacts,
    instance: &InstanceName,
) -> bool {
    let (Some(known), Ok(compiled)) = (world.namespaces().get(&instance.namespace), &facts.compiled) else {
        return false;
    };
    let is_of_object = match (compiled.instance_kind(), instance.object(), &set.instance) {
        (None, None, None) => true,
        (Some(kind), Some(name), Some(read)) => world
            .instance(kind, &name)
            .is_some_and(|known| known.uid == read.uid && known.resource_version == read.resource_version),
        _ => false,
    };
    set.template.0 == facts.uid
        && set.template.1 == facts.generation
        && set.namespace == hash_of(known, compiled)
        && is_of_object
}

/// Whether a template is rendered for this namespace or object.
pub fn selects(
    world: &World,
    template: &Declarer,
    compiled: &CompiledTemplate,
    instance: &InstanceName,
) -> bool {
    let namespace = &instance.namespace;
    let takes = |facts: &NamespaceFacts| {
        takes_copies(world, namespace, facts)
            && compiled.goes_into(template.namespace(), namespace, &facts.labels)
    };
    world.namespaces().get(namespace).is_some_and(takes)
        && match (compiled.instance_kind(), instance.object()) {
            (None, None) => true,
            (Some(kind), Some(name)) => world.instance(kind, &name).is_some_and(|known| {
                !known.is_marked
                    && !known.terminating
                    && compiled.selects_object(&name.name, known.labels.as_ref())
            }),
            _ => false,
        }
}

/// The instances of a template, in order.
pub fn instances<'w>(
    world: &'w World,
    template: &'w Declarer,
    compiled: &'w CompiledTemplate,
) -> impl Iterator<Item = InstanceName> {
    let kind = compiled.instance_kind();
    let namespaces = kind.is_none().then(|| world.namespaces().keys().map(InstanceName::from));
    let objects = kind.map(|kind| world.instances(kind).map(|(name, _)| InstanceName::of_object(name)));
    let all = namespaces.into_iter().flatten().chain(objects.into_iter().flatten());
    all.filter(|instance| selects(world, template, compiled, instance))
}

/// The instances of a template in one namespace.
pub fn instances_in<'w>(
    world: &'w World,
    template: &'w Declarer,
    compiled: &'w CompiledTemplate,
    namespace: &'w str,
) -> impl Iterator<Item = InstanceName> {
    let kind = compiled.instance_kind();
    let itself = kind.is_none().then(|| InstanceName::from(namespace));
    let objects = kind.map(|kind| world.instances_in(kind, namespace));
    let objects = objects.into_iter().flatten().map(|(name, _)| InstanceName::of_object(name));
    let all = itself.into_iter().chain(objects);
    all.filter(|instance| selects(world, template, compiled, instance))
}

/// The instance as the owner of one of its objects: Kubernetes deletes the object together with its owner.
/// `own` is the object's own `deletionPolicy`.
pub(super) fn owner(
    compiled: &CompiledTemplate,
    instance: &InstanceName,
    set: &RenderedSet,
    own: Option<DeletionPolicy>,
) -> Option<Owner> {
    let kind = compiled.owning_kind(own)?;
    let read = set.instance.as_ref()?;
    Some(Owner {
        api_version: kind.api_version.to_string(),
        kind: kind.kind.to_string(),
        name: instance.object.as_ref()?.to_string(),
        uid: read.uid.to_string(),
        controller: false,
        block_owner_deletion: false,
    })
}

/// The objects of a template whose kinds this installation does not write.
pub(crate) fn not_granted_objects<'t>(
    world: &'t World,
    compiled: &'t CompiledTemplate,
) -> impl Iterator<Item = &'t CompiledObject> {
    let settings = world.settings();
    let is_granted = |object: &CompiledObject| {
        declared_kind(object, &settings.template_kinds).is_some_and(|kind| settings.copies(kind))
    };
    compiled.objects.iter().filter(move |object| !is_granted(object))
}

/// The kind that a template is rendered for, if this installation does not read objects of the kind, or does
/// not write their status although the template does.
pub fn not_read_kind<'t>(world: &World, compiled: &'t CompiledTemplate) -> Option<&'t InstanceKind> {
    compiled.instance_kind().filter(|kind| {
        let granted = world.settings().template_kind(kind);
        granted.is_none_or(|granted| compiled.writes_status() && granted.status.is_none())
    })
}

/// The first kind that a template is rendered for or declares and whose objects are not known, with the
/// reason. `None` if the objects of all these kinds are known.
pub(crate) fn unknown_kind(
    world: &World,
    compiled: &CompiledTemplate,
) -> Option<(InstanceKind, InstancesRead)> {
    let of_instances = compiled.instance_kind().map(|kind| (kind.clone(), world.instances_read(kind)));
    let declared = compiled.kinds(&world.settings().template_kinds).map(|kind| {
        let resource = kind.resource();
        (InstanceKind::new(resource.api_version, resource.kind), world.granted_read(kind))
    });
    of_instances.into_iter().chain(declared).find(|(_, read)| !read.is_known())
}

/// How many objects a template declares, if the number is above the limit for one template.
pub fn too_many_objects(world: &World, template: &Declarer, compiled: &CompiledTemplate) -> Option<usize> {
    let most = world.settings().spread_limits.max_copies;
    let possible = match compiled.instance_kind() {
        None => world.namespaces().len(),
        Some(kind) => world.instances(kind).take(most.saturating_add(1)).count(),
    };
    if most == 0 || possible.saturating_mul(compiled.objects.len()) <= most {
        return None;
    }
    let objects = instances(world, template, compiled).count().saturating_mul(compiled.objects.len());
    (objects > most).then_some(objects)
}

/// The bounds of a template's grant: the existing namespaces for which the API server is asked one by one,
/// and the kind that the template is rendered for.
pub fn template_bounds(world: &World, compiled: &CompiledTemplate) -> Bounds {
    let tag = |name: &String| Some(Bounds::tag(name, &world.namespaces().get(name.as_str())?.uid));
    let named = compiled.literal_namespaces();
    let can_grow = named.is_none();
    let targets = named.map(|names| names.iter().filter_map(tag).collect());
    let granted = compiled.instance_kind().and_then(|kind| world.settings().template_kind(kind));
    // The API server was asked about the author's rights under these names of the kind; the administrator may
    // change the grant of the kind.
    let asked = |granted: &TemplateKind| {
        let status = granted.status.filter(|_| compiled.writes_status());
        Bounds::tag(&format!("{} {} {status:?}", granted.kind, granted.plural), "")
    };
    let written = compiled.kinds(&world.settings().template_kinds).filter_map(|kind| match kind {
        Kind::Granted(_) => Some(Bounds::tag(&kind.mark_name(), kind.resource().version)),
        // All other kinds are the same in every cluster.
        _ => None,
    });
    Bounds { sources: granted.map(asked).into_iter().chain(written).collect(), targets, can_grow }
}

/// Whether the current spec makes Copyrator ask about deleting objects of this kind in this namespace.
pub(super) fn asks_about(template: &Declarer, compiled: &CompiledTemplate, slot: &ObjectKey) -> bool {
    let (Instances::Namespaces { terms, .. } | Instances::Objects { namespaces: terms, .. }) =
        &compiled.instances;
    let by_name =
        |term: &CompiledTarget| term.names.as_ref().is_some_and(|names| names.matches(&slot.namespace));
    compiled.objects.iter().any(|object| slot.kind.is_named(&object.api_version, &object.kind))
        && (compiled.literal_namespaces().is_none()
            || terms.iter().any(by_name)
            || (terms.is_empty() && *template.namespace() == slot.namespace))
}

#[cfg(test)]
mod tests;
