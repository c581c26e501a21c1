//! Translation of Kyverno's JMESPath expressions on the trigger of a rule: paths, and `||` before a default.

use copyrator_cel::RESERVED;

use super::expressions::{NAME, NAMESPACE, OBJECT, entry, quoted};

/// Fields of an object's metadata that expressions can read, besides labels and annotations.
const METADATA: [&str; 3] = ["name", "namespace", "uid"];

/// A step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    /// A field.
    Field(String),
    /// An entry of a list.
    Index(u32),
}

/// Translates an expression of a rule on Namespaces, which may read the name, labels and annotations.
pub(super) fn of_namespace(expression: &str) -> Option<String> {
    let (steps, or) = parsed(expression, of_namespace)?;
    let names = fields(&steps)?;
    match (names.as_slice(), or) {
        (["request", "object", "metadata", "name"] | ["request", "namespace" | "name"], _) => {
            Some(NAME.into())
        }
        (["request", "object", "metadata", map @ ("labels" | "annotations"), key], or) => {
            Some(entry(NAMESPACE, map, key, or.as_deref()))
        }
        _ => None,
    }
}

/// Translates an expression of a rule on namespaced objects, which may read every field except metadata
/// fields that change at every write.
pub(super) fn of_object(expression: &str) -> Option<String> {
    let (steps, or) = parsed(expression, of_object)?;
    if let Some(names) = fields(&steps) {
        match (names.as_slice(), &or) {
            (["request", "name"], _) => return Some(format!("{OBJECT}.metadata.name")),
            (["request", "namespace"], _) => return Some(format!("{OBJECT}.metadata.namespace")),
            (["request", "object", "metadata", field], _) if METADATA.contains(field) => {
                return Some(format!("{OBJECT}.metadata.{field}"));
            }
            (["request", "object", "metadata", map @ ("labels" | "annotations")], None) => {
                return Some(format!("{OBJECT}.metadata.{map}"));
            }
            (["request", "object", "metadata", map @ ("labels" | "annotations"), key], or) => {
                return Some(entry(OBJECT, map, key, or.as_deref()));
            }
            (["request", "object", field @ ("kind" | "apiVersion")], None) => {
                return Some(format!("{OBJECT}.{field}"));
            }
            _ => {}
        }
    }
    let path = match steps.as_slice() {
        [Step::Field(request), Step::Field(object), path @ ..]
            if request == "request" && object == "object" =>
        {
            path
        }
        _ => return None,
    };
    match path.first()? {
        Step::Field(first) if !["metadata", "kind", "apiVersion"].contains(&first.as_str()) => {}
        _ => return None,
    }
    let mut written = OBJECT.to_owned();
    for step in path {
        written.push_str(&match (step, &or) {
            (Step::Index(index), None) => format!("[{index}]"),
            (Step::Index(_), Some(_)) => return None,
            (Step::Field(name), _) if !is_identifier(name) || RESERVED.contains(&name.as_str()) => {
                // Indexing `object` itself fails where the field is missing; indexing an optional does not.
                if or.is_some() && written == OBJECT {
                    return None;
                }
                format!("[{}]", quoted(name))
            }
            (Step::Field(name), None) => format!(".{name}"),
            (Step::Field(name), Some(_)) => format!(".?{name}"),
        });
    }
    Some(match or {
        None => written,
        Some(or) => format!("{written}.orValue({or})"),
    })
}

/// Splits an expression into its path and its default in CEL: a literal, or another expression.
fn parsed(expression: &str, cel: fn(&str) -> Option<String>) -> Option<(Vec<Step>, Option<String>)> {
    Some(match expression.split_once("||") {
        Some((path, or)) => (steps(path.trim())?, Some(literal(or.trim()).or_else(|| cel(or))?)),
        None => (steps(expression.trim())?, None),
    })
}

/// Returns the names of a path that has only fields.
fn fields(steps: &[Step]) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for step in steps {
        let Step::Field(name) = step else { return None };
        names.push(name.as_str());
    }
    Some(names)
}

