//! Objects of kinds that are known at run time only: all objects of a kind that rules copy, and for other
//! kinds only the objects that templates declare.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    managed_fields::{Fields, MarkFields, PathFields},
    object::{self, Metadata},
};
use crate::{
    model::{ObjectFacts, SeenBy, World},
    names::{Kind, ObjectKey},
};

/// An object of a kind that is known at run time only: its metadata, reduced.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The object's key.
    pub key: ObjectKey,
    facts: ObjectFacts,
}

impl Declared {
    /// Reduces the metadata of an object of this kind; `None` if the metadata has no namespace or cannot be
    /// decoded.
    pub fn new(kind: Kind, meta: &ObjectMeta) -> Option<Self> {
        match kind.is_whole() {
            true => Self::reduced::<PathFields>(kind, meta),
            false => Self::reduced::<MarkFields>(kind, meta),
        }
    }

    fn reduced<F: Fields>(kind: Kind, meta: &ObjectMeta) -> Option<Self> {
        let read: Metadata<F> = serde_json::from_slice(&serde_json::to_vec(meta).ok()?).ok()?;
        let key = ObjectKey::new(kind, read.namespace.clone()?, &*read.name);
        Some(Self { key, facts: read.into_facts(kind) })
    }

    /// Whether the world already has this version of the object.
    pub fn is_known(&self, world: &World) -> bool {
        world.object(&self.key).is_some_and(|known| known.is_version_of(&self.facts))
    }

    /// Stores the object in the world; returns whether any fact that matters to a decision has changed.
    pub fn put(self, world: &mut World, now: Timestamp) -> bool {
        object::put(world, self.key, self.facts, SeenBy::Whole, now)
    }

    /// The facts that the world keeps.
    pub fn facts(&self) -> &ObjectFacts {
        &self.facts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{model::Drift, names::GrantedKinds};

    #[test]
    fn the_metadata_of_an_object_is_enough() {
        let kind =
            GrantedKinds::default().kind("cert-manager.io/v1", "Certificate", "certificates", false).unwrap();
        let meta = |generation: i64, version: &str| {
            let annotations = json!({"copyrator.dev/rule": "platform/template:tls", "copyrator.dev/source": "platform/template:tls",
                "copyrator.dev/source-uid": "t", "copyrator.dev/digest": "d", "copyrator.dev/mark": "m"});
            let theirs = json!({"manager": "their-operator", "operation": "Update", "fieldsV1": {"f:spec": {"f:dnsNames": {}}}});
            let meta = json!({"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": version,
                "generation": generation, "annotations": annotations, "managedFields": [theirs]});
            serde_json::from_value::<ObjectMeta>(meta).unwrap()
        };
        let mut world = World::default();
        let declared = Declared::new(kind, &meta(1, "1")).unwrap();
        assert_eq!(declared.key, ObjectKey::new(kind, "shop", "web"));
        assert_eq!(declared.facts().ownership.as_ref().unwrap().others, ["their-operator"]);
        let key = declared.key.clone();
        assert!(!declared.is_known(&world) && declared.put(&mut world, Timestamp::UNIX_EPOCH));
        assert!(Declared::new(kind, &meta(1, "1")).unwrap().is_known(&world));
        assert_eq!(world.object(&key).unwrap().drift(), Drift::Unexamined);
        // A change of the status is a new version; a new generation may be new content.
        for (generation, version, drift) in [(1, "2", Drift::Unexamined), (2, "3", Drift::Possible)] {
            Declared::new(kind, &meta(generation, version)).unwrap().put(&mut world, Timestamp::UNIX_EPOCH);
            assert_eq!(world.object(&key).unwrap().drift(), drift, "{generation}");
        }
        assert!(Declared::new(kind, &ObjectMeta::default()).is_none(), "it is in no namespace");
    }
}
