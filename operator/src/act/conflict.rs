//! Conflicts of a server-side apply: the fields that other managers own, and the rest of the object.

use serde_json::{Deserializer, Value};

/// The fields of an apply that other managers own.
pub(super) struct Conflict {
    /// The API server's message, which names these managers.
    pub(super) message: String,
    /// Paths of the fields in the API server's format: `.status.conditions[type="Ready"].status`.
    fields: Vec<String>,
}

impl Conflict {
    /// Reads an answer; `None` for an answer that is not a conflict with other managers.
    pub(super) fn of(error: &kube::Error) -> Option<Self> {
        let kube::Error::Api(status) = error else { return None };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let owned = causes.filter(|cause| status.code == 409 && cause.reason == "FieldManagerConflict");
        let fields: Vec<String> = owned.map(|cause| cause.field.clone()).collect();
        let message = status.message.chars().take(512).collect();
        (!fields.is_empty()).then_some(Self { message, fields })
    }

    /// Returns the object without these fields, and without maps that become empty.
    pub(super) fn others(&self, object: &Value) -> Value {
        let mut others = object.clone();
        for field in &self.fields {
            remove(&mut others, field);
        }
        others
    }
}

/// Removes the value at the path. Returns `false` if the path is not understood; in that case the caller
/// removes the whole value.
fn remove(at: &mut Value, path: &str) -> bool {
    match at {
        Value::Object(fields) => {
            // Names may contain dots, so the longest matching name is used.
            let rest = |name: &String| {
                let rest = path.strip_prefix('.')?.strip_prefix(name.as_str())?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
            };
            let found = fields.keys().filter_map(|name| Some((name.clone(), rest(name)?)));
            let Some((name, rest)) = found.max_by_key(|(name, _)| name.len()) else { return true };
            let below = fields.get_mut(&name).filter(|_| !rest.is_empty());
            let is_gone = below.is_some_and(|below| {
                remove(below, rest) && below.as_object().is_none_or(|fields| !fields.is_empty())
            });
            if !is_gone {
                fields.remove(&name);
            }
            true
        }
        Value::Array(items) => {
            let Some((key, rest)) = key(path) else { return false };
            let is_it = |item: &Value| key.iter().all(|(name, value)| *at_name(item, name) == *value);
            let Some(place) = items.iter().position(is_it) else { return false };
            if rest.is_empty() || !remove(&mut items[place], rest) {
                items.remove(place);
            }
            true
        }
        _ => false,
    }
}

/// Returns the field of an item that has this name; for an empty name, returns the item itself.
fn at_name<'i>(item: &'i Value, name: &str) -> &'i Value {
    if name.is_empty() { item } else { &item[name] }
}

/// Reads the key of a list item at the beginning of a path, such as `[type="Ready"]` or `[="a"]`, and returns
/// the rest of the path.
fn key(path: &str) -> Option<(Vec<(&str, Value)>, &str)> {
    let (mut left, mut key) = (path.strip_prefix('[')?, Vec::new());
    loop {
        let (name, rest) = left.split_once('=')?;
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        key.push((name, values.next()?.ok()?));
        left = &rest[values.byte_offset()..];
        match left.strip_prefix(',') {
            Some(more) => left = more,
            None => return Some((key, left.strip_prefix(']')?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(json: Value) -> kube::Error {
        kube::Error::Api(serde_json::from_value::<kube::core::Status>(json).unwrap().boxed())
    }

    fn conflict(fields: &[&str]) -> Option<Conflict> {
        let cause = |field: &&str| json!({"reason": "FieldManagerConflict", "field": field, "message": "conflict with \"kubectl\""});
        let causes: Vec<Value> = fields.iter().map(cause).collect();
        Conflict::of(&error(
            json!({"code": 409, "reason": "Conflict", "message": "conflict with \"kubectl\" using a/v1: .status.nodes",
            "details": {"causes": causes}}),
        ))
    }

    #[test]
    fn a_field_of_somebody_else_is_told_from_an_old_version() {
        let modified = error(json!({"code": 409, "reason": "Conflict", "message": "modified"}));
        assert!(Conflict::of(&modified).is_none());
        assert!(conflict(&[".status.nodes"]).unwrap().message.contains("kubectl"));
    }

    /// The paths as the API server of 1.36.3 writes them.
    #[test]
    fn what_is_left_is_all_but_the_fields_of_others() {
        let status = json!({"a": 1, "a.b": 2, "l": ["q"], "m": {"x": "1", "example.com/y": "2"}, "n": {"x": {"y": 1}},
            "s": ["one", "two"], "p": [{"port": 80, "protocol": "TCP", "up": true}],
            "c": [{"type": "R", "status": "F"}, {"type": "S", "status": "F"}]});
        for (path, pointer, left) in [
            (".status.a", "/status/a", None),
            (".status.a.b", "/status/a.b", None),
            (".status.m.example.com/y", "/status/m", Some(json!({"x": "1"}))),
            (".status.n.x.y", "/status/n", None),
            (".status.l", "/status/l", None),
            (".status.s[=\"one\"]", "/status/s", Some(json!(["two"]))),
            (
                ".status.p[port=80,protocol=\"TCP\"].up",
                "/status/p",
                Some(json!([{"port": 80, "protocol": "TCP"}])),
            ),
            (".status.c[type=\"R\"].status", "/status/c/0", Some(json!({"type": "R"}))),
            (".status.c[type=\"S\"]", "/status/c", Some(json!([{"type": "R", "status": "F"}]))),
            // For a path that is not understood, the whole field is removed.
            (".status.c[0]", "/status/c", None),
            (".status.c[type=\"T\"].status", "/status/c", None),
        ] {
            let others = conflict(&[path]).unwrap().others(&json!({"status": status}));
            assert_eq!(others.pointer(pointer), left.as_ref(), "{path}");
            let mut expected = json!({"status": status});
            let top = pointer.split('/').nth(2).unwrap();
            let kept = |object: &mut Value| object["status"].as_object_mut().unwrap().remove(top).map(drop);
            kept(&mut expected);
            let mut rest = others;
            kept(&mut rest);
            assert_eq!(rest, expected, "{path}: something else went, too");
        }
        let all = conflict(&[".status.a", ".status.m.x"]).unwrap();
        assert_eq!(all.others(&json!({"status": {"a": 1, "m": {"x": 2}}})), json!({}));
        assert_eq!(all.others(&json!({"status": {"b": 1}})), json!({"status": {"b": 1}}), "it is not there");
    }
}
