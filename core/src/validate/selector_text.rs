//! Label selectors in one line of text, in the syntax of `kubectl -l`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Reads `team=blue,tier!=db,env in (a,b),zone notin (c),old,!new`: the grammar of Kubernetes'
/// `labels.Parse`, except for `<` and `>`, which a LabelSelector lacks. Keys and values are not validated.
///
/// # Errors The text is not a selector; the message has the fix.
pub fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    if text.trim().is_empty() {
        return Err("must not be empty; write labels such as team=blue".into());
    }
    let terms = split_outside(text, '(', ')');
    let requirements: Result<Vec<_>, String> = terms.into_iter().map(requirement).collect();
    Ok(LabelSelector { match_labels: None, match_expressions: Some(requirements?) })
}

/// Splits at the commas outside of brackets.
pub(crate) fn split_outside(text: &str, open: char, close: char) -> Vec<&str> {
    let (mut terms, mut from, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, one) in text.char_indices() {
        match one {
            one if one == open => depth += 1,
            one if one == close => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[from..]);
    terms
}

fn requirement(term: &str) -> Result<LabelSelectorRequirement, String> {
    let term = term.trim();
    let no_term = || {
        format!(
            "{term:?} is not a label requirement; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
        )
    };
    let of = |key: &str, operator: &str, values: Option<Vec<String>>| {
        let key = key.trim();
        let one_word =
            !key.is_empty() && !key.contains(|one: char| one.is_whitespace() || "=!<>()".contains(one));
        let requirement =
            LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
        one_word.then_some(requirement).ok_or_else(no_term)
    };
    if let Some((key, values)) = term.strip_suffix(')').and_then(|term| term.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let (key, word) = key.trim_end().rsplit_once(char::is_whitespace).ok_or_else(no_term)?;
        return match word {
            "in" => of(key, "In", Some(values)),
            "notin" => of(key, "NotIn", Some(values)),
            _ => Err(no_term()),
        };
    }
    let one = |value: &str| Some(vec![value.trim().to_owned()]);
    if let Some((key, value)) = term.split_once("!=") {
        return of(key, "NotIn", one(value));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return of(key, "In", one(value));
    }
    match term.strip_prefix('!') {
        Some(key) => of(key, "DoesNotExist", None),
        None => of(term, "Exists", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_means_what_kubectl_means() {
        let read = |text: &str| -> Vec<String> {
            let all = parse_selector(text).unwrap().match_expressions.unwrap();
            let line = |one: LabelSelectorRequirement| {
                format!("{} {} {}", one.key, one.operator, one.values.unwrap_or_default().join("|"))
            };
            all.into_iter().map(line).collect()
        };
        assert_eq!(
            read(" team = blue,tier!=db, env in (a, b),zone notin (c),example.com/old ,! new,x==y,empty="),
            [
                "team In blue",
                "tier NotIn db",
                "env In a|b",
                "zone NotIn c",
                "example.com/old Exists ",
                "new DoesNotExist ",
                "x In y",
                "empty In "
            ]
        );
    }

    #[test]
    fn what_is_no_selector_is_said_to_be_none() {
        for text in
            ["", "  ", "a b", "=x", "a in b", "a near (b)", "in (a)", "a,,b", "a=b,", "a>1", "!", "a in (b"]
        {
            assert!(parse_selector(text).is_err(), "{text:?} was taken");
        }
    }
}
