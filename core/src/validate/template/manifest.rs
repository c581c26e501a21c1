//! Checks the manifests of a template's objects: the kinds must be allowed for templates, and the manifests
//! must lack the fields that only Kubernetes or Copyrator sets.

use serde_json::Value;

use super::node::{MUST_BE_LITERAL, below};
use crate::{
    api::{Problem, WorkloadKind},
    marks::{PREFIX, RESTART, never_carried},
    names::NameKind,
    validate::{invalid, selector::is_label_value, template_kinds::never_rendered},
};

/// Types of Secrets that contain a token. Every reader of such a Secret would get the rights of an account.
const TOKENS: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];
/// The fields of metadata that a template sets.
const METADATA: [&str; 3] = ["name", "labels", "annotations"];

/// Returns the problem of an apiVersion; `None` for a valid one.
pub(super) fn version_fault(api_version: &str) -> Option<&'static str> {
    let mut parts = api_version.split('/').rev();
    let is_word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-')
    };
    let is_one =
        parts.next().is_some_and(is_word) && parts.next().is_none_or(is_word) && parts.next().is_none();
    match api_version {
        "" => Some("is missing, as in apps/v1"),
        _ if has_expression(&api_version.into()) => {
            Some("must be literal: write one object for each kind, with includeWhen")
        }
        _ => (!is_one).then_some("is not a group and version, as in apps/v1 or v1"),
    }
}

/// Returns the problem of a kind; `None` for a valid kind.
pub(super) fn kind_fault(kind: &str) -> Option<&'static str> {
    match kind {
        "" => Some("is missing, as in Deployment"),
        _ if has_expression(&kind.into()) => {
            Some("must be literal: write one object for each kind, with includeWhen")
        }
        _ => (!kind.bytes().all(|byte| byte.is_ascii_alphanumeric()))
            .then_some("is not a kind, as in Deployment"),
    }
}

/// Reports the problems of an object's manifest before rendering; `at` is the manifest's path.
pub(super) fn check(at: &str, object: &Value, for_objects: bool, problems: &mut Vec<Problem>) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut say = |field: &str, what: &str| problems.push(invalid(&below(at, field), what));
    if let Some(what) = version_fault(api_version) {
        say("apiVersion", what);
    }
    if let Some(what) = kind_fault(kind) {
        say("kind", what);
    }
    if let Some(why) = never_rendered(api_version, kind) {
        say("kind", &format!("a template cannot render {kind}: {why}"));
    }
    if object.get("status").is_some() {
        say("status", "is not allowed: the kind's controller writes this field; remove it");
    }
    if object.get("stringData").is_some() {
        say("stringData", "is not allowed: write data in base64");
    }
    for (field, what) in metadata_faults(object, true).into_iter().chain(nested_faults(object)) {
        say(&field, &what);
    }
    let mut literal: Vec<&str> = Vec::new();
    match kind {
        "Secret" => {
            literal.push("type");
            if let Some(token) = TOKENS.into_iter().find(|token| object["type"] == *token) {
                say("type", &format!("a template cannot render {token}: the Secret would contain a token"));
            }
        }
        "RoleBinding" => {
            literal.extend(["userNames", "groupNames"]);
            literal.extend(for_objects.then_some("subjects"));
            let role = &object["roleRef"];
            if role["kind"] != "ClusterRole" || role["name"].as_str().is_none_or(str::is_empty) {
                say("roleRef", "must name a ClusterRole: {kind: ClusterRole, name: …}");
            }
        }
        _ => {}
    }
    for field in literal.into_iter().filter(|field| has_expression(&object[*field])) {
        say(field, MUST_BE_LITERAL);
    }
}

/// Returns the problems of an object's metadata, by field. Before rendering (`is_written`), texts with
/// expressions are skipped.
pub(super) fn metadata_faults(object: &Value, is_written: bool) -> Vec<(String, String)> {
    let metadata = &object["metadata"];
    let is_workload = WorkloadKind::ALL
        .iter()
        .map(|kind| kind.resource())
        .any(|resource| object["kind"] == resource.kind && object["apiVersion"] == resource.api_version);
    let Some(fields) = metadata.as_object() else {
        return vec![("metadata".into(), "must be a literal map with a name".into())];
    };
    let is_later = |value: &Value| is_written && has_expression(value);
    let mut faults = Vec::new();
    let mut say = |field: String, what: &str| faults.push((format!("metadata.{field}"), what.to_owned()));
    for field in fields.keys().filter(|field| !METADATA.contains(&field.as_str())) {
        say(field.clone(), "is not allowed: a template sets only name, labels and annotations in metadata");
    }
    match &metadata["name"] {
        name if is_later(name) => {}
        Value::String(name) if NameKind::Object.is_name(name) => {}
        // RBAC accepts any path segment as a name.
        Value::String(name) if object["kind"] == "RoleBinding" && NameKind::RoleBinding.is_name(name) => {}
        _ => {
            say("name".into(), "is not a valid object name: lower-case letters, digits, - and ., at most 253")
        }
    }
    for field in ["labels", "annotations"] {
        let entries = match &metadata[field] {
            Value::Null => continue,
            value if value.is_string() && is_later(value) => continue,
            Value::Object(entries) => entries,
            _ => {
                say(field.into(), "must be a map of strings");
                continue;
            }
        };
        for (key, value) in entries {
            let what = match value {
                // The annotation declares restarts of this workload itself, not of a copy.
                _ if key == RESTART && field == "annotations" && is_workload => match value {
                    Value::String(_) => continue,
                    _ => "must be a string, as in \"true\"",
                },
                _ if never_carried(key) => NEVER_CARRIED,
                _ if !NameKind::MetadataKey.is_name(key) => "is not a valid key of a label or annotation",
                _ if is_later(value) => continue,
                Value::String(text) if field == "annotations" || is_label_value(text) => continue,
                Value::String(_) => "is not a valid label value: at most 63 letters, digits, -, _ and .",
                _ => "must be a string; put the value in quotes, or write \"${string(…)}\"",
            };
            say(format!("{field}[{}]", crate::validate::printable(key.as_str(), 64)), what);
        }
    }
    faults
}

