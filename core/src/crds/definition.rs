//! The CustomResourceDefinitions, from the Rust types in [`crate::api`].

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSON};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{
    bounds::bound,
    descriptions::join_lines,
    manifest_file::{ManifestFile, rendered},
};
use crate::api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate};

pub(super) fn objects() -> impl Iterator<Item = Value> {
    definitions().into_iter().map(|definition| rendered(serde_json::to_value(definition)))
}

pub(super) fn files() -> impl Iterator<Item = ManifestFile> {
    definitions().into_iter().map(|definition| {
        let name = format!("{}.yaml", definition.spec.names.plural);
        // The conversion to a JSON value sorts the keys.
        let value = rendered(serde_json::to_value(definition));
        ManifestFile { name, text: rendered(serde_saphyr::to_string(&value)) }
    })
}

/// The definitions, in the order in which they are installed.
fn definitions() -> [CustomResourceDefinition; 4] {
    let all = [CopyratorRule::crd(), ConfigMonitor::crd(), ConfigPolicy::crd(), CopyratorTemplate::crd()];
    all.map(labelled).map(bounded).map(unobserved)
}

/// Sets the default `status.observedGeneration: -1` for objects that Copyrator has not examined yet: tools
/// that wait compare this field with the generation.
fn unobserved(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    let properties = schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()?.properties.as_mut());
    for status in properties.filter_map(|properties| properties.get_mut("status")) {
        status.default = Some(JSON(json!({ "observedGeneration": -1 })));
    }
    definition
}

/// Adds the label by which users find Copyrator's objects in every installation.
fn labelled(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = definition.metadata.labels.get_or_insert_default();
    labels.insert("app.kubernetes.io/name".into(), "copyrator".into());
    definition
}

/// Bounds lists and maps of specs, and joins the lines of descriptions. Statuses need no bounds in the
/// schema, since Copyrator itself limits them.
fn bounded(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        let spec = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec"));
        spec.into_iter().for_each(bound);
        join_lines(schema);
    }
    definition
}
