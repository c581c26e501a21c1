//! Policies as they are drawn, what each means, stated naively, and how copies are judged.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::{
    model::World,
    names::{Kind, ObjectKey},
    plan::copy::{CopyWrite, Guards},
};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    cluster::Cluster,
    copy_model::{
        acting::{at, manifest},
        server::Server,
        stored::{Field, Fields},
    },
};

/// What every policy here refuses in key `a`.
pub const BAD: &str = "bad";

/// Those present, by name.
pub type Policies = BTreeMap<&'static str, Policy>;

#[derive(Clone, Copy, Debug)]
pub struct Policy {
    kind: Kind,
    names: Option<&'static str>,
    excluded: Option<&'static str>,
    /// Only where `team: blue`.
    is_of_blue: bool,
    /// Only objects with this label, which copies have from others or from their rule.
    labelled: Option<&'static str>,
}

pub fn any_policy() -> impl Strategy<Value = Policy> {
    let kind = select(&[Kind::ConfigMap, Kind::ConfigMap, Kind::ConfigMap, Kind::Secret][..]);
    let names = select(&[None, None, Some("x")][..]);
    let excluded = select(&[None, None, Some("a"), Some("b")][..]);
    let labelled = select(&[None, Some("app"), Some("theirs")][..]);
    (kind, names, excluded, any::<bool>(), labelled).prop_map(
        |(kind, names, excluded, is_of_blue, labelled)| Policy {
            kind,
            names,
            excluded,
            is_of_blue,
            labelled,
        },
    )
}

impl Policy {
    pub fn spec(&self) -> Value {
        let blue = self.is_of_blue.then(|| json!({"matchLabels": {"team": "blue"}}));
        let labelled =
            self.labelled.map(|key| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]}));
        json!({
            "match": {"kinds": [self.kind.to_string()], "names": self.names.map(|name| [name]),
                "excludeNamespaces": Vec::from_iter(self.excluded), "namespaceSelector": blue,
                "objectSelector": labelled},
            "failurePolicy": "Fail", "data": [{"name": "good", "keys": ["a"], "pattern": "1|2"}],
        })
    }
}

impl Cluster {
    /// Whether a policy refuses this content in this place.
    pub fn refuses(&self, slot: &ObjectKey, values: &Fields) -> bool {
        let labels = self.server.namespaces.get(&*slot.namespace).map(|it| it.labels.clone());
        let is_blue = labels.is_some_and(|it| it.get("team").is_some_and(|team| team == "blue"));
        let speaks = |policy: &Policy| {
            policy.kind == slot.kind
                && policy.names.is_none_or(|name| name == &*slot.name)
                && policy.excluded.is_none_or(|excluded| excluded != &*slot.namespace)
                && (is_blue || !policy.is_of_blue)
                && policy.labelled.is_none_or(|key| values.contains_key(&Field::Label(key.into())))
        };
        values.get(&Field::Data("a".into())).is_some_and(|value| value == BAD.as_bytes())
            && self.policies.values().any(speaks)
    }
}

/// What these policies say of a write, as `reconcile/guard.rs` asks them.
pub fn refusal(
    server: &Server,
    world: &World,
    slot: &ObjectKey,
    (write, guards): (&CopyWrite, &Guards),
    now: i64,
) -> Option<String> {
    let source = server.objects.get(&write.source).filter(|it| it.version() == write.source_version)?;
    let old = write.replaces.as_ref().and_then(|_| server.objects.get(slot));
    let mut new = manifest(slot, write, &source.values);
    for (field, value) in old.iter().flat_map(|old| &old.values) {
        let name = match field {
            Field::Label(key) => format!("label/{key}"),
            Field::Annotation(key) => format!("annotation/{key}"),
            _ => continue,
        };
        if world.object(slot).is_some_and(|there| write.keeps(there, &name)) {
            new.entry(field.clone()).or_insert_with(|| value.clone());
        }
    }
    let new = text(slot, &new);
    let old = old.map(|old| text(slot, &old.values));
    guards.refusal(&new, old.as_deref(), at(now)).unwrap()
}

fn text(key: &ObjectKey, values: &Fields) -> String {
    let mut object = json!({
        "apiVersion": "v1", "kind": key.kind.to_string(),
        "metadata": {"namespace": &*key.namespace, "name": &*key.name},
    });
    for (field, value) in values {
        let text = String::from_utf8_lossy(value);
        match field {
            Field::Data(name) if key.kind == Kind::ConfigMap => object["data"][name] = json!(text),
            Field::Data(name) => object["data"][name] = json!(STANDARD.encode(value)),
            Field::Binary(name) => object["binaryData"][name] = json!(STANDARD.encode(value)),
            Field::Label(name) => object["metadata"]["labels"][name] = json!(text),
            Field::Annotation(name) => object["metadata"]["annotations"][name] = json!(text),
            Field::Type => object["type"] = json!(text),
            Field::Immutable => object["immutable"] = json!(value == b"true"),
            Field::StringData(_) | Field::Path(_) => {}
        }
    }
    object.to_string()
}
