//! The variable `request` of expressions.

use serde::Serialize;

/// What the variable `request` shows of a write.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
    /// CREATE or UPDATE.
    pub operation: String,
    /// The kind of the object.
    pub kind: RequestKind,
    /// Its resource.
    pub resource: RequestResource,
    /// The same: a policy speaks of nothing that the API server converts before it asks.
    pub request_kind: RequestKind,
    /// The same.
    pub request_resource: RequestResource,
    /// Its name; empty where it will be generated.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Who writes.
    pub user_info: RequestUser,
}

/// A kind, as the variable `request` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestKind {
    /// Its API group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub kind: String,
}

/// A resource, as the variable `request` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestResource {
    /// Its API group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural.
    pub resource: String,
}

/// Who writes, as the variable `request.userInfo` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestUser {
    /// User name.
    pub username: String,
    /// Groups.
    pub groups: Vec<String>,
}
