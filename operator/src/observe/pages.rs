//! Reads objects with their content, page by page: copies for the sweep, which compares each one with its
//! source, and objects for policies to judge.

use kube::{
    Client,
    api::ListParams,
    core::{ListMeta, Request},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api::{PolicyKind, ResourceType},
    marks::{MANAGED_BY, MANAGED_BY_VALUE},
    model::CONFIG_MAPS,
    names::{Kind, ObjectKey},
    read::content::{Content, ContentError, FETCH_TIMEOUT, decode},
};

/// A page of copies with their content.
pub(crate) struct Page {
    /// The copies. An object that cannot be decoded is left out; the plan of its slot will report the object.
    pub copies: Vec<(ObjectKey, Content)>,
    /// The token of the next page; `None` for the last page.
    pub next: Option<String>,
}

#[derive(Default, Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl List<'_> {
    fn next(&self) -> Option<String> {
        self.metadata.continue_.clone().filter(|token| !token.is_empty())
    }
}

#[derive(Deserialize)]
struct NameOnly {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    namespace: String,
    name: String,
}

/// Reads a page of at most `most` copies of one kind, in one namespace or in all. `from` is the token of the
/// last page.
///
/// # Errors
/// The API server did not return the page in time; 410 if the token is too old.
pub(crate) async fn page(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    most: u32,
    from: Option<&str>,
) -> Result<Page, ContentError> {
    let params = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_VALUE}"));
    let text = fetched(client, kind.resource(), namespace, params, most, from).await?;
    let list: List<'_> =
        serde_json::from_str(&text).map_err(|_| ContentError::Pages(kind.resource().plural))?;
    let copy = |item: &&RawValue| {
        let NameOnly { metadata } = serde_json::from_str(item.get()).ok()?;
        Some((ObjectKey::new(kind, metadata.namespace, metadata.name), decode(kind, item.get())?))
    };
    Ok(Page { copies: list.items.iter().filter_map(copy).collect(), next: list.next() })
}

/// Objects as the API server writes them, with content. `Objects` has no `Debug`, so it cannot reach a
/// formatter.
pub(crate) struct Objects {
    kind: PolicyKind,
    text: String,
    /// The token of the next page; `None` for the last page.
    pub next: Option<String>,
}

impl Objects {
    /// Bytes of all objects together, with the JSON around them.
    pub(crate) fn size(&self) -> u64 {
        self.text.len() as u64
    }

    /// Returns each object as a separate JSON text, with the kind, which the items of a list lack.
    pub(crate) fn each(&self) -> impl Iterator<Item = String> {
        let list: List<'_> = serde_json::from_str(&self.text).unwrap_or_default();
        list.items.into_iter().filter_map(|item| {
            let fields = item.get().trim_start().strip_prefix('{')?;
            let ResourceType { api_version, kind, .. } = self.kind.resource();
            Some(format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}",{fields}"#))
        })
    }
}

/// Reads a page of the objects of one kind, for policies to judge. The page includes the Secret types that
/// watches leave out, since a writer chooses the type.
///
/// # Errors
/// The API server did not return the page in time; 410 if the token is too old.
pub(crate) async fn listed(
    client: &Client,
    kind: PolicyKind,
    most: u32,
    from: Option<&str>,
) -> Result<Objects, ContentError> {
    let field_selector = (kind == PolicyKind::ConfigMap).then(|| CONFIG_MAPS.to_owned());
    let params = ListParams { field_selector, ..ListParams::default() };
    let text = fetched(client, kind.resource(), None, params, most, from).await?;
    let read: List<'_> =
        serde_json::from_str(&text).map_err(|_| ContentError::Pages(kind.resource().plural))?;
    let next = read.next();
    Ok(Objects { kind, next, text })
}

async fn fetched(
    client: &Client,
    resource: ResourceType,
    namespace: Option<&str>,
    params: ListParams,
    most: u32,
    from: Option<&str>,
) -> Result<String, ContentError> {
    let params = ListParams { continue_token: from.map(str::to_owned), ..params.limit(most) };
    let failed = |source| ContentError::Page { kind: resource.plural, source: Box::new(source) };
    let request = Request::new(resource.path(namespace)).list(&params);
    let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    let text = tokio::time::timeout(FETCH_TIMEOUT, client.request_text(request));
    text.await.map_err(|_| ContentError::Pages(resource.plural))?.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of a list have no kind, which policies need, as in a review.
    #[test]
    fn each_object_has_its_kind() {
        let text = r#"{"kind":"SecretList","metadata":{},"items":[ {"metadata":{"name":"a"}},{"data":{}}]}"#;
        let page = Objects { kind: PolicyKind::Secret, text: text.into(), next: None };
        let kind = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap()["kind"].clone();
        assert_eq!(page.each().map(kind).collect::<Vec<_>>(), ["Secret", "Secret"]);
    }

    /// Otherwise the end would never be reached in a cluster whose objects take longer than five minutes to
    /// read.
    #[test]
    fn a_list_that_took_too_long_goes_on_as_things_are() {
        let goes_on = |status: &str| {
            let source = Box::new(kube::Error::Api(serde_json::from_str(status).unwrap()));
            ContentError::Page { kind: "secrets", source }.goes_on_from()
        };
        let expired = r#"{"kind":"Status","metadata":{"continue":"t"},"status":"Failure","reason":"Expired","code":410}"#;
        assert_eq!(goes_on(expired).as_deref(), Some("t"));
        assert_eq!(goes_on(&expired.replace("410", "500")), None);
        assert_eq!(goes_on(&expired.replace("\"t\"", "\"\"")), None);
        assert_eq!(ContentError::Pages("secrets").goes_on_from(), None);
    }
}
