//! Copies with their content, a page at a time, for the sweep that compares every one with its source.

use kube::{
    Client,
    api::ListParams,
    core::{ListMeta, Request},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::content::{Content, ContentError, FETCH_TIMEOUT, decode, plural};
use crate::{
    marks::{MANAGED_BY, MANAGED_BY_VALUE},
    model::{Kind, ObjectKey},
};

/// A page of copies.
pub struct Page {
    /// What they hold. An object that cannot be read is left out: its own look will say so.
    pub copies: Vec<(ObjectKey, Content)>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    namespace: String,
    name: String,
}

/// So many copies of one kind at most, from where the last page ended.
///
/// # Errors
/// The API server did not give it, or not in time; 410 where the last page is too long ago.
pub async fn page(client: &Client, kind: Kind, most: u32, from: Option<&str>) -> Result<Page, ContentError> {
    let copies = || ContentError::Pages(plural(kind));
    let mut params = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_VALUE}")).limit(most);
    params.continue_token = from.map(str::to_owned);
    let failed = |source| ContentError::Page { kind: plural(kind), source: Box::new(source) };
    let request = Request::new(format!("/api/v1/{}", plural(kind))).list(&params);
    let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    let text = tokio::time::timeout(FETCH_TIMEOUT, client.request_text(request));
    let text = text.await.map_err(|_| copies())?.map_err(failed)?;
    let list: List<'_> = serde_json::from_str(&text).map_err(|_| copies())?;
    let copy = |item: &&RawValue| {
        let Named { metadata } = serde_json::from_str(item.get()).ok()?;
        Some((ObjectKey::new(kind, metadata.namespace, metadata.name), decode(kind, item.get())?))
    };
    Ok(Page {
        copies: list.items.iter().filter_map(copy).collect(),
        next: list.metadata.continue_.filter(|token| !token.is_empty()),
    })
}
