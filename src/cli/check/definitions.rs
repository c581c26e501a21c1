//! OpenAPI schemas of the CustomResourceDefinitions among the files, as the API server would publish them.
//! Type checks of templates use them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::cli::arguments::manifests::Document;

/// Returns the schemas of custom resources by apiVersion. Each value is the text of an OpenAPI document's
/// `components`.
pub(super) fn components<'d>(documents: impl Iterator<Item = &'d Document>) -> BTreeMap<String, String> {
    let mut schemas: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for definition in documents.map(|document| &document.value).filter(|value| is_definition(value)) {
        let spec = &definition["spec"];
        let (group, kind) = (&spec["group"], &spec["names"]["kind"]);
        for version in spec["versions"].as_array().into_iter().flatten() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            if !schema.is_object() {
                continue;
            }
            if spec["preserveUnknownFields"] == true {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            let name = &version["name"];
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": group, "version": name, "kind": kind}]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let of_version = schemas.entry(format!("{}/{}", text(group), text(name))).or_default();
            of_version.insert(text(kind), schema);
        }
    }
    schemas.into_iter().map(|(of, schemas)| (of, json!({"schemas": schemas}).to_string())).collect()
}

fn is_definition(value: &Value) -> bool {
    value["kind"] == "CustomResourceDefinition" && value["apiVersion"] == "apiextensions.k8s.io/v1"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::verdicts;

    #[test]
    fn a_template_is_held_against_the_definitions_beside_it() {
        let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": size}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.a.example.com"},
            "spec": {"group": "a.example.com", "names": {"kind": "Widget"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let object = |id: &str, version: &str, kind: &str, more: Value| {
            let mut template = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
            template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"id": id, "template": template})
        };
        let objects = [
            object("widget", "a.example.com/v1", "Widget", json!({"spec": {"sise": "${1}"}})),
            object("map", "v1", "ConfigMap", json!({"data": {"a": "b"}})),
        ];
        let template = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "metadata": {"name": "kit"},
            "spec": {"forEach": {"namespaces": [{"names": ["shop"]}]}, "objects": objects}});
        let document = |value: &Value| Document {
            place: "a.yaml:1".into(),
            file: "a.yaml".into(),
            line: 1,
            number: 1,
            value: value.clone(),
        };
        let told = |values: &[&Value]| {
            let documents = values.iter().map(|value| document(value)).collect();
            let report = verdicts(documents, "platform", "copyrator-system").unwrap();
            let findings: Vec<String> =
                report.objects.into_iter().flat_map(|object| object.findings).map(|it| it.message).collect();
            (findings, report.notices)
        };
        let (findings, notices) = told(&[&template, &definition]);
        let said = "CopyratorTemplate platform/kit: spec.objects[widget].template.spec.sise: is no field that Widget of a.example.com/v1 has \
                    there; did you mean size?";
        assert_eq!(findings, [said]);
        let unknown = "types of fields are not judged of ConfigMap of v1: ";
        assert!(notices.iter().any(|notice| notice.starts_with(unknown)), "{notices:?}");
        let (findings, notices) = told(&[&template]);
        assert_eq!(findings, [""; 0]);
        assert!(
            notices.iter().any(|notice| notice.contains("Widget of a.example.com/v1, ConfigMap of v1: ")),
            "{notices:?}"
        );
    }
}
