//! [`Kept`]: how the objects of a kind that is known only at run time are read, and which part of each object
//! the world keeps.

use std::collections::BTreeSet;

use futures::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, api::ApiResource, runtime::watcher};

use crate::{
    decoded::Decoded,
    model::{InstancesRead, World},
    names::InstanceKind,
    plan::Changed,
};

/// How to list the objects of one kind, and which part of each object the world keeps.
pub trait Kept: Clone + Send + Sync + 'static {
    /// An object as the API server sends it.
    type Sent: Resource + Send;
    /// An object reduced to the part that the world keeps.
    type Object: Send;

    /// The kind, for messages.
    fn kind(&self) -> InstanceKind;
    /// The names of the kind in the API.
    fn resource(&self) -> ApiResource;
    /// Whether anything needs the objects. Objects that nothing needs are neither watched nor kept.
    fn is_needed(&self, world: &World) -> bool;
    /// Lists the objects of the kind and watches them, without end.
    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<Self::Sent>>>> + Send;
    /// The key of the object that has this metadata.
    fn named(&self, meta: &ObjectMeta) -> Changed;
    /// Reduces an object; `None` if its metadata is not valid for the kind.
    fn reduced(&self, sent: Self::Sent) -> Option<Self::Object>;
    /// The key of a reduced object.
    fn changed(&self, object: &Self::Object) -> Changed;
    /// Whether the world already has this version of the object.
    fn is_known(&self, object: &Self::Object, world: &World) -> bool;
    /// Stores the object in the world; returns whether the object is new or changed.
    fn put(&self, object: Self::Object, world: &mut World) -> bool;
    /// The keys of all objects that the world has.
    fn known(&self, world: &World) -> BTreeSet<Changed>;
    /// Removes a deleted object from the world.
    fn forget(&self, changed: &Changed, world: &mut World);
    /// Whether the objects are known.
    fn read(&self, world: &World) -> InstancesRead;
    /// Notes whether the objects are known; returns whether the state has changed.
    fn set_read(&self, read: InstancesRead, world: &mut World) -> bool;
    /// The key of the change that [`set_read`](Self::set_read) makes.
    fn read_changed(&self) -> Changed;
}
