//! Checks that an instance exists before an object gets the instance back as its owner.
//!
//! `kubectl delete --cascade=orphan` makes the garbage collector remove the owner from each object, and then
//! delete the instance. The watch of the objects can be ahead of the watch of the instances. Such an object
//! looks as if somebody had removed its owner; with the owner back, Kubernetes would delete the object that
//! the user wanted to keep.

use kube::Client;

use super::context::Context;
use crate::{
    model::{Owner, World},
    names::{NamespacedName, ObjectKey, TemplateKind},
    plan::copy::CopyWrite,
    read::listing::{ListError, is_instance_live},
};

/// Checks instances.
pub(super) struct OwnerCheck {
    pub(super) context: Context,
    pub(super) client: Client,
}

impl OwnerCheck {
    /// Whether the write may set the owner: it gives no owner back, or the instance exists and is not being
    /// deleted.
    ///
    /// # Errors
    /// The API server did not say whether the instance exists.
    pub(super) async fn may_set(&self, slot: &ObjectKey, write: &CopyWrite) -> Result<bool, ListError> {
        let given_back = given_back(&self.context.world(), slot, write.intent.owner.as_ref());
        match given_back {
            Some((kind, owner)) => {
                let name = NamespacedName::new(slot.namespace.clone(), &*owner.name);
                is_instance_live(&self.client, &kind, &name, &owner.uid).await
            }
            None => Ok(true),
        }
    }
}

/// The owner that a write would give back to an object without owners, with the owner's kind.
fn given_back(world: &World, slot: &ObjectKey, owner: Option<&Owner>) -> Option<(TemplateKind, Owner)> {
    let owner = owner?;
    world.object(slot).filter(|facts| facts.owners == Owner::NONE)?;
    let is_its =
        |kind: &&TemplateKind| *kind.kind.kind == *owner.kind && *kind.kind.api_version == *owner.api_version;
    let kind = world.settings().template_kinds.iter().find(is_its)?;
    Some((kind.clone(), owner.clone()))
}
