//! The objects of a kind that templates declare and that is known at run time only: the metadata of those that bear our labels.

use std::{collections::BTreeSet, time::Duration};

use futures::Stream;
use jiff::Timestamp;
use kube::{
    Api, Client,
    core::{DynamicObject, PartialObjectMeta},
    runtime::watcher,
};

use super::dynamic::Kept;
use crate::{
    intake::granted::Declared,
    marks::OF_COPIES,
    model::{InstancesRead, World},
    names::{InstanceKind, Kind},
    plan::Changed,
};

/// How long the API server may take to say which kinds it serves.
const TIMEOUT: Duration = Duration::from_secs(5);

/// All such objects of a kind.
#[derive(Clone)]
pub(crate) struct DeclaredOf(pub(crate) Kind);

impl Kept for DeclaredOf {
    type Sent = PartialObjectMeta<DynamicObject>;
    type Object = Declared;

    fn kind(&self) -> InstanceKind {
        let resource = self.0.resource();
        InstanceKind::new(resource.api_version, resource.kind)
    }

    async fn hindered(&self, client: &Client) -> Option<InstancesRead> {
        hindered(client, self.0).await
    }

    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Self::Sent>>> + Send {
        let api: Api<Self::Sent> = Api::all_with(client.clone(), &self.0.resource().into());
        watcher(api, config.labels(OF_COPIES))
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
        of_kind.map(|(key, _)| Changed::Object(key.clone())).collect()
    }

    fn forget(&self, changed: &Changed, world: &mut World) {
        if let Changed::Object(key) = changed {
            world.set_object(key.clone(), None);
        }
    }

    fn read(&self, world: &World) -> InstancesRead {
        world.granted_read(self.0)
    }

    /// Without its definition there is no object of a kind.
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

/// Why the objects of a kind cannot be watched, if the API server says so before. It answers a list of objects that are in no
/// namespace like any other; what is written into a namespace it would not find.
pub(crate) async fn hindered(client: &Client, kind: Kind) -> Option<InstancesRead> {
    let resource = kind.resource();
    let served = async {
        match resource.group {
            "" => client.list_core_api_resources(resource.version).await,
            _ => client.list_api_group_resources(resource.api_version).await,
        }
    };
    let served = match tokio::time::timeout(TIMEOUT, served).await {
        Ok(Ok(served)) => served.resources,
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Some(InstancesRead::NotServed),
        Ok(Err(error)) => return Some(InstancesRead::Failed(error.to_string())),
        Err(_) => return Some(InstancesRead::Failed(format!("no answer in {TIMEOUT:?}"))),
    };
    match served.iter().find(|one| one.name == resource.plural) {
        None => Some(InstancesRead::NotServed),
        Some(one) if one.kind != resource.kind => Some(InstancesRead::Failed(format!(
            "{} of {} are of kind {}, not {}",
            resource.plural, resource.api_version, one.kind, resource.kind
        ))),
        Some(one) if !one.namespaced => Some(InstancesRead::Failed(format!(
            "a {} is in no namespace, and an object is rendered into the namespace that it is for",
            resource.kind
        ))),
        Some(_) => None,
    }
}
