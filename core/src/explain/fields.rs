//! How the rows of commands write the names of objects: as fields, or as text.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::copy_state::{CopyState, Course};
use crate::names::{Declarer, ObjectKey};

/// An object as the fields of a row.
#[derive(Serialize, JsonSchema)]
pub(super) struct ObjectFields<'o> {
    kind: &'o str,
    namespace: &'o str,
    name: &'o str,
}

/// The state of a copy as the fields of a row.
#[derive(Serialize, JsonSchema)]
pub(super) struct StateFields {
    /// What Copyrator does about the copy.
    action: Course,
    /// `Failed`, `Blocked`, `Missing`, `Outdated`, `Unknown`, `Leaving`, `Waiting` or `Current`.
    state: &'static str,
}

/// An object whose namespace is that of the row.
#[derive(Serialize, JsonSchema)]
pub(super) struct KindAndName<'o> {
    kind: &'o str,
    name: &'o str,
}

/// Writes the state of a copy as `action` and `state`.
pub(super) fn state<S: Serializer>(state: &CopyState, serializer: S) -> Result<S::Ok, S::Error> {
    StateFields { action: state.action(), state: state.as_str() }.serialize(serializer)
}

/// Writes an object as `kind`, `namespace` and `name`.
pub(super) fn object<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    ObjectFields { kind: key.kind.resource().kind, namespace: &key.namespace, name: &key.name }
        .serialize(serializer)
}

/// Writes an object as `kind` and `name`.
pub(super) fn kind_and_name<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    KindAndName { kind: key.kind.resource().kind, name: &key.name }.serialize(serializer)
}

/// Writes a name as `namespace/name`.
pub(super) fn text<S: Serializer>(name: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Writes names without their namespace, since the row has the namespace.
pub(super) fn names<S: Serializer>(names: &[Declarer], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(|name| name.named().name.to_string()))
}
