//! The objects of a kind that templates are rendered for, which are watched while such a template exists.

use std::collections::BTreeSet;

use futures::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, api::ApiResource, core::DynamicObject, runtime::watcher};

use super::kept::Kept;
use crate::{
    decoded::Decoded,
    intake::instance::Instance,
    model::{InstancesRead, UnreadObject, World},
    names::{InstanceKind, NamespacedName, TemplateKind},
    plan::{Changed, unread},
};

/// The names of a kind in the API.
pub fn resource(kind: &TemplateKind) -> ApiResource {
    ApiResource {
        group: kind.kind.group().to_owned(),
        version: kind.kind.version().to_owned(),
        api_version: kind.kind.api_version.to_string(),
        kind: kind.kind.kind.to_string(),
        plural: kind.plural.clone(),
    }
}

/// The API of the objects of a kind, in all namespaces.
pub(crate) fn api(client: &Client, kind: &TemplateKind) -> Api<Decoded<DynamicObject>> {
    Api::all_with(client.clone(), &resource(kind))
}

/// All objects of the kind, as far as expressions can read them.
#[derive(Clone)]
pub struct InstancesOf(pub TemplateKind);

impl Kept for InstancesOf {
    type Sent = DynamicObject;
    type Object = Instance;

    fn kind(&self) -> InstanceKind {
        self.0.kind.clone()
    }

    fn resource(&self) -> ApiResource {
        resource(&self.0)
    }

    /// Whether a template is rendered for objects of the kind.
    fn is_needed(&self, world: &World) -> bool {
        let mut compiled = world.templates().values().filter_map(|facts| facts.compiled.as_deref().ok());
        compiled.any(|compiled| compiled.instance_kind() == Some(&self.0.kind))
    }

    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<DynamicObject>>>> + Send {
        watcher(api(client, &self.0), config)
    }

    fn named(&self, meta: &ObjectMeta) -> Changed {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Changed::Instance(self.kind(), NamespacedName::new(text(&meta.namespace), text(&meta.name)))
    }

    fn reduced(&self, sent: DynamicObject) -> Option<Instance> {
        Some(Instance::new(&self.0.kind, sent))
    }

    fn changed(&self, object: &Instance) -> Changed {
        Changed::Instance(self.kind(), object.name.clone())
    }

    fn is_known(&self, object: &Instance, world: &World) -> bool {
        object.is_known(&self.0.kind, world)
    }

    fn put(&self, object: Instance, world: &mut World) -> bool {
        object.put(&self.0.kind, world)
    }

    fn known(&self, world: &World) -> BTreeSet<Changed> {
        let names = world.instances(&self.0.kind).map(|(name, _)| name.clone());
        let known = names.map(|name| Changed::Instance(self.kind(), name));
        let kind = self.kind();
        known
            .chain(unread(world, |object| matches!(object, UnreadObject::Instance(of, _) if *of == kind)))
            .collect()
    }

    fn forget(&self, changed: &Changed, world: &mut World) {
        if let Changed::Instance(kind, name) = changed {
            world.forget_instance(kind, name);
        }
    }

    fn read(&self, world: &World) -> InstancesRead {
        world.instances_read(&self.0.kind)
    }

    fn set_read(&self, read: InstancesRead, world: &mut World) -> bool {
        world.set_instances_read(&self.0.kind, read)
    }

    fn read_changed(&self) -> Changed {
        Changed::Instances(self.kind())
    }
}
