//! Translation of texts with another tool's expressions (`{{…}}`) to texts with CEL expressions (`${…}`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use serde_json::Value;

/// Translates one tool's expressions to CEL, and collects the expressions without an equivalent.
pub(super) struct Expressions {
    /// Returns the expression in CEL; `None` if no equivalent is certain.
    cel: fn(&str) -> Option<String>,
    /// Other syntax that the tool would interpret in a text.
    others: &'static [&'static str],
    /// The expressions without an equivalent, as they are written.
    pub(super) lost: Vec<String>,
}

impl Expressions {
    pub(super) fn new(cel: fn(&str) -> Option<String>, others: &'static [&'static str]) -> Self {
        Self { cel, others, lost: Vec::new() }
    }

    /// Returns the value with each text translated. Templates do not evaluate keys.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    if key.contains("{{") || key.starts_with("+(") {
                        self.lost.push(format!("the key {key:?}"));
                    }
                    (key.clone(), self.value(value))
                });
                fields.collect()
            }
            other => other.clone(),
        }
    }

    /// Returns the text with each `{{ … }}` as a CEL expression. `lost` collects the expressions without an
    /// equivalent.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.lost.extend(self.others.iter().filter(|one| text.contains(*one)).map(|_| text.to_owned()));
        let (mut written, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("{{") {
            written.push_str(&literal(&rest[..at]));
            let inner = &rest[at + 2..];
            let end = inner.find("}}").unwrap_or(inner.len());
            let expression = inner[..end].trim();
            match (self.cel)(expression) {
                Some(cel) => written = followed_by(&written, &cel),
                None => self.lost.push(format!("{{{{ {expression} }}}}")),
            }
            rest = inner.get(end + 2..).unwrap_or_default();
        }
        written.push_str(&literal(rest));
        written
    }
}

/// Escapes a text without expressions, so that no part of the text looks like an expression.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// Appends an expression to a text. Dollar signs before the expression would escape it, so they become part
/// of the expression.
fn followed_by(text: &str, cel: &str) -> String {
    let before = text.trim_end_matches('$');
    match &text[before.len()..] {
        "" => format!("{text}${{{cel}}}"),
        dollars => format!("{before}${{'{dollars}' + ({cel})}}"),
    }
}

/// Returns a text as a CEL string literal.
pub(super) fn quoted(text: &str) -> String {
    match text.contains(|one: char| one == '\'' || one == '\\' || one.is_control()) {
        true => Value::from(text).to_string(),
        false => format!("'{text}'"),
    }
}

/// The CEL variable of the Namespace for which objects are rendered.
pub(super) const NAMESPACE: &str = "namespaceObject";
/// The CEL variable of the object (of another kind than Namespace) for which objects are rendered.
pub(super) const OBJECT: &str = "object";
/// The CEL expression for the name of the namespace.
pub(super) const NAME: &str = "namespaceObject.metadata.name";

/// Returns the CEL expression for a label or annotation of the variable `of`, with `or` as its default.
pub(super) fn entry(of: &str, map: &str, key: &str, or: Option<&str>) -> String {
    let key = quoted(key);
    match or {
        None => format!("{of}.metadata.{map}[{key}]"),
        Some(or) => format!("{of}.metadata.?{map}[{key}].orValue({or})"),
    }
}

/// Returns the CEL condition that the labels or annotations of the variable `of` meet a requirement.
pub(super) fn required(of: &str, map: &str, one: &LabelSelectorRequirement) -> String {
    let all = format!("{of}.metadata.{map}");
    let key = quoted(&one.key);
    let values = one.values.iter().flatten().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
    match one.operator.as_str() {
        "In" => format!("{key} in {all} && {all}[{key}] in [{values}]"),
        "NotIn" => format!("!({key} in {all} && {all}[{key}] in [{values}])"),
        "Exists" => format!("{key} in {all}"),
        "DoesNotExist" => format!("!({key} in {all})"),
        // The API server refuses other operators, so an unknown operator selects nothing.
        _ => "false".into(),
    }
}

/// Returns the CEL condition that a text is one of these names, or matches one of these globs (`*` and `?`).
pub(super) fn one_of(text: &str, names: &[String]) -> String {
    let (globs, literals): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.contains(['*', '?']));
    let literals: Vec<String> = literals.into_iter().map(|name| quoted(name)).collect();
    let globs = globs.into_iter().map(|glob| {
        let pattern = glob.replace('.', "[.]").replace('*', ".*").replace('?', ".");
        format!("{text}.matches('^{pattern}$')")
    });
    let listed = match literals.as_slice() {
        [] => None,
        [one] => Some(format!("{text} == {one}")),
        several => Some(format!("{text} in [{}]", several.join(", "))),
    };
    listed.into_iter().chain(globs).collect::<Vec<_>>().join(" || ")
}

/// Joins conditions by `&&`; `None` for an empty list.
pub(super) fn all_of(conditions: &[String]) -> Option<String> {
    joined(conditions, " && ")
}

/// Joins conditions by `||`; `None` for an empty list.
pub(super) fn any_of(conditions: &[String]) -> Option<String> {
    joined(conditions, " || ")
}

fn joined(conditions: &[String], by: &str) -> Option<String> {
    match conditions {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(several.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_meaning() {
        let cel = |expression: &str| (expression == "a").then(|| "x".to_owned());
        for (text, written, lost) in [
            ("plain $HOME", "plain $HOME", 0),
            ("{{ a }}-{{a}}", "${x}-${x}", 0),
            ("${HOME} {{a}}", "$${HOME} ${x}", 0),
            ("$${HOME}", "$$${HOME}", 0),
            ("a $${{a}}", "a ${'$$' + (x)}", 0),
            ("{{ b }}", "", 1),
            ("{{ a", "${x}", 0),
            ("$(ref)", "$(ref)", 1),
        ] {
            let mut expressions = Expressions::new(cel, &["$("]);
            assert_eq!(expressions.text(text), written, "{text}");
            assert_eq!(expressions.lost.len(), lost, "{text}: {:?}", expressions.lost);
        }
        assert_eq!(quoted("it's"), r#""it's""#);
    }

    #[test]
    fn names_and_globs_are_one_condition() {
        for (names, condition) in [
            (&["a"][..], "x == 'a'"),
            (&["a", "b"], "x in ['a', 'b']"),
            (&["a", "k*", "b.?"], "x == 'a' || x.matches('^k.*$') || x.matches('^b[.].$')"),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(one_of("x", &names), condition);
        }
    }
}
