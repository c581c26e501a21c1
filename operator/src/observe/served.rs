//! Checks that the API server's definitions have all fields that this build knows. The API server silently
//! drops fields that its definitions lack: it would store a rule without the field that makes the rule safe,
//! and Copyrator would write a status again and again. This module reads the published schema, which every
//! account may read, so it needs no right to definitions.

use std::time::Duration;

use kube::Client;
use serde_json::Value;

use crate::{api::GROUP, crds};

const TIMEOUT: Duration = Duration::from_secs(10);
const VERSION: &str = "v1alpha1";
/// How many fields a message names.
const MOST_NAMED: usize = 4;

/// Why the published schema could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServedError {
    /// The API server did not answer in time.
    #[error("cannot read the published schema of {GROUP}/{VERSION} in {} s", TIMEOUT.as_secs())]
    TimedOut,
    /// The API server refused, or publishes no schema.
    #[error("cannot read the published schema of {GROUP}/{VERSION}")]
    Failed(#[source] Box<kube::Error>),
    /// The path of the schema gives no valid request.
    #[error("cannot request the published schema of {GROUP}/{VERSION}")]
    Request(#[source] http::Error),
}

/// Returns the fields that the definitions lack, in a sentence with the fix; `None` if the definitions are as
/// new as this build, or newer.
///
/// # Errors
/// The published schema could not be read.
pub(crate) async fn older_definitions(client: &Client) -> Result<Option<String>, ServedError> {
    let path = format!("/openapi/v3/apis/{GROUP}/{VERSION}");
    let request = http::Request::get(path).body(Vec::new()).map_err(ServedError::Request)?;
    let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await;
    let served =
        answer.map_err(|_| ServedError::TimedOut)?.map_err(|error| ServedError::Failed(Box::new(error)))?;
    Ok(told(&lacking(&crds::manifests(), &served)))
}

fn told(lacking: &[String]) -> Option<String> {
    let (named, more) = lacking.split_at(lacking.len().min(MOST_NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!named.is_empty()).then(|| {
        format!(
            "the CustomResourceDefinitions are older than this binary, so the API server drops {}{more}: copyrator crds | kubectl apply \
             --server-side -f - (or upgrade the chart)",
            named.join(", ")
        )
    })
}

/// The fields that our definitions have and the published schema lacks, as in
/// `ConfigPolicy.spec.data[].schema`.
fn lacking(definitions: &[Value], served: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for definition in definitions.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["name"] == VERSION) {
            let ours = &version["schema"]["openAPIV3Schema"]["properties"];
            let theirs = schema(served, kind);
            for part in ["spec", "status"] {
                compare(&ours[part], &theirs["properties"][part], &format!("{kind}.{part}"), &mut found);
            }
        }
    }
    found
}

fn schema<'a>(served: &'a Value, kind: &str) -> &'a Value {
    let schemas = served["components"]["schemas"].as_object().into_iter().flatten();
    let is_it = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
        kinds.into_iter().any(|one| one["group"] == GROUP && one["version"] == VERSION && one["kind"] == kind)
    };
    schemas.map(|(_, schema)| schema).find(|schema| is_it(schema)).unwrap_or(&Value::Null)
}

fn compare(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    if theirs.is_null() {
        found.push(path.to_owned());
        return;
    }
    for (name, schema) in ours["properties"].as_object().into_iter().flatten() {
        compare(schema, &theirs["properties"][name], &format!("{path}.{name}"), found);
    }
    for (inner, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if ours[inner].is_object() {
            compare(&ours[inner], &theirs[inner], &format!("{path}{suffix}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The schema that an API server publishes for these definitions.
    fn published(definitions: &[Value]) -> Value {
        let mut schemas = json!({});
        for definition in definitions.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
            let kind = &definition["spec"]["names"]["kind"];
            let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            schema["x-kubernetes-group-version-kind"] =
                json!([{ "group": GROUP, "version": VERSION, "kind": kind }]);
            schemas[format!("dev.copyrator.{VERSION}.{}", kind.as_str().unwrap())] = schema;
        }
        json!({ "components": { "schemas": schemas } })
    }

    #[test]
    fn definitions_of_this_build_lack_nothing_and_older_ones_what_they_do() {
        let ours = crds::manifests();
        assert_eq!(told(&lacking(&ours, &published(&ours))), None);

        let mut served = published(&ours);
        let policy =
            &mut served["components"]["schemas"]["dev.copyrator.v1alpha1.ConfigPolicy"]["properties"];
        let spec = policy["spec"]["properties"].as_object_mut().unwrap();
        spec.remove("limits").unwrap();
        let rule = spec["data"]["items"]["properties"].as_object_mut().unwrap();
        rule.remove("format").unwrap();
        // Fields that a later build adds do not matter.
        spec.insert("later".into(), json!({ "type": "string" }));
        let told = told(&lacking(&ours, &served)).unwrap();
        assert!(
            told.contains("drops ConfigPolicy.spec.data[].format, ConfigPolicy.spec.limits: copyrator crds"),
            "{told}"
        );
    }

    #[test]
    fn a_kind_that_is_not_served_is_named_and_the_list_is_short() {
        let ours = crds::manifests();
        let lacking = lacking(&ours, &json!({}));
        assert_eq!(lacking.len(), 8, "{lacking:?}");
        let told = told(&lacking).unwrap();
        assert!(told.contains("CopyratorRule.spec, ") && told.contains(" and 4 more: "), "{told}");
    }
}
