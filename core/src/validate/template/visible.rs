//! The part of an object that expressions see. This part lacks metadata that changes at every write: an
//! object whose status changes every second renders the same unless an expression reads that status. The
//! values of Secrets are missing, too.

use serde_json::{Map, Value};

/// The fields of metadata that expressions see.
const METADATA: [&str; 6] = ["name", "namespace", "uid", "labels", "annotations", "creationTimestamp"];

/// Returns the part of an object that expressions see. The result always has maps of labels and annotations.
pub fn visible(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return Value::Null };
    let is_secret = object["kind"] == "Secret" && object["apiVersion"] == "v1";
    let is_seen = |field: &str| !is_secret || ["apiVersion", "kind", "type"].contains(&field);
    let others = fields.iter().filter(|(name, _)| *name != "metadata" && is_seen(name));
    let mut seen: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut metadata: Map<String, Value> = METADATA
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object["metadata"].get(field)?.clone())))
        .collect();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        // This annotation contains the whole object and, for an adopted Secret, even the Secret's values.
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    for field in ["labels", "annotations"] {
        metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
    }
    seen.insert("metadata".into(), Value::Object(metadata));
    Value::Object(seen)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn neither_versions_nor_values_of_secrets_are_seen() {
        let metadata = json!({"name": "a", "resourceVersion": "7", "generation": 3, "managedFields": []});
        let seen = json!({"name": "a", "labels": {}, "annotations": {}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"a": "eA=="}});
        assert_eq!(
            visible(&secret),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": seen, "type": "Opaque"})
        );
        let other = json!({"kind": "Memcached", "metadata": metadata, "spec": {"size": 3}});
        assert_eq!(visible(&other), json!({"kind": "Memcached", "metadata": seen, "spec": {"size": 3}}));
    }
}
