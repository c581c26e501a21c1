//! The variable `request` of a policy's CEL expressions, as in a ValidatingAdmissionPolicy.

use serde::Serialize;

/// The fields of the variable `request`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
    /// The operation: CREATE or UPDATE.
    pub operation: String,
    /// The kind of the object.
    pub kind: RequestKind,
    /// The resource of the object.
    pub resource: RequestResource,
    /// The same value as `kind`: the API server never converts the kinds that policies cover.
    pub request_kind: RequestKind,
    /// The same value as `resource`.
    pub request_resource: RequestResource,
    /// The object's name; empty if the API server will generate the name.
    pub name: String,
    /// The namespace of the request, as the API server gives it.
    pub namespace: String,
    /// Whether the request is a dry run: the API server stores nothing.
    pub dry_run: bool,
    /// The user who sends the request.
    pub user_info: RequestUser,
}

/// A kind, as in `request.kind`.
#[derive(Clone, Debug, Serialize)]
pub struct RequestKind {
    /// The API group; empty for the core.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Secret`.
    pub kind: String,
}

/// A resource, as in `request.resource`.
#[derive(Clone, Debug, Serialize)]
pub struct RequestResource {
    /// The API group; empty for the core.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural name, such as `secrets`.
    pub resource: String,
}

/// The user, as in `request.userInfo`.
#[derive(Clone, Debug, Serialize)]
pub struct RequestUser {
    /// The user name, such as `alice`.
    pub username: String,
    /// The groups that the user is in.
    pub groups: Vec<String>,
}
