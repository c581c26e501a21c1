//! The fields that a write changes in an object without `data`, with the values before and after. Values of
//! ConfigMaps and Secrets are never shown; [`super::Difference`] has the names of their keys.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    marks::{COPY_MANAGER, MANAGED_BY, PREFIX},
    model::ForeignField,
    names::Kind,
    paths::{fields, is_content},
    plan::copy::unlike::{inside, of_item, unlike},
    validate::printable,
};

/// How many fields of one object the result names.
const MOST: usize = 32;
/// How much of a value is shown, in bytes.
const LONGEST_VALUE: usize = 160;
/// Fields that the API server adds to maps that it does not merge: to a `fieldRef` and to a
/// `resourceFieldRef`.
const DEFAULTED: [&str; 2] = ["apiVersion", "divisor"];
/// The declared parts of an object's metadata.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// A field that a write changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Such as `spec.template.spec.containers[web].image`. It ends with `(order)` where only the order of a list changes.
    pub path: String,
    /// Its value as JSON text, of which at most 160 bytes are shown; absent where the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Its value after the write, in the same form; absent where the field goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Returns the fields that an apply of `declared` changes in the stored object, by path and without our
/// marks, and whether there are more. `stored` has its managedFields; `off` are the fields that the write
/// removes first. A ConfigMap or Secret has no such fields.
///
/// The result does not foresee the defaults that the API server sets for removed fields, or changes by
/// webhooks.
pub fn field_changes<'f>(
    kind: Kind,
    mut declared: Value,
    stored: &Value,
    off: impl IntoIterator<Item = &'f ForeignField>,
) -> (Vec<FieldChange>, bool) {
    if kind.data().is_some() {
        return (Vec::new(), false);
    }
    for part in METADATA {
        if let Some(all) = declared["metadata"][part].as_object_mut() {
            all.retain(|key, _| !is_mark(key));
        }
    }
    let mut going = Going { found: Vec::new(), replaced: Vec::new(), declared: &declared };
    going.metadata(stored);
    match kind.is_whole() {
        true => going.whole(off, stored),
        false => going.named(stored),
    }
    let Going { mut found, replaced, .. } = going;
    // The rest of a path in a list: the list itself, its items, their fields, or its order.
    let is_of = |rest: &str| rest.is_empty() || rest.starts_with(['[', '.', ' ']);
    let is_told =
        |path: &str| replaced.iter().any(|list| path.strip_prefix(list.as_str()).is_some_and(is_of));
    let differs = unlike(&declared, stored, MOST + 1).into_iter().filter(|it| !is_told(&it.path));
    found.extend(differs.map(|it| change(it.path, it.stored, it.declared)));
    found.sort_unstable();
    found.dedup();
    let has_more = found.len() > MOST;
    found.truncate(MOST);
    (found, has_more)
}

fn is_mark(key: &str) -> bool {
    key.starts_with(PREFIX) || key == MANAGED_BY
}

fn change(path: String, old: &Value, new: &Value) -> FieldChange {
    let said = |value: &Value| (!value.is_null()).then(|| printable(value.to_string(), LONGEST_VALUE));
    FieldChange { path, old: said(old), new: said(new) }
}

/// The fields that a write removes: they are stored and not declared.
struct Going<'v> {
    found: Vec<FieldChange>,
    /// The paths of lists that are shown whole.
    replaced: Vec<String>,
    declared: &'v Value,
}

/// The fields that managers own at one place of the object, according to its managedFields.
struct Owned<'m> {
    ours: &'m Map<String, Value>,
    others: Vec<&'m Map<String, Value>>,
}

impl<'m> Owned<'m> {
    fn of_object(stored: &'m Value) -> Option<Self> {
        let entries = || stored["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_ours = |entry: &&Value| {
            entry["manager"] == COPY_MANAGER
                && entry["operation"] == "Apply"
                && entry["subresource"].is_null()
        };
        let ours = entries().find(is_ours)?["fieldsV1"].as_object()?;
        let others = entries().filter(|entry| !is_ours(entry));
        Some(Self { ours, others: others.filter_map(|entry| entry["fieldsV1"].as_object()).collect() })
    }

    fn part(&self, name: &str) -> Option<Self> {
        let ours = self.ours.get(name)?.as_object()?;
        let others = self.others.iter().filter_map(|other| other.get(name)?.as_object());
        Some(Self { ours, others: others.collect() })
    }

