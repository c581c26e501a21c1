//! The names of ConfigMaps and Secrets with one of our labels, in all namespaces. They decide which
//! namespaces must be watched.

use std::{marker::PhantomData, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::{
    object::OfKind,
    watched::{Watched, namespaced},
};
use crate::{
    decoded::Unreadable,
    marks,
    model::{DataWatch, OurLabel, Store, World},
    names::{NamespacedName, ObjectKey},
    plan::Changed,
};

/// A label of ours, as a type.
pub trait Label: Send + 'static {
    /// The label.
    const LABEL: OurLabel;
    /// Selects the objects that have it.
    const SELECTOR: &'static str;
}

/// The label of copies and of objects that templates declare.
#[derive(Clone, Debug)]
pub enum OfCopies {}

impl Label for OfCopies {
    const LABEL: OurLabel = OurLabel::Copy;
    const SELECTOR: &'static str = marks::OF_COPIES;
}

/// The label of objects whose annotations declare something. Any value counts, since a wrong value must be
/// reported.
#[derive(Clone, Debug)]
pub enum OfDeclaring {}

impl Label for OfDeclaring {
    const LABEL: OurLabel = OurLabel::Declares;
    const SELECTOR: &'static str = marks::DECLARES;
}

/// An object of kind `K` with the label `L`. Only its name is read.
#[derive(Clone, Debug)]
pub struct Labelled<K, L> {
    meta: ObjectMeta,
    kind: PhantomData<fn() -> (K, L)>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Partial {
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Names {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K, L> Deserialize<'de> for Labelled<K, L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Partial { metadata: Names { name, namespace, uid, resource_version } } =
            Partial::deserialize(deserializer)?;
        let meta = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { meta, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>, L> Resource for Labelled<K, L> {
    crate::decoded::resource_names!(K);

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn metadata_api() -> bool {
        true
    }
}

impl<K, L> Watched for Labelled<K, L>
where
    K: OfKind + Clone + std::fmt::Debug + 'static,
    L: Label + Clone + std::fmt::Debug,
{
    const STORE: Store = Store::of(K::KIND);
    const LABELS: Option<&'static str> = Some(L::SELECTOR);

    fn named(meta: &ObjectMeta) -> Changed {
        let NamespacedName { namespace, name } = namespaced(meta);
        Changed::Object(ObjectKey { kind: K::KIND, namespace, name })
    }

    /// Only the object's name matters, so an object that cannot be decoded counts, too.
    fn undecodable(left: &Unreadable) -> Option<Self> {
        left.metadata.name.as_ref()?;
        Some(Self { meta: left.metadata.clone(), kind: PhantomData })
    }

    fn is_known(&self, world: &World) -> bool {
        let Changed::Object(key) = self.changed() else { return false };
        world.data_scope().is_some_and(|scope| scope.has(L::LABEL, &key))
    }

    /// Returns false: decisions depend on the object itself, which another watch brings.
    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        if let Changed::Object(key) = self.changed() {
            world.note_labelled(L::LABEL, &key, true);
        }
        false
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Object(key) = changed {
            world.note_labelled(L::LABEL, key, false);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        let labelled = world.data_scope().into_iter().flat_map(|scope| scope.labelled_with(L::LABEL));
        labelled.filter(|key| key.kind == K::KIND).cloned().map(Changed::Object).collect()
    }

    fn data_watch(_place: Option<&Arc<str>>) -> Option<DataWatch> {
        K::KIND.data().map(|kind| DataWatch::Labelled(kind, L::LABEL))
    }
}
