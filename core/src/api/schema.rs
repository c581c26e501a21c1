//! Parts of schemas that the types do not say.

use schemars::{Schema, SchemaGenerator, json_schema};

/// For a field that was added after the kind: otherwise the API server would write the default into every
/// object, also for an earlier build that does not know the field and would ignore such an object.
pub(super) fn without_default(schema: &mut Schema) {
    schema.remove("default");
}

/// An object with any fields, which the API server keeps.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}
