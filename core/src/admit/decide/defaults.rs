//! Labels and annotations that policies add when missing.

use std::collections::BTreeMap;

use super::{DecideError, Edit, MetaMap, WriteCase, policies::is_copy};
use crate::{admit::decode::Operation, model::World};

pub(super) fn edits(case: &WriteCase<'_>, world: &World) -> Result<Vec<Edit>, DecideError> {
    let (Some(object), Operation::Create | Operation::Update) = (&case.versions.new, case.review.operation)
    else {
        return Ok(Vec::new());
    };
    if object.deleting || is_copy(object, case, world) {
        return Ok(Vec::new());
    }
    let mut object = object.without_data();
    let namespace = world.namespaces().get(&*object.namespace).map(|facts| &facts.labels);
    let mut edits = Vec::new();
    // A label that one policy adds can bring the object under another policy. The loop repeats until no
    // policy adds a default, so that a second call has no effect.
    loop {
        let before = edits.len();
        for policy in world.policies().values() {
            let Ok(compiled) = &policy.compiled else { continue };
            if !compiled.covers(&object, namespace).ok_or(DecideError::UnknownNamespace)? {
                continue;
            }
            let defaults = compiled.defaults();
            add(MetaMap::Labels, &defaults.labels, &mut object.labels, &mut edits);
            add(MetaMap::Annotations, &defaults.annotations, &mut object.annotations, &mut edits);
        }
        if edits.len() == before {
            return Ok(edits);
        }
    }
}

fn add(
    field: MetaMap,
    defaults: &BTreeMap<String, String>,
    map: &mut Option<BTreeMap<String, String>>,
    edits: &mut Vec<Edit>,
) {
    for (key, value) in defaults {
        if map.is_none() {
            edits.push(Edit::CreateMap(field));
        }
        let map = map.get_or_insert_default();
        if !map.contains_key(key) {
            map.insert(key.clone(), value.clone());
            edits.push(Edit::Set(field, key.clone(), value.clone()));
        }
    }
}
