//! Bounds every list and map of a spec. A type without its own bound, such as Kubernetes' selectors, gets a
//! default bound, so that no user can write an object of ours that is slow to read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};

/// The maximum number of entries in a list or map of a spec.
const ENTRIES: i64 = 64;

/// Bounds every list and map at and below `schema` that has no bound yet.
pub(super) fn bound(schema: &mut JSONSchemaProps) {
    match schema.type_.as_deref() {
        Some("array") => schema.max_items = schema.max_items.or(Some(ENTRIES)),
        Some("object") if schema.additional_properties.is_some() => {
            schema.max_properties = schema.max_properties.or(Some(ENTRIES));
        }
        _ => {}
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        bound(items);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(bound);
}
