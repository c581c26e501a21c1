//! Manifests with actions of Go templates that read the name, labels and annotations of a Namespace.

use std::collections::BTreeSet;

use serde_json::Value;

use super::expressions::{NAME, NAMESPACE, entry};

/// Returns the action in CEL; `None` unless the action reads the name, a label or an annotation.
pub(super) fn cel(action: &str) -> Option<String> {
    if action == ".Name" {
        return Some(NAME.into());
    }
    if let Some(rest) = action.strip_prefix("index ") {
        let (of, key) = rest.trim().split_once(' ')?;
        let inner = |quote: char| key.trim().strip_prefix(quote)?.strip_suffix(quote);
        let key = inner('"').or_else(|| inner('`'))?;
        let is_plain = !key.contains(['"', '`', '\\', ' ']);
        return is_plain.then_some(entry(NAMESPACE, map(of)?, key, Some("''")));
    }
    let (of, key) = action.strip_prefix('.')?.split_once('.')?;
    let is_field = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_field.then_some(entry(NAMESPACE, map(&format!(".{of}"))?, key, None))
}

fn map(field: &str) -> Option<&'static str> {
    match field {
        ".Labels" => Some("labels"),
        ".Annotations" => Some("annotations"),
        _ => None,
    }
}

/// The object in a text, with its unevaluated actions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    /// The object, with `{{ … }}` in its texts.
    pub(super) object: Value,
    /// Actions that are a whole value without quotes: a result that looks like a number becomes a number.
    pub(super) bare: Vec<String>,
}

/// Placeholder for an action while the text is parsed.
const STAND_IN: &str = "goaction";

/// Parses a text as a manifest with actions. `None` if the text without its actions is no manifest, or has an
/// action outside the object (in a comment, an anchor or a tag), which may be a condition. Findings never
/// quote such a text, since it may be a Secret's.
pub(super) fn manifest(text: &str) -> Option<Manifest> {
    if text.contains(STAND_IN) {
        return None;
    }
    let (mut plain, mut actions, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find("{{") {
        let inner = &rest[at + 2..];
        let end = inner.find("}}")?;
        plain.push_str(&rest[..at]);
        plain.push_str(&format!("{STAND_IN}{}x", actions.len()));
        actions.push((inner[..end].trim(), !rest[..at].ends_with(['"', '\''])));
        rest = &inner[end + 2..];
    }
    plain.push_str(rest);
    let object: Value = serde_saphyr::from_str(&plain).ok().filter(Value::is_object)?;
    let (mut bare, mut seen) = (Vec::new(), BTreeSet::new());
    let object = with_actions(object, &actions, &mut bare, &mut seen);
    (seen.len() == actions.len()).then_some(Manifest { object, bare })
}

/// Puts the actions back in place of their placeholders; `seen` collects the actions that the object has.
fn with_actions(
    value: Value,
    actions: &[(&str, bool)],
    bare: &mut Vec<String>,
    seen: &mut BTreeSet<usize>,
) -> Value {
    let written = |mut text: String, bare: &mut Vec<String>, seen: &mut BTreeSet<usize>| {
        for (index, (action, is_bare)) in actions.iter().enumerate() {
            let stand_in = format!("{STAND_IN}{index}x");
            if text == stand_in && *is_bare && *action != ".Name" {
                bare.push((*action).to_owned());
            }
            if text.contains(&stand_in) {
                seen.insert(index);
            }
            text = text.replace(&stand_in, &format!("{{{{ {action} }}}}"));
        }
        text
    };
    match value {
        Value::String(text) => written(text, bare, seen).into(),
        Value::Array(items) => {
            items.into_iter().map(|item| with_actions(item, actions, bare, seen)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                (written(key, &mut Vec::new(), seen), with_actions(value, actions, bare, seen))
            });
            fields.collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_certain_is_translated_and_nothing_else() {
        for (action, expected) in [
            (".Name", Some("namespaceObject.metadata.name")),
            (".Labels.team", Some("namespaceObject.metadata.labels['team']")),
            (".Annotations.owner", Some("namespaceObject.metadata.annotations['owner']")),
            (
                "index .Labels \"example.com/size\"",
                Some("namespaceObject.metadata.?labels['example.com/size'].orValue('')"),
            ),
            (
                "index .Annotations `owner`",
                Some("namespaceObject.metadata.?annotations['owner'].orValue('')"),
            ),
            (".Labels", None),
            (".Labels.a.b", None),
            (".Labels.a | upper", None),
            (".Spec.Finalizers", None),
            ("- .Name -", None),
            ("if eq .Name \"a\"", None),
            ("index .Labels .Name", None),
            ("index .Labels \"a\" \"b\"", None),
            ("", None),
        ] {
            assert_eq!(cel(action).as_deref(), expected, "{action}");
        }
    }

    #[test]
    fn a_text_is_read_as_the_manifest_that_it_becomes() {
        let read = manifest(
            "a: {{ .Name }}-{{.Labels.x}}\nb: \"{{ index .Labels \"y\" }}\"\nc: {{ .Labels.z }}\nd: 1\n",
        );
        let object = json!({"a": "{{ .Name }}-{{ .Labels.x }}", "b": "{{ index .Labels \"y\" }}", "c": "{{ .Labels.z }}", "d": 1});
        assert_eq!(read, Some(Manifest { object, bare: vec![".Labels.z".into()] }));
        for none in [
            "a: {{ .Name",
            "just text",
            "{{ if .Name }}\na: 1\n{{ end }}\n",
            "a: [",
            "goaction: 1",
            "#{{ if eq .Labels.env \"prod\" }}\na: 1\n#{{ end }}\n",
            "a: {{ .Name }} # {{ .Name }}\n",
            "a: &{{ .Name }} 1\n",
            "a: !{{ .Name }} b\n",
        ] {
            assert_eq!(manifest(none), None, "{none}");
        }
    }
}
