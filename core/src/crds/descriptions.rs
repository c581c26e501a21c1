//! Formats the descriptions of fields, which `kubectl explain` and editors show.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Joins the lines of each paragraph of each description at and below `schema`: the line breaks of the source
/// have no meaning for readers, and `kubectl explain` breaks lines itself.
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
