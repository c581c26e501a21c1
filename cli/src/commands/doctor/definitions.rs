//! Compares our CustomResourceDefinitions and admission policies with the versions that this build knows.

use serde_json::Value;

use super::{
    facts::{Facts, Pair},
    finding::{Findings, Id},
};
use crate::{crds::guarded, hooks::is_empty, installed::Install};

/// The annotation by which Helm knows the objects of a release.
const OF_A_RELEASE: &str = "/metadata/annotations/meta.helm.sh~1release-name";

/// Reports objects of `copyrator crds` that are missing or differ.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let fix = fix(facts, install);
    definitions(facts, &fix, found);
    for Pair { wanted, live } in &facts.admission {
        let name = named(wanted);
        match live {
            Err(unread) => found.unknown(&[Id::PolicyMissing, Id::PolicyChanged], unread),
            Ok(None) if wanted["kind"].as_str().is_some_and(|kind| kind.starts_with("Mutating")) => {
                let what = "does not exist, so the hook author.copyrator.dev must record authors instead of the API server; while no \
                 webhook answers, the API server refuses writes of rules and monitors";
                found.warning(Id::PolicyMissing, name, what, &fix);
            }
            Ok(None) => {
                let what = "does not exist, so the API server does not protect copies, statuses, or the recorded authors of rules and \
                 annotations by itself";
                found.error(Id::PolicyMissing, name, what, &fix);
            }
            Ok(Some(live)) => {
                let granted = install.template_kinds();
                let declared = || granted.iter().filter_map(|kind| kind.rendered);
                let wanted = guarded(wanted.clone(), declared());
                let live = guarded(live.clone(), [].into_iter());
                if let Some(at) = difference(&live["spec"], &wanted["spec"], "spec".into()) {
                    let what = format!("differs from this version of Copyrator at {at}");
                    found.error(Id::PolicyChanged, name, what, &fix);
                }
            }
        }
    }
}

fn definitions(facts: &Facts, fix: &str, found: &mut Findings) {
    let wanted = crate::crds::manifests();
    for (name, live) in &facts.definitions {
        let object = format!("CustomResourceDefinition {name}");
        let live = match live {
            Ok(live) => live,
            Err(unread) => {
                found.unknown(&[Id::CrdMissing, Id::CrdOld], unread);
                continue;
            }
        };
        let Some(live) = live else {
            let what = "does not exist, so the API server refuses objects of this kind; Copyrator removes nothing until it exists again";
            found.error(Id::CrdMissing, object, what, fix);
            continue;
        };
        if live.metadata.deletion_timestamp.is_some() {
            let what = "is being deleted with every object of this kind; copies stay. Create it again after the deletion";
            found.error(Id::CrdMissing, object, what, fix);
            continue;
        }
        let conditions = live.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions.clone().any(|one| one.type_ == "Established" && one.status == "True") {
            found.error(Id::CrdMissing, object, "exists, but the API server does not serve it", fix);
            continue;
        }
        let wanted = wanted.iter().find(|wanted| wanted["metadata"]["name"] == name.as_str());
        let live = serde_json::to_value(live).unwrap_or_default();
        match wanted.and_then(|wanted| schema_difference(&live, wanted)) {
            Some(SchemaDiff::Lacks(at)) => {
                let what = format!(
                    "has no {at}: the API server silently drops that field from objects that users write"
                );
                found.error(Id::CrdOld, object, what, fix);
            }
            Some(SchemaDiff::At(at)) => {
                let what = format!("belongs to another version of Copyrator, or was edited: {at} differs");
                found.warning(Id::CrdOld, object, what, fix);
            }
            None => {}
        }
    }
}

/// The command that fixes the objects: Helm's if Helm wrote them, else `copyrator crds`, since each would
/// conflict with the other's fields.
fn fix(facts: &Facts, install: &Install<'_>) -> String {
    let is_helms = |object: &Value| object.pointer(OF_A_RELEASE).is_some();
    let definitions = facts.definitions.iter().filter_map(|(_, live)| live.as_ref().ok()?.as_ref());
    let policies = facts.admission.iter().filter_map(|pair| pair.live.as_ref().ok()?.clone());
    let there: Vec<Value> =
        definitions.filter_map(|live| serde_json::to_value(live).ok()).chain(policies).collect();
    if there.is_empty() || there.iter().any(is_helms) {
        return install.repair();
    }
    let version = facts.server.as_ref().map(|server| format!(" --kube-version {server}")).unwrap_or_default();
    // Without these kinds, the admission policies would stop guarding their objects.
    let written = install.template_kinds().into_iter().filter(|one| one.rendered.is_some());
    let written = written.map(|one| {
        let uses: Vec<&str> = one.uses().filter(|used| ["render", "copy"].contains(used)).collect();
        format!("{}/{}/{}/{}", one.kind.api_version, one.kind.kind, one.plural, uses.join("+"))
    });
    let kinds = match written.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => none,
        some => format!(" --template-kinds {some}"),
    };
    format!("copyrator crds{version}{kinds} | kubectl apply --server-side -f -")
}

