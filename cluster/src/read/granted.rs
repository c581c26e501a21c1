//! Watches the metadata of objects of a kind that is known at run time only: of all objects if rules copy the
//! kind, else of objects with our labels. The watch runs from the start, even if nothing declares objects of
//! the kind.

use std::collections::BTreeSet;

use futures::Stream;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::ApiResource,
    core::{DynamicObject, PartialObjectMeta},
    runtime::watcher,
};

use super::kept::Kept;
use crate::{
    decoded::Decoded,
    intake::granted::Declared,
    marks::OF_COPIES,
    model::{InstancesRead, UnreadObject, World},
    names::{InstanceKind, Kind, ObjectKey},
    plan::{Changed, unread},
};

/// The watched objects of one kind that is known only at run time.
#[derive(Clone)]
pub struct DeclaredOf(pub Kind);

impl Kept for DeclaredOf {
    type Sent = PartialObjectMeta<DynamicObject>;
    type Object = Declared;

    fn kind(&self) -> InstanceKind {
        let resource = self.0.resource();
        InstanceKind::new(resource.api_version, resource.kind)
    }

    fn resource(&self) -> ApiResource {
        self.0.resource().into()
    }

    /// Always true: the watch also finds, by their labels, objects whose template is gone, so that these
    /// objects are removed.
    fn is_needed(&self, _: &World) -> bool {
        true
    }

    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<Self::Sent>>>> + Send {
        let api: Api<Decoded<Self::Sent>> = Api::all_with(client.clone(), &self.0.resource().into());
        watcher(api, if self.0.is_copied() { config } else { config.labels(OF_COPIES) })
    }

    fn named(&self, meta: &ObjectMeta) -> Changed {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Changed::Object(ObjectKey::new(self.0, text(&meta.namespace), text(&meta.name)))
    }

    fn reduced(&self, sent: Self::Sent) -> Option<Declared> {
        Declared::new(self.0, &sent.metadata)
    }

    fn changed(&self, object: &Declared) -> Changed {
        Changed::Object(object.key.clone())
    }

    fn is_known(&self, object: &Declared, world: &World) -> bool {
        object.is_known(world)
    }

    fn put(&self, object: Declared, world: &mut World) -> bool {
        object.put(world, Timestamp::now())
    }

    fn known(&self, world: &World) -> BTreeSet<Changed> {
        let of_kind = world.objects().filter(|(key, _)| key.kind == self.0);
        let known = of_kind.map(|(key, _)| Changed::Object(key.clone()));
        let is_of = |object: &UnreadObject| matches!(object, UnreadObject::Object(key) if key.kind == self.0);
        known.chain(unread(world, is_of)).collect()
    }

    fn forget(&self, changed: &Changed, world: &mut World) {
        if let Changed::Object(key) = changed {
            world.set_object(key.clone(), None);
        }
    }

    fn read(&self, world: &World) -> InstancesRead {
        world.granted_read(self.0)
    }

    /// Forgets all objects if the kind is not served: without its definition, a kind has no objects.
    fn set_read(&self, read: InstancesRead, world: &mut World) -> bool {
        if read == InstancesRead::NotServed {
            let gone: Vec<_> = self.known(world).into_iter().collect();
            gone.iter().for_each(|changed| self.forget(changed, world));
        }
        world.set_granted_read(self.0, read)
    }

    fn read_changed(&self) -> Changed {
        Changed::Granted(self.0)
    }
}
