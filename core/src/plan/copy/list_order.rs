//! Which lists of an object have an order that is content. The API server says so in the managedFields of the object, which follow
//! the schema of its kind (`x-kubernetes-list-type`): our entry names the items of a list that is a set or a map, and a list that is
//! atomic only as a whole. Where our entry does not name a list, nothing is known of it.

use serde_json::{Map, Value};

use crate::marks::COPY_MANAGER;

/// What our entry in managedFields has at a place of the object.
#[derive(Clone, Copy)]
pub(crate) enum OwnedPlace<'m> {
    /// The entry does not say what is here.
    Unknown,
    /// It owns what is here as a whole: a value, or a list or map whose parts the API server does not merge.
    Whole,
    /// It owns these parts of what is here.
    Parts(&'m Map<String, Value>),
}

impl<'m> OwnedPlace<'m> {
    /// The whole object, where it has an entry of ours of the version in which it is declared.
    pub(crate) fn of_object(declared: &Value, stored: &'m Value) -> Self {
        let entries = stored["metadata"]["managedFields"].as_array();
        let ours = entries.into_iter().flatten().find(|entry| {
            entry["manager"] == COPY_MANAGER
                && entry["operation"] == "Apply"
                && entry["subresource"].is_null()
                && entry["apiVersion"] == declared["apiVersion"]
        });
        ours.and_then(|entry| entry["fieldsV1"].as_object()).map_or(Self::Unknown, Self::Parts)
    }

    /// A field of what is here.
    pub(crate) fn field(self, name: &str) -> Self {
        self.part(|| Some(format!("f:{name}")))
    }

    /// An item of the list that is here, by what the API server has stored of it.
    pub(crate) fn item(self, stored: &Value) -> Self {
        self.part(|| {
            let Self::Parts(parts) = self else { return None };
            // All items of a list have the same keys: {"containerPort":80,"protocol":"TCP"}.
            let example = parts.keys().find_map(|part| part.strip_prefix("k:"))?;
            let mut keys: Map<String, Value> = serde_json::from_str(example).ok()?;
            for (name, value) in &mut keys {
                *value = stored.get(name)?.clone();
            }
            Some(format!("k:{}", Value::Object(keys)))
        })
    }

    /// Whether the order of the list that is here is known to be content.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Self::Whole)
    }

    fn part(self, name: impl FnOnce() -> Option<String>) -> Self {
        let Self::Parts(parts) = self else { return self };
        let part = name().and_then(|name| parts.get(&name)?.as_object());
        match part {
            None => Self::Unknown,
            // The dot stands for the place itself.
            Some(inner) if inner.keys().all(|name| name == ".") => Self::Whole,
            Some(inner) => Self::Parts(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(place: OwnedPlace<'_>) -> &'static str {
        match place {
            OwnedPlace::Unknown => "unknown",
            OwnedPlace::Whole => "whole",
            OwnedPlace::Parts(_) => "parts",
        }
    }

    #[test]
    fn our_entry_tells_lists_that_are_merged_from_those_that_are_atomic() {
        let fields = json!({"f:spec": {
            "f:args": {},
            "f:finalizers": {".": {}, "v:\"a\"": {}},
            "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:command": {}},
            },
        }});
        let entry = |manager: &str, operation: &str, version: &str| json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsV1": fields});
        let declared = json!({"apiVersion": "v1"});
        let with = |entry: Value| json!({"metadata": {"managedFields": [entry]}});
        let stored = with(entry(COPY_MANAGER, "Apply", "v1"));
        let object = OwnedPlace::of_object(&declared, &stored);
        let spec = object.field("spec");
        let (args, ports) = (spec.field("args"), spec.field("ports"));
        assert!(args.is_ordered() && args.item(&json!({"a": []})).field("a").is_ordered());
        let port = ports.item(&json!({"protocol": "TCP", "containerPort": 80, "name": "web"}));
        let places = [
            (spec, "parts"),
            (spec.field("finalizers"), "parts"),
            (ports, "parts"),
            (port, "parts"),
            (port.field("command"), "whole"),
            (ports.item(&json!({"containerPort": 81, "protocol": "TCP"})), "unknown"),
            (ports.item(&json!({"containerPort": 80})), "unknown"),
            (ports.item(&json!("80")), "unknown"),
            (spec.field("finalizers").item(&json!("a")), "unknown"),
            (spec.field("other"), "unknown"),
            (spec.field("other").field("more"), "unknown"),
        ];
        for (at, (place, expected)) in places.into_iter().enumerate() {
            assert_eq!(said(place), expected, "{at}");
        }
        for other in [
            entry("kubectl", "Apply", "v1"),
            entry(COPY_MANAGER, "Update", "v1"),
            entry(COPY_MANAGER, "Apply", "v2"),
        ] {
            let stored = with(other);
            assert_eq!(said(OwnedPlace::of_object(&declared, &stored)), "unknown", "{stored}");
        }
        assert_eq!(said(OwnedPlace::of_object(&declared, &json!({}))), "unknown");
    }
}
