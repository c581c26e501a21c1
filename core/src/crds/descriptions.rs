//! Descriptions of fields, as `kubectl explain` and editors show them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Joins the lines of each paragraph of each description at and below `schema`: where a line of the source
/// ends means nothing to a reader, and `kubectl explain` breaks lines itself.
pub(super) fn join_lines(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        join_lines(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        join_lines(values);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(join_lines);
}
