//! The content of an object that has no `data`, as paths: each leaf of its JSON has a JSON Pointer, such as
//! `/spec/podSelector/matchLabels/app`, and a value. Lists and empty maps are leaves.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Fields of an object that are not content. The last two fields are those of ServiceAccounts: controllers
/// write them, and they name Secrets of the ServiceAccount's own namespace.
const NOT_CONTENT: [&str; 6] = ["apiVersion", "kind", "metadata", "status", "secrets", "imagePullSecrets"];

/// Whether a top-level field of an object belongs to its content.
pub fn is_content(field: &str) -> bool {
    !NOT_CONTENT.contains(&field)
}

/// The path of a field below `parent`, which is empty for the top-level fields of an object.
pub fn child(parent: &str, field: &str) -> String {
    format!("{parent}/{}", field.replace('~', "~0").replace('/', "~1"))
}

/// The names of the fields that lead to a path.
pub fn fields(path: &str) -> impl Iterator<Item = String> {
    path.split('/').skip(1).map(|field| field.replace("~1", "/").replace("~0", "~"))
}

/// Whether a path equals `above` or lies below it.
pub fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The content of an object: the JSON text of each leaf by its path.
pub fn flatten(object: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    for (field, value) in object.iter().filter(|(field, _)| is_content(field)) {
        take_apart(child("", field), value, &mut leaves);
    }
    leaves
}

/// Collects the leaves at and below a path. A null counts as an absent field.
fn take_apart(path: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
    if value.is_null() {
        return;
    }
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            map.iter().for_each(|(field, value)| take_apart(child(&path, field), value, leaves));
        }
        None => drop(leaves.insert(path, value.to_string())),
    }
}

/// The path in the form of managedFields, where each field begins with `f:`.
pub fn managed(path: &str) -> String {
    path.replace('/', "/f:")
}

/// Sets the value at a path of an object, and creates the missing maps above the path.
pub fn place(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for field in fields(path) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[field];
    }
    *at = value;
}

/// How many characters of the name of a field or item a message quotes.
const QUOTED: usize = 64;

/// The path of a field for people, such as `spec.replicas`; `parent` is empty for a top-level field.
pub(crate) fn inside(parent: &str, field: &str) -> String {
    let field = quoted(field);
    if parent.is_empty() { field } else { format!("{parent}.{field}") }
}

/// The path of a list's item for people, such as `spec.containers[web]`. Paths quote names and ports, and no
/// other value.
pub(crate) fn of_item(list: &str, item: &Value, place: usize) -> String {
    let name = item_name(item).unwrap_or_else(|| place.to_string());
    format!("{list}[{}]", quoted(&name))
}

/// The name of a list's item: its mount path, its port with the protocol, or its `name`.
pub(crate) fn item_name(item: &Value) -> Option<String> {
    let field = |name: &str| scalar(item.get(name)?);
    let protocol =
        || field("protocol").filter(|it| it != "TCP").map_or_else(String::new, |it| format!("/{it}"));
    let port = || Some(field("containerPort").or_else(|| field("port"))? + &protocol());
    field("mountPath").or_else(|| field("devicePath")).or_else(port).or_else(|| field("name"))
}

/// A number or a non-empty string as text; `None` for other values.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn quoted(name: &str) -> String {
    name.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flat(object: &Value) -> BTreeMap<String, String> {
        flatten(object.as_object().unwrap())
    }

    #[test]
    fn leaves_are_scalars_lists_and_empty_maps() {
        let object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "status": {"used": {}},
            "secrets": [{"name": "s"}], "imagePullSecrets": [],
            "spec": {
                "hard": {"requests.nvidia.com/gpu": "4", "a~b": 1}, "podSelector": {}, "ingress": [{}], "paused": false,
                "limits": null
            },
            "automountServiceAccountToken": true,
        });
        let leaves = flat(&object);
        let expected = [
            ("/automountServiceAccountToken", "true"),
            ("/spec/hard/a~0b", "1"),
            ("/spec/hard/requests.nvidia.com~1gpu", "\"4\""),
            ("/spec/ingress", "[{}]"),
            ("/spec/paused", "false"),
            ("/spec/podSelector", "{}"),
        ];
        assert!(leaves.iter().map(|(path, text)| (&**path, &**text)).eq(expected), "{leaves:?}");

        let mut again = json!({});
        for (path, text) in &leaves {
            place(&mut again, path, serde_json::from_str(text).unwrap());
        }
        assert_eq!(flat(&again), leaves);
        assert!(flat(&json!({"metadata": {}})).is_empty());
    }

    #[test]
    fn managed_fields_name_each_field_of_a_path() {
        let mut owned = json!({});
        for path in ["/spec/hard/a~1b", "/spec/podSelector"] {
            place(&mut owned, &managed(path), json!({}));
        }
        assert_eq!(owned, json!({"f:spec": {"f:hard": {"f:a/b": {}}, "f:podSelector": {}}}));
    }

    #[test]
    fn a_path_is_within_another_by_whole_fields() {
        for (path, above, is) in [
            ("/spec/a", "/spec/a", true),
            ("/spec/a/b", "/spec/a", true),
            ("/spec/ab", "/spec/a", false),
            ("/spec", "/spec/a", false),
        ] {
            assert_eq!(is_within(path, above), is, "{path} {above}");
        }
    }
}
