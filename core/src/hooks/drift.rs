//! Compares the webhook configurations in the cluster with those that are wanted.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether `live` matches `wanted`. Other writers may add metadata, but must not add fields to the hooks: a
/// further selector or condition would exempt writes.
pub fn says(live: &Value, wanted: &Value) -> bool {
    let by_name = |configuration: &Value| -> BTreeMap<String, Value> {
        let hooks = configuration["webhooks"].as_array().into_iter().flatten();
        hooks.map(|hook| (hook["name"].as_str().unwrap_or_default().to_owned(), hook.clone())).collect()
    };
    let (hooks, wanted_hooks) = (by_name(live), by_name(wanted));
    includes(&live["metadata"], &wanted["metadata"])
        && hooks.len() == wanted_hooks.len()
        && hooks.iter().all(|(name, hook)| wanted_hooks.get(name).is_some_and(|wanted| is_same(hook, wanted)))
}

fn includes(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| includes(live.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| includes(live, wanted))
        }
        _ => is_same(live, wanted),
    }
}

/// The API server writes some fields that we leave out as empty, and omits some that we write as empty.
pub(super) fn is_same(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => live.keys().chain(wanted.keys()).all(|key| {
            is_same(live.get(key).unwrap_or(&Value::Null), wanted.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| is_same(live, wanted))
        }
        _ => live == wanted || (is_empty(live) && is_empty(wanted)),
    }
}

/// Whether a field is empty: the API server may omit such a field, or write it.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn others_may_add_to_the_metadata_and_to_nothing_else() {
        let wanted = json!({
            "metadata": {"name": "copyrator", "labels": {"a": "b"}},
            "webhooks": [{"name": "one", "rules": [], "timeoutSeconds": 2}, {"name": "two"}],
        });
        let live = json!({
            "metadata": {"name": "copyrator", "uid": "u", "labels": {"a": "b", "c": "d"}},
            "webhooks": [{"name": "two"}, {"name": "one", "timeoutSeconds": 2, "objectSelector": {}}],
        });
        assert!(says(&live, &wanted));
        for (pointer, value) in [
            ("/metadata/labels/a", json!("c")),
            ("/webhooks/1/timeoutSeconds", json!(3)),
            ("/webhooks/1/objectSelector", json!({"matchLabels": {"a": "b"}})),
            ("/webhooks/1/rules", json!([{}])),
            ("/webhooks/0", json!({"name": "two", "matchConditions": [{"name": "never"}]})),
            ("/webhooks/0/name", json!("three")),
            ("/webhooks", json!([{"name": "one", "timeoutSeconds": 2}])),
        ] {
            let mut edited = live.clone();
            match edited.pointer_mut(pointer) {
                Some(place) => *place = value,
                None => edited["webhooks"][1]["rules"] = value,
            }
            assert!(!says(&edited, &wanted), "{pointer}");
        }
    }
}
