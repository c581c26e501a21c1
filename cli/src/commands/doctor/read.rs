//! Reads objects of one kind. A missing right is recorded as [`Unread`].

use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use super::facts::{Readable, Unread};
use crate::{decoded::Decoded, read::content::goes_on_from, terminal::refused::words};

/// How many objects a page has.
const PAGE: u32 = 500;

/// Lists all objects; none if the kind is not served. Skips objects that cannot be decoded: `unread.rs` names
/// them.
pub(super) async fn list<K>(
    api: Api<Decoded<K>>,
    namespace: Option<&str>,
    which: &ListParams,
) -> Readable<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.list(which).await {
        Ok(list) => Ok(list.items.into_iter().filter_map(|object| object.read().ok()).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(unread("list", plural::<K>(), namespace, error)),
    }
}

/// Reads all objects page by page, keeping only what `each` keeps. If the continue token expires, the list
/// continues with the current objects.
pub(super) async fn pages<K>(
    api: &Api<Decoded<K>>,
    namespace: Option<&str>,
    which: ListParams,
    mut each: impl FnMut(K),
) -> Readable<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let first = which.limit(PAGE);
    let mut params = first.clone();
    loop {
        let next = match api.list(&params).await {
            Ok(page) => {
                page.items.into_iter().filter_map(|object| object.read().ok()).for_each(&mut each);
                page.metadata.continue_.filter(|token| !token.is_empty())
            }
            Err(error) => match goes_on_from(&error) {
                None => return Err(unread("list", plural::<K>(), namespace, error)),
                next => next,
            },
        };
        match next {
            Some(token) => params = first.clone().continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// One object, if the object exists.
pub(super) async fn get<K>(api: Api<K>, namespace: Option<&str>, name: &str) -> Readable<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    api.get_opt(name)
        .await
        .map_err(|error| unread("get", format!("{}/{name}", plural::<K>()), namespace, error))
}

/// The resource in kubectl's notation.
fn plural<K: Resource<DynamicType = ()>>() -> String {
    match K::group(&()) {
        group if group.is_empty() => K::plural(&()).into_owned(),
        group => format!("{}.{group}", K::plural(&())),
    }
}

pub(super) fn unread(
    verb: &'static str,
    resource: String,
    namespace: Option<&str>,
    error: kube::Error,
) -> Unread {
    let failure = match error {
        kube::Error::Api(status) if status.code == 403 => None,
        kube::Error::Api(status) => Some(words(&status)),
        other => Some(other.to_string()),
    };
    Unread { verb, resource, namespace: namespace.map(str::to_owned), failure }
}