    /// Whether this place is a value, or an atomic list or map, which the API server does not merge. The dot
    /// stands for the place itself.
    fn is_leaf(&self) -> bool {
        self.ours.keys().all(|name| name == ".")
    }

    /// Whether the API server removes the whole place when we no longer apply it.
    fn goes_whole(&self) -> bool {
        (self.is_leaf() || self.ours.contains_key(".")) && self.others.is_empty()
    }
}

impl Going<'_> {
    fn tell(&mut self, path: String, old: &Value, new: &Value) {
        self.found.push(change(path, old, new));
    }

    /// Adds the labels and annotations that we have applied and that are no longer declared.
    fn metadata(&mut self, stored: &Value) {
        let Some(owned) = Owned::of_object(stored).and_then(|owned| owned.part("f:metadata")) else { return };
        for part in METADATA {
            let Some(owned) = owned.part(&format!("f:{part}")) else { continue };
            for key in owned.ours.keys().filter_map(|name| name.strip_prefix("f:")) {
                let is_shared = owned.part(&format!("f:{key}")).is_some_and(|owned| !owned.others.is_empty());
                let declared = &self.declared["metadata"][part][key];
                let old = &stored["metadata"][part][key];
                if !is_mark(key) && !is_shared && declared.is_null() && !old.is_null() {
                    let path = inside(&inside("metadata", part), key);
                    self.tell(path, old, &Value::Null);
                }
            }
        }
    }

    /// Adds the fields that the write removes, for kinds that are kept whole.
    fn whole<'f>(&mut self, off: impl IntoIterator<Item = &'f ForeignField>, stored: &Value) {
        for field in off {
            let ForeignField::Path(path) = field else { continue };
            let at = |object: &Value| object.pointer(path).cloned().unwrap_or_default();
            let (old, new) = (at(stored), at(self.declared));
            if new.is_null() && !old.is_null() {
                let path = fields(path).fold(String::new(), |path, field| inside(&path, &field));
                self.tell(path, &old, &new);
            }
        }
        let content = self.declared.as_object().into_iter().flatten().filter(|(field, _)| is_content(field));
        for (field, declared) in content {
            self.lists(&inside("", field), declared, &stored[field]);
        }
    }

    /// Adds the fields that we have applied, that no other manager owns, and that are no longer declared, for
    /// other kinds.
    fn named(&mut self, stored: &Value) {
        let Some(owned) = Owned::of_object(stored) else { return };
        let content = owned.ours.keys().filter_map(|name| name.strip_prefix("f:"));
        for field in content.filter(|field| is_content(field)) {
            if let Some(owned) = owned.part(&format!("f:{field}")) {
                self.owned(&inside("", field), &owned, &self.declared[field], &stored[field]);
            }
        }
    }

    fn owned(&mut self, path: &str, owned: &Owned<'_>, declared: &Value, stored: &Value) {
        match (declared, stored) {
            (_, Value::Null) => {}
            (Value::Null, _) if owned.goes_whole() => self.tell(path.to_owned(), stored, declared),
            (declared, stored) if owned.is_leaf() => {
                if let (Value::Object(declared), Value::Object(stored)) = (declared, stored) {
                    let is_extra = |key: &str| !declared.contains_key(key) && !DEFAULTED.contains(&key);
                    for (key, old) in stored.iter().filter(|(key, _)| is_extra(key)) {
                        self.tell(inside(path, key), old, &Value::Null);
                    }
                }
                self.lists(path, declared, stored);
            }
            (declared, stored) => {
                for name in owned.ours.keys().filter(|name| *name != ".") {
                    self.part_of(path, (name, owned), declared, stored);
                }
            }
        }
    }

    /// Visits a field, or an item of a list that the API server merges.
    fn part_of(&mut self, path: &str, (name, owned): (&str, &Owned<'_>), declared: &Value, stored: &Value) {
        let Some(owned) = owned.part(name) else { return };
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        match name.split_once(':') {
            Some(("f", field)) => self.owned(&inside(path, field), &owned, &declared[field], &stored[field]),
            Some(("k", keys)) => {
                let keys = json(keys);
                let keys = keys.as_object();
                // A declared port may leave its protocol to the API server.
                let is_it = |item: &Value, may_lack: bool| {
                    let has =
                        |(name, value): (&String, &Value)| item.get(name).map_or(may_lack, |it| it == value);
                    keys.is_some_and(|keys| keys.iter().all(has))
                };
                let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
                let (declared, stored) = (items(declared), items(stored));
                let declared = declared.iter().find(|item| is_it(item, true)).unwrap_or(&Value::Null);
                if let Some((place, item)) = stored.iter().enumerate().find(|(_, item)| is_it(item, false)) {
                    self.owned(&of_item(path, item, place), &owned, declared, item);
                }
            }
            Some(("v", value)) => {
                let value = json(value);
                let has = |list: &Value| list.as_array().is_some_and(|items| items.contains(&value));
                if has(stored) && !has(declared) && owned.others.is_empty() {
                    self.tell(path.to_owned(), &value, &Value::Null);
                }
            }
            _ => {}
        }
    }

    /// Shows atomic lists whole if they become shorter.
    fn lists(&mut self, path: &str, declared: &Value, stored: &Value) {
        match (declared, stored) {
            (Value::Array(items), Value::Array(others)) if others.len() > items.len() => {
                self.replaced.push(path.to_owned());
                self.tell(path.to_owned(), stored, declared);
            }
            (Value::Array(items), Value::Array(others)) => {
                for (place, (item, other)) in items.iter().zip(others).enumerate() {
                    self.lists(&of_item(path, item, place), item, other);
                }
            }
            (Value::Object(declared), Value::Object(stored)) => {
                for (field, value) in declared {
                    self.lists(&inside(path, field), value, stored.get(field).unwrap_or(&Value::Null));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(kind: Kind, declared: Value, stored: &Value, off: &[ForeignField]) -> Vec<String> {
        let (changes, has_more) = field_changes(kind, declared, stored, off);
        assert!(!has_more);
        let of = |value: Option<String>| value.unwrap_or_else(|| "nothing".into());
        changes.into_iter().map(|it| format!("{}: {} to {}", it.path, of(it.old), of(it.new))).collect()
    }

    fn applied(fields: Value) -> Value {
        json!({ "manager": COPY_MANAGER, "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": fields })
    }

    /// A Deployment as the API server stores it, with defaults, a sidecar and a scale that others have set.
    fn deployment() -> Value {
        let key = |name: &str| format!("k:{{\"name\":\"{name}\"}}");
        let port = "k:{\"containerPort\":80,\"protocol\":\"TCP\"}";
        let container = json!({ ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
            "f:env": { ".": {}, key("A"): { ".": {}, "f:name": {}, "f:value": {} }, key("B"): { ".": {}, "f:name": {}, "f:value": {} } },
            "f:ports": { ".": {}, port: { ".": {}, "f:containerPort": {} } } });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "labels": { "app": "web", "old": "1", "theirs": "1", MANAGED_BY: "copyrator" },
                "annotations": { "copyrator.dev/digest": "abc" },
                "managedFields": [
                    applied(json!({
                        "f:metadata": { "f:labels": { "f:app": {}, "f:old": {}, (format!("f:{MANAGED_BY}")): {} },
                            "f:annotations": { "f:copyrator.dev/digest": {} } },
                        "f:spec": { "f:replicas": {}, "f:minReadySeconds": {}, "f:paused": {}, "f:selector": {}, "f:template": { "f:spec": {
                            "f:nodeSelector": {}, "f:containers": { key("web"): container, key("gone"): { ".": {}, "f:name": {} } },
                        } } },
                    })),
                    { "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:metadata": { "f:labels": { "f:theirs": {} } },
                        "f:spec": { "f:paused": {}, "f:template": { "f:spec": { "f:containers": { key("proxy"): { "f:name": {} } } } } } } },
                ],
            },
            "spec": {
                "replicas": 2, "minReadySeconds": 5, "paused": true, "progressDeadlineSeconds": 600, "selector": { "matchLabels": { "app": "web" } },
                "template": { "spec": { "nodeSelector": { "disk": "ssd", "zone": "a" }, "restartPolicy": "Always", "containers": [
                    { "name": "proxy", "image": "proxy" },
                    { "name": "web", "image": "web:1", "imagePullPolicy": "Always", "args": ["-v", "-x"],
                      "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                      "ports": [{ "containerPort": 80, "protocol": "TCP" }] },
                    { "name": "gone", "image": "gone", "imagePullPolicy": "Always" },
                ] } },
            },
            "status": { "replicas": 2 },
        })
    }

    #[test]
    fn what_changes_comes_and_goes_is_told_with_its_values() {
        let declared = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "labels": { "app": "shop", MANAGED_BY: "copyrator" }, "annotations": { "copyrator.dev/digest": "def" } },
            "spec": {
                "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
                "template": { "spec": { "nodeSelector": { "disk": "ssd" }, "containers": [
                    { "name": "web", "image": "web:2", "args": ["-v"], "env": [{ "name": "A", "value": "1" }, { "name": "C", "value": "3" }],
                      "ports": [{ "containerPort": 80 }] },
                ] } },
            },
        });
        let changes = [
            "metadata.labels.app: \"web\" to \"shop\"",
            "metadata.labels.old: \"1\" to nothing",
            "spec.minReadySeconds: 5 to nothing",
            "spec.replicas: 2 to 3",
            "spec.template.spec.containers[gone]: {\"image\":\"gone\",\"imagePullPolicy\":\"Always\",\"name\":\"gone\"} to nothing",
            "spec.template.spec.containers[web].args: [\"-v\",\"-x\"] to [\"-v\"]",
            "spec.template.spec.containers[web].env[B]: {\"name\":\"B\",\"value\":\"2\"} to nothing",
            "spec.template.spec.containers[web].env[C]: nothing to {\"name\":\"C\",\"value\":\"3\"}",
            "spec.template.spec.containers[web].image: \"web:1\" to \"web:2\"",
            "spec.template.spec.nodeSelector.zone: \"a\" to nothing",
        ];
        assert_eq!(said(Kind::Deployment, declared, &deployment(), &[]), changes);
    }

    #[test]
    fn what_is_there_as_declared_is_no_change() {
        let mut declared = deployment();
        declared["metadata"]["managedFields"] = Value::Null;
        declared["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = Value::Null;
        declared["metadata"]["annotations"]["copyrator.dev/digest"] = "another".into();
        assert_eq!(said(Kind::Deployment, declared, &deployment(), &[]), Vec::<String>::new());
    }

    /// Of a kind that is kept whole all goes that is not declared, also what others have set.
    #[test]
    fn what_a_write_takes_off_is_told() {
        let stored = json!({ "metadata": {}, "spec": { "podSelector": {}, "ingress": [{ "from": [{ "podSelector": {} }] }, {}], "egress": [{}],
            "policyTypes": ["Ingress"] } });
        let declared = json!({ "spec": { "podSelector": {}, "ingress": [{ "from": [{ "podSelector": {} }] }], "policyTypes": ["Ingress"] } });
        let off = [ForeignField::Path("/spec/egress".into())];
        let changes = [
            "spec.egress: [{}] to nothing",
            "spec.ingress: [{\"from\":[{\"podSelector\":{}}]},{}] to [{\"from\":[{\"podSelector\":{}}]}]",
        ];
        assert_eq!(said(Kind::NetworkPolicy, declared, &stored, &off), changes);
    }

    #[test]
    fn a_list_that_is_shown_whole_hides_no_field_whose_name_begins_alike() {
        let stored = json!({ "spec": { "rules": [{ "port": 1 }, {}], "rulesRef": { "name": "a" } } });
        let declared = json!({ "spec": { "rules": [{ "port": 2 }], "rulesRef": { "name": "b" } } });
        let changes =
            ["spec.rules: [{\"port\":1},{}] to [{\"port\":2}]", "spec.rulesRef.name: \"a\" to \"b\""];
        assert_eq!(said(Kind::NetworkPolicy, declared, &stored, &[]), changes);
    }

    #[test]
    fn no_value_of_a_secret_or_config_map_is_told() {
        for kind in [Kind::Secret, Kind::ConfigMap] {
            let (changes, _) =
                field_changes(kind, json!({ "data": { "a": "b" } }), &json!({ "data": { "a": "c" } }), &[]);
            assert_eq!(changes, []);
        }
    }

    #[test]
    fn long_values_and_many_fields_are_cut() {
        let long = "x".repeat(10_000);
        let all: Map<String, Value> = (0..100).map(|at| (at.to_string(), json!(long))).collect();
        let (changes, has_more) =
            field_changes(Kind::Deployment, json!({ "spec": all }), &json!({ "spec": {} }), &[]);
        assert!(has_more && changes.len() == MOST);
        let value = changes[0].new.as_deref().unwrap_or_default();
        assert!(value.len() <= LONGEST_VALUE && value.ends_with('…'), "{value}");
    }
}