/// Returns the problems of nested metadata, such as a pod template's, by field. Copyrator writes its own
/// labels and annotations into a pod template; a template that sets these keys would revert Copyrator's
/// values after each restart.
pub(super) fn nested_faults(object: &Value) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata") {
        find_own_keys(name.clone(), value, &mut faults);
    }
    faults
}

fn find_own_keys(at: String, value: &Value, faults: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = below(&at, name);
                let maps = ["labels", "annotations"].into_iter().filter(|_| name == "metadata");
                for (field, entries) in maps.filter_map(|field| Some((field, value[field].as_object()?))) {
                    let own = entries.keys().filter(|key| key.starts_with(PREFIX));
                    faults.extend(own.map(|key| {
                        let key = crate::validate::printable(key.as_str(), 64);
                        (
                            format!("{at}.{field}[{key}]"),
                            "is not allowed: Copyrator itself writes this field".to_owned(),
                        )
                    }));
                }
                find_own_keys(at, value, faults);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_own_keys(format!("{at}[{index}]"), item, faults);
            }
        }
        _ => {}
    }
}

/// The problem of a label or annotation that belongs to a different tool or to Copyrator.
const NEVER_CARRIED: &str = "is not allowed: the tool that uses this key would treat the object as its own";

fn has_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(has_expression),
        Value::Object(fields) => fields.values().any(has_expression),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A restart writes this annotation, and restoring the template's text would cause another rollout.
    #[test]
    fn keys_of_ours_are_refused_in_metadata_of_pods_too() {
        let metadata = json!({"labels": {"app": "a"}, "annotations": {"copyrator.dev/restarted-for": "x", "example.com/a": "b"}});
        let job = json!({"metadata": {"labels": {"copyrator.dev/a": "b"}}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"metadata": metadata}, "claims": [job]}});
        let mut problems = Vec::new();
        check("a", &object, false, &mut problems);
        let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        let of = |place: &str| format!("a.spec.{place}: is not allowed: Copyrator itself writes this field");
        let first = of("claims[0].metadata.labels[copyrator.dev/a]");
        assert_eq!(told, [first, of("template.metadata.annotations[copyrator.dev/restarted-for]")]);
    }

    /// Without this annotation, no rendered workload would restart for a ConfigMap of the same template.
    #[test]
    fn a_workload_may_ask_for_its_own_restarts() {
        let told = |kind: &str, field: &str, key: &str| {
            let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", field: {key: "true"}}});
            let mut problems = Vec::new();
            check("a", &object, false, &mut problems);
            problems.len()
        };
        for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
            assert_eq!(told(kind, "annotations", RESTART), 0, "{kind}");
            assert_eq!(told(kind, "labels", RESTART), 1, "{kind}: it is an annotation");
            assert_eq!(told(kind, "annotations", "copyrator.dev/restart-pods"), 1, "{kind}");
        }
        assert_eq!(told("Service", "annotations", RESTART), 1, "nothing restarts");
    }

    /// Services and Namespaces allow only 63 characters; the API server checks this limit.
    #[test]
    fn a_name_is_what_most_kinds_allow() {
        for (name, is_taken) in [
            ("n".repeat(64), true),
            ("n".repeat(253), true),
            ("n".repeat(254), false),
            ("a.b-c".to_owned(), true),
            ("a..b".to_owned(), false),
            ("a_b".to_owned(), false),
        ] {
            let faults = metadata_faults(&json!({"metadata": {"name": name}}), true);
            assert_eq!(faults.is_empty(), is_taken, "{name}: {faults:?}");
        }
        let of = |labels: Value| json!({"metadata": {"name": "a", "labels": labels}});
        let set = of(json!({"argocd.argoproj.io/secret-type": "repository"}));
        assert_eq!(metadata_faults(&set, true), []);
        let tracked = of(json!({"argocd.argoproj.io/instance": "a"}));
        assert_eq!(metadata_faults(&tracked, true).len(), 1);
    }

    /// Copyrator only checks that the author may write the object; for some kinds, the API server or a
    /// webhook checks further rights of the requesting user.
    #[test]
    fn what_takes_its_rights_from_who_writes_it_is_not_rendered() {
        for (api_version, kind) in [
            ("template.openshift.io/v1", "TemplateInstance"),
            ("authorization.openshift.io/v1", "RoleBinding"),
            ("hnc.x-k8s.io/v1alpha2", "HierarchyConfiguration"),
            ("management.cattle.io/v3", "ProjectRoleTemplateBinding"),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"},
                "roleRef": {"kind": "ClusterRole", "name": "view"}});
            let mut problems = Vec::new();
            check("a", &object, false, &mut problems);
            let told = format!("a.kind: a template cannot render {kind}: ");
            assert!(problems.len() == 1 && problems[0].message.starts_with(&told), "{problems:?}");
        }
    }
}
