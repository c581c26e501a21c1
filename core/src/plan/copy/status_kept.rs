//! The messages about a status that a template writes and the API server does not keep. The usual cause: the
//! chart's grant and the definition of the kind disagree about the place of the status.

use serde_json::{Value, json};

use super::{granted::entry, not_kept};
use crate::{
    model::{StatusFault, StatusFaultKind},
    names::{StatusPlace, TemplateKind},
};

/// How many fields a message names.
const MOST_NAMED: usize = 8;

/// The message if the API server has no place for the status: a subresource that it does not serve.
pub fn status_nowhere(kind: &TemplateKind) -> StatusFault {
    let TemplateKind { kind: named, plural, .. } = kind;
    fault(format!(
        "the API server does not serve {plural}/status: the CustomResourceDefinition of {named} has no status subresource, but its entry \
         in the chart's value templates.kinds (--template-kinds) has status; use statusField there: {}, or add subresources: {{status: \
         {{}}}} to the CustomResourceDefinition",
        granted_otherwise(kind, StatusPlace::Object)
    ))
}

/// The message about a written status for which the API server answered with `stored`; `None` if `stored` has
/// the status.
pub fn status_lost(
    kind: &TemplateKind,
    place: StatusPlace,
    wanted: &Value,
    stored: &Value,
) -> Option<StatusFault> {
    let fields = || wanted.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let is_nothing_kept =
        fields().all(|(name, value)| stored.get(name) != Some(value)) && fields().count() > 0;
    let lost = not_kept(&json!({"status": wanted}), &json!({"status": stored}));
    let is_absent = fields().any(|(name, _)| stored.get(name).is_none());
    if place == StatusPlace::Object && is_nothing_kept && (is_absent || !lost.is_empty()) {
        let TemplateKind { kind: named, .. } = kind;
        return Some(fault(format!(
            "the API server accepts the status but keeps none of it: the CustomResourceDefinition of {named} has a status subresource, \
             but its entry in the chart's value templates.kinds (--template-kinds) has statusField; use status there: {}",
            granted_otherwise(kind, StatusPlace::Subresource)
        )));
    }
    if lost.is_empty() {
        return None;
    }
    let named = lost.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if lost.len() > MOST_NAMED { " and others" } else { "" };
    Some(fault(format!(
        "the API server accepts the status but does not keep the values of {named}{more}: a mutating webhook or policy changes them, or \
         the CustomResourceDefinition lacks the fields; exempt these fields there, or declare the values that it sets"
    )))
}

fn fault(message: String) -> StatusFault {
    StatusFault { kind: StatusFaultKind::NotKept, message }
}

/// The kind's entry with its status in another place.
fn granted_otherwise(kind: &TemplateKind, place: StatusPlace) -> String {
    let other = TemplateKind { status: Some(place), ..kind.clone() };
    entry(&other.kind, &other.plural, &other.uses().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    fn kind(uses: &str) -> TemplateKind {
        let text = format!("pairs.example.com/v1/Pair/pairs/{uses}");
        TemplateKind::read(&text, &GrantedKinds::default()).unwrap()
    }

    #[test]
    fn each_of_the_two_words_is_told_where_the_other_one_is_granted() {
        let told = status_nowhere(&kind("render+forEach+status")).message;
        let entry = "{apiVersion: pairs.example.com/v1, kind: Pair, resource: pairs, use: [render, forEach, statusField]}";
        assert!(told.contains(entry) && told.contains("has status;"), "{told}");
        let granted = kind("forEach+statusField");
        let told = |stored: Value| {
            let lost = status_lost(&granted, StatusPlace::Object, &json!({"a": 0, "b": "x"}), &stored);
            lost.map(|fault| fault.message).unwrap_or_default()
        };
        for stored in [Value::Null, json!({"c": 1}), json!({"b": "another"})] {
            assert!(told(stored.clone()).contains("resource: pairs, use: [forEach, status]}"), "{stored}");
        }
        assert_eq!(told(json!({"a": 0, "b": "x", "c": 1})), "");
        assert!(told(json!({"a": 0, "b": "y"})).contains("status.b:"), "{}", told(json!({"a": 0, "b": "y"})));
    }

    #[test]
    fn what_others_add_is_no_loss() {
        let granted = kind("forEach+status");
        let lost = |wanted: Value, stored: Value| {
            status_lost(&granted, StatusPlace::Subresource, &wanted, &stored).map(|fault| fault.message)
        };
        assert_eq!(lost(json!({"m": {"a": "1"}, "n": null}), json!({"m": {"a": "1", "b": "2"}})), None);
        assert_eq!(lost(json!({"n": null}), Value::Null), None);
        let told = lost(json!({"m": {"a": "x"}}), json!({"m": {"a": "y"}})).unwrap();
        assert!(told.contains("status.m.a:"), "{told}");
    }
}