/// Translates a literal: `false`, a whole number, or a text without quotes or escapes, in either notation.
fn literal(literal: &str) -> Option<String> {
    let inner = |open: &str, close: &str| literal.strip_prefix(open)?.strip_suffix(close);
    if let Some(text) = inner("'", "'").or_else(|| inner("`\"", "\"`")) {
        let is_plain = !text.contains(['\'', '"', '`', '\\', '{', '}']);
        return is_plain.then(|| quoted(text));
    }
    let json = inner("`", "`")?.trim();
    let is_number = json.parse::<i32>().is_ok_and(|number| number.to_string() == json);
    // JMESPath treats false as missing, so an expression with the default `true` would always be true.
    (is_number || json == "false").then(|| json.to_owned())
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits a path into its steps: `a.b[0]."c/d"`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    loop {
        let end = match rest.strip_prefix('"') {
            Some(inner) => inner.find('"')? + 2,
            None => rest.find(['.', '[']).unwrap_or(rest.len()),
        };
        let name = rest[..end].trim_matches('"');
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_name = if rest.starts_with('"') { !name.contains('\\') } else { is_plain };
        if name.is_empty() || !is_name {
            return None;
        }
        steps.push(Step::Field(name.to_owned()));
        rest = &rest[end..];
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
        match rest {
            "" => return Some(steps),
            more => rest = more.strip_prefix('.')?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_of_a_namespace_is_translated_and_nothing_else() {
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
            (
                "request.object.metadata.labels.a || request.object.metadata.labels.b || 'c'",
                Some(
                    "namespaceObject.metadata.?labels['a'].orValue(namespaceObject.metadata.?labels['b'].orValue('c'))",
                ),
            ),
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
            assert_eq!(of_namespace(expression).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn what_is_certain_of_an_object_is_translated_and_nothing_else() {
        for (expression, expected) in [
            ("request.object.metadata.name", Some("object.metadata.name")),
            ("request.name", Some("object.metadata.name")),
            ("request.namespace", Some("object.metadata.namespace")),
            ("request.object.metadata.namespace", Some("object.metadata.namespace")),
            ("request.object.metadata.uid", Some("object.metadata.uid")),
            ("request.object.kind", Some("object.kind")),
            ("request.object.metadata.labels", Some("object.metadata.labels")),
            ("request.object.metadata.labels.app", Some("object.metadata.labels['app']")),
            (
                "request.object.metadata.labels.\"a/b\" || 'c'",
                Some("object.metadata.?labels['a/b'].orValue('c')"),
            ),
            ("request.object.spec.replicas", Some("object.spec.replicas")),
            ("request.object.spec.replicas || `1`", Some("object.?spec.?replicas.orValue(1)")),
            ("request.object.spec.tls || `false`", Some("object.?spec.?tls.orValue(false)")),
            ("request.object.spec.rules[0].host", Some("object.spec.rules[0].host")),
            (
                "request.object.spec.selector.\"a.b/c\" || 'd'",
                Some("object.?spec.?selector['a.b/c'].orValue('d')"),
            ),
            ("request.object.data.\"a.txt\"", Some("object.data['a.txt']")),
            ("request.object.spec.namespace", Some("object.spec['namespace']")),
            ("request.object.spec.void", Some("object.spec['void']")),
            ("request.object.spec.tls || `true`", None),
            ("request.object.spec.rules[0].host || 'a'", None),
            ("request.object.spec.rules[*].host", None),
            ("request.object.spec.rules[].host", None),
            ("request.object.spec.rules[-1].host", None),
            ("request.object.spec.a || `[]`", None),
            ("request.object.metadata.labels || `{}`", None),
            ("request.object.metadata.generation", None),
            ("request.object.metadata.ownerReferences[0].name", None),
            ("request.object", None),
            ("request.oldObject.spec.a", None),
            ("request.userInfo.username", None),
            ("element.name", None),
        ] {
            assert_eq!(of_object(expression).as_deref(), expected, "{expression}");
        }
    }
}