enum SchemaDiff {
    /// A field is missing: its path.
    Lacks(String),
    /// A different kind of difference: its path.
    At(String),
}

/// The first difference between two definitions' schemas.
fn schema_difference(live: &Value, wanted: &Value) -> Option<SchemaDiff> {
    let versions = |object: &Value| object["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for wanted in versions(wanted) {
        let Some(live) = versions(live).into_iter().find(|one| one["name"] == wanted["name"]) else {
            return Some(SchemaDiff::Lacks(format!("version {}", wanted["name"])));
        };
        let of = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        if let Some(at) = lacks(&of(&live), &of(&wanted), String::new()) {
            return Some(SchemaDiff::Lacks(at));
        }
        if let Some(at) = difference(&of(&live), &of(&wanted), "the schema".into()) {
            return Some(SchemaDiff::At(at));
        }
    }
    None
}

/// The first field that a schema lacks, as people write it.
fn lacks(live: &Value, wanted: &Value, at: String) -> Option<String> {
    if let Some(properties) = wanted["properties"].as_object() {
        for (name, wanted) in properties {
            let here = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            let live = &live["properties"][name];
            if live.is_null() {
                return Some(here);
            }
            if let Some(deeper) = lacks(live, wanted, here) {
                return Some(deeper);
            }
        }
    }
    wanted.get("items").and_then(|wanted| lacks(&live["items"], wanted, format!("{at}[]")))
}

/// The path of the first difference. Values that the API server fills in are ignored.
fn difference(live: &Value, wanted: &Value, at: String) -> Option<String> {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let more = live.iter().find(|(key, value)| !wanted.contains_key(*key) && !is_default(key, value));
            let more = more.map(|(key, _)| format!("{at}.{key}"));
            more.or_else(|| {
                wanted.iter().find_map(|(key, wanted)| {
                    difference(live.get(key).unwrap_or(&Value::Null), wanted, format!("{at}.{key}"))
                })
            })
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            let pairs = live.iter().zip(wanted).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (live, wanted))| difference(live, wanted, format!("{at}[{index}]")))
        }
        _ => (live != wanted && !(is_empty(live) && is_empty(wanted))).then_some(at),
    }
}

/// Whether this value is the API server's default for a field that we leave out.
fn is_default(key: &str, value: &Value) -> bool {
    let says = |text: &str| value == text;
    match key {
        "failurePolicy" => says("Fail"),
        "matchPolicy" => says("Equivalent"),
        "scope" => says("*"),
        _ => is_empty(value),
    }
}

fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_server_fills_in_is_no_difference_and_what_exempts_is() {
        let wanted = json!({"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{"a": 1}]}});
        let mut live = wanted.clone();
        live["failurePolicy"] = "Fail".into();
        live["matchConstraints"]["namespaceSelector"] = json!({});
        live["matchConstraints"]["resourceRules"][0]["scope"] = "*".into();
        assert_eq!(difference(&live, &wanted, "spec".into()), None);
        for (pointer, value, at) in [
            ("/failurePolicy", json!("Ignore"), "spec.failurePolicy"),
            (
                "/matchConstraints/namespaceSelector",
                json!({"matchLabels": {}, "x": 1}),
                "spec.matchConstraints.namespaceSelector",
            ),
            ("/validations/0/expression", json!("false"), "spec.validations[0].expression"),
            ("/validations", json!([]), "spec.validations"),
        ] {
            let mut edited = live.clone();
            *edited.pointer_mut(pointer).unwrap() = value;
            assert_eq!(difference(&edited, &wanted, "spec".into()).as_deref(), Some(at));
        }
    }

    #[test]
    fn an_old_schema_is_told_by_the_first_field_that_it_lacks() {
        let wanted =
            json!({"properties": {"spec": {"properties": {"data": {"items": {"properties": {"new": {}}}}}}}});
        let mut old = wanted.clone();
        assert_eq!(lacks(&old, &wanted, String::new()), None);
        old["properties"]["spec"]["properties"]["data"]["items"] = json!({"properties": {}});
        assert_eq!(lacks(&old, &wanted, String::new()).as_deref(), Some("spec.data[].new"));
    }
}
