//! Reads the metadata of an object that is in the way of a copy, where no watch shows the object.

use http::{Request, header::ACCEPT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, Resource};

use crate::{
    api::DataKind,
    decoded::Decoded,
    intake::{
        object::{OfKind, Slim},
        selection::Asked,
        watched::Watched,
    },
    model::World,
    names::ObjectKey,
    plan::Changed,
    read::content::{ContentError, FETCH_TIMEOUT},
};

/// Asks for the metadata of an object, in JSON (<https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches>).
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The answer about an object: a change of the world.
pub(crate) type Answer = Box<dyn FnOnce(&mut World, Timestamp) + Send>;

/// Asks for the object in a slot. The answer puts the object into the world, or removes it.
///
/// # Errors
/// The API server did not return the object's metadata.
pub(crate) async fn existing(client: &Client, slot: &ObjectKey) -> Result<Option<Answer>, ContentError> {
    match slot.kind.data() {
        Some(DataKind::ConfigMap) => of_kind::<ConfigMap>(client, slot).await.map(Some),
        Some(DataKind::Secret) => of_kind::<Secret>(client, slot).await.map(Some),
        None => Ok(None),
    }
}

async fn of_kind<K>(client: &Client, slot: &ObjectKey) -> Result<Answer, ContentError>
where
    K: OfKind + Resource<DynamicType = ()> + Clone + std::fmt::Debug + 'static,
{
    let path = format!("{}/{}", slot.kind.resource().path(Some(&slot.namespace)), slot.name);
    let failed = |source| ContentError::Fetch { object: slot.clone(), source: Box::new(source) };
    let request = Request::get(path)
        .header(ACCEPT, METADATA)
        .body(Vec::new())
        .map_err(|error| failed(kube::Error::HttpError(error)))?;
    let read = tokio::time::timeout(FETCH_TIMEOUT, client.request::<Decoded<Slim<K, Asked>>>(request));
    let changed = Changed::Object(slot.clone());
    match read.await.map_err(|_| ContentError::Timeout(slot.clone()))? {
        Ok(object) => {
            let object = object.read().map_err(|_| ContentError::Decode(slot.clone()))?;
            Ok(Box::new(move |world, now| {
                object.put(world, now);
            }))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Ok(Box::new(move |world, _| Slim::<K, Asked>::forget(&changed, world)))
        }
        Err(error) => Err(failed(error)),
    }
}
