//! The expressions of Kyverno on a Namespace, in JMESPath: its name, its labels and annotations, and `||` before a text.

use super::expressions::{NAME, entry};

/// The expression in CEL, where it is one of those.
pub(super) fn cel(expression: &str) -> Option<String> {
    let (path, or) = match expression.split_once("||") {
        Some((path, or)) => (path.trim(), Some(text(or.trim())?)),
        None => (expression.trim(), None),
    };
    let steps = steps(path)?;
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    match (steps.as_slice(), or) {
        (["request", "object", "metadata", "name"] | ["request", "namespace" | "name"], _) => {
            Some(NAME.into())
        }
        (["request", "object", "metadata", map @ ("labels" | "annotations"), key], or) => {
            Some(entry(map, key, or))
        }
        _ => None,
    }
}

/// A text, in one of the two ways in which JMESPath has them; without quotes or escapes in it.
fn text(literal: &str) -> Option<&str> {
    let inner = |open: &str, close: &str| literal.strip_prefix(open)?.strip_suffix(close);
    let text = inner("'", "'").or_else(|| inner("`\"", "\"`"))?;
    (!text.contains(['\'', '"', '`', '\\', '{', '}'])).then_some(text)
}

/// The names of a path: `a.b."c/d"`.
fn steps(path: &str) -> Option<Vec<String>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    loop {
        let end = match rest.strip_prefix('"') {
            Some(inner) => inner.find('"')? + 2,
            None => rest.find('.').unwrap_or(rest.len()),
        };
        let name = rest[..end].trim_matches('"');
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_name = if rest.starts_with('"') { !name.contains('\\') } else { is_plain };
        if name.is_empty() || !is_name {
            return None;
        }
        steps.push(name.to_owned());
        match &rest[end..] {
            "" => return Some(steps),
            more => rest = more.strip_prefix('.')?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_is_translated_and_nothing_else() {
        for (expression, expected) in [
            ("request.object.metadata.name", Some("namespaceObject.metadata.name")),
            ("request.namespace", Some("namespaceObject.metadata.name")),
            ("request.object.metadata.labels.team", Some("namespaceObject.metadata.labels['team']")),
            (
                "request.object.metadata.annotations.\"a.b/c\"",
                Some("namespaceObject.metadata.annotations['a.b/c']"),
            ),
            (
                "request.object.metadata.labels.team || 'none'",
                Some("namespaceObject.metadata.?labels['team'].orValue('none')"),
            ),
            (
                "request.object.metadata.labels.team || `\"\"`",
                Some("namespaceObject.metadata.?labels['team'].orValue('')"),
            ),
            ("request.object.metadata.labels", None),
            ("request.object.metadata.labels.a-b", None),
            ("request.object.metadata.labels.team || name", None),
            ("request.object.metadata.labels.team || 'a' || 'b'", None),
            ("request.object.spec.x", None),
            ("to_upper(request.object.metadata.name)", None),
            ("request.object.metadata.name | [0]", None),
            ("request.userInfo.username", None),
            ("serviceAccountName", None),
            ("", None),
            ("a.", None),
            ("\"a", None),
        ] {
            assert_eq!(cel(expression).as_deref(), expected, "{expression}");
        }
    }
}
