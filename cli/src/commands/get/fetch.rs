//! Lists one kind in pages: as objects, or as the table that the API server makes for kubectl.

use http::{Request, header::ACCEPT};
use kube::{
    Client,
    api::ListParams,
    core::{Request as Requests, Status},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::{
    decoded::Decoded,
    terminal::{Exit, aligned_all, refused::words},
};

/// How many objects a page has.
const PAGE: u32 = 500;
/// Asks for a table, which all supported API servers can make.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A kind that is listed.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) in_namespaces: bool,
}

/// Why nothing can be listed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The API server refused for lack of a right.
    #[error("cannot list {plural}: {}", words(status))]
    Refused {
        /// The resource to list.
        plural: &'static str,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// The answer is not a list.
    #[error("cannot list {plural}: the answer is not a list")]
    Unreadable {
        /// The resource to list.
        plural: &'static str,
        /// What the decoder reported.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API server did not answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

impl FetchError {
    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        if matches!(self, Self::Unreachable(_)) { Exit::Unreachable } else { Exit::Findings }
    }
}

/// A list: columns with rows, or objects.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listed {
    column_definitions: Vec<Column>,
    rows: Vec<Row>,
    items: Vec<Item>,
    metadata: Page,
}

/// An object; only the metadata of an object that cannot be read.
#[derive(Debug)]
struct Item {
    object: Value,
    /// Why the object cannot be read.
    unread: Option<String>,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Decoded::deserialize(deserializer)?.read() {
            Ok(object) => Self { object, unread: None },
            Err(left) => Self { object: json!({ "metadata": left.metadata }), unread: Some(left.why) },
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Column {
    name: String,
    /// A column with priority 0 is always shown, all other columns with `wide`.
    #[serde(default)]
    priority: i32,
}

#[derive(Debug, Deserialize)]
struct Row {
    cells: Vec<Value>,
    object: Option<Item>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Lists a kind in one namespace, or in all namespaces.
pub async fn fetch(
    client: &Client,
    sought: Sought,
    namespace: Option<&str>,
    labels: Option<&str>,
    as_table: bool,
) -> Result<Listed, FetchError> {
    let plural = sought.plural;
    let first = ListParams::default().limit(PAGE);
    let mut params = labels.map_or(first.clone(), |labels| first.labels(labels));
    let mut all = Listed::default();
    loop {
        let request = request(sought, namespace, &params, as_table)
            .map_err(|source| FetchError::Unreadable { plural, source })?;
        let page: Listed = client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) => FetchError::Refused { plural, status },
            kube::Error::SerdeError(source) => FetchError::Unreadable { plural, source: source.into() },
            error => FetchError::Unreachable(Box::new(error)),
        })?;
        if all.column_definitions.is_empty() {
            all.column_definitions = page.column_definitions;
        }
        all.rows.extend(page.rows);
        // Items of a list have no kind and apiVersion.
        all.items.extend(page.items.into_iter().map(|mut item| {
            item.object["apiVersion"] = sought.api_version.into();
            item.object["kind"] = sought.kind.into();
            item
        }));
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn request(
    sought: Sought,
    namespace: Option<&str>,
    params: &ListParams,
    as_table: bool,
) -> Result<Request<Vec<u8>>, Box<dyn std::error::Error + Send + Sync>> {
    let root = match sought.api_version.split_once('/') {
        Some(_) => format!("/apis/{}", sought.api_version),
        None => format!("/api/{}", sought.api_version),
    };
    let path = match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", sought.plural),
        None => format!("{root}/{}", sought.plural),
    };
    let mut request = Requests::new(path).list(params)?;
    if as_table {
        request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(TABLE));
    }
    Ok(request)
}

impl Listed {
    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.items.is_empty()
    }

    /// The names of the objects.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| item.object["metadata"]["name"].as_str())
    }

    /// The objects that cannot be read, and why.
    pub(crate) fn unread(&self) -> impl Iterator<Item = String> {
        self.items.iter().filter_map(|item| {
            let name = |field: &str| item.object["metadata"][field].as_str().unwrap_or_default();
            let why = item.unread.as_ref()?;
            let place =
                if name("namespace").is_empty() { String::new() } else { format!("{}/", name("namespace")) };
            Some(format!("cannot read {} {place}{}: {why}", item.object["kind"].as_str()?, name("name")))
        })
    }

    /// The objects as a List, as kubectl prints them.
    pub fn list(&self) -> Value {
        let items: Vec<&Value> = self.items.iter().map(|item| &item.object).collect();
        json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items })
    }

    /// The API server's columns; `wide` adds less important columns. The text is empty if the list has no
    /// rows.
    pub fn table(&self, wide: bool, with_namespace: bool) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let shown: Vec<usize> = (0..self.column_definitions.len())
            .filter(|index| wide || self.column_definitions[*index].priority == 0)
            .collect();
        let line = |namespace: &str, cell: &dyn Fn(usize) -> String| -> Vec<String> {
            let namespace = with_namespace.then(|| namespace.to_owned());
            namespace.into_iter().chain(shown.iter().map(|index| cell(*index))).collect()
        };
        let header = line("NAMESPACE", &|index| self.column_definitions[index].name.to_uppercase());
        let rows = self.rows.iter().map(|row| {
            let object = row.object.as_ref().map_or(&Value::Null, |item| &item.object);
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            line(namespace, &|index| match row.cells.get(index) {
                Some(Value::String(text)) if text.is_empty() => "<none>".into(),
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => "<none>".into(),
                Some(other) => other.to_string(),
            })
        });
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        aligned_all(&lines).join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_columns_are_shown_by_their_weight() {
        let listed: Listed = serde_json::from_value(json!({
            "kind": "Table",
            "columnDefinitions": [{ "name": "Name", "priority": 0 }, { "name": "Ready", "priority": 0 }, { "name": "Images", "priority": 1 }],
            "rows": [{ "cells": ["web", "1/1", "nginx"], "object": { "metadata": { "namespace": "shop", "name": "web" } } },
                { "cells": ["a", 0, ""], "object": { "metadata": { "namespace": "s", "name": "a" } } }],
        }))
        .unwrap();
        assert_eq!(listed.table(false, false), "NAME   READY\nweb    1/1\na      0\n");
        let wide = "NAMESPACE   NAME   READY   IMAGES\nshop        web    1/1     nginx\ns           a      0       <none>\n";
        assert_eq!(listed.table(true, true), wide);
        assert_eq!(Listed::default().table(true, true), "");
    }
}
