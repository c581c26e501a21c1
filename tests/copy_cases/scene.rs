//! Cases as written: what is there, and what then happens.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::{
    digest::DigestKey,
    marks,
    names::{Declarer, Kind, NamespacedName, ObjectKey},
};
use serde::Deserialize;
use serde_json::Value;

use crate::copy_model::{
    acting::{Edit, at, digest_key},
    server::{Answer, Refuses, Server},
    stored::{Entry, Field},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(default = "hundred")]
    pub now: i64,
    /// What is there; with `copied`, what comes of it by second 0 too.
    pub given: Scene,
    #[serde(default)]
    pub copied: bool,
    /// What happens at second 98, and is copied.
    pub earlier: Option<Scene>,
    /// What happens after that.
    #[serde(default)]
    pub then: Scene,
    /// `--max-spread-bytes`.
    pub max_spread: Option<u64>,
    /// Sources whose content is not fetched beforehand.
    #[serde(default)]
    pub unread: bool,
    /// A store whose first list is not complete.
    #[serde(default)]
    pub incomplete: bool,
    /// A watch of rules that has failed.
    #[serde(default)]
    pub doubt: bool,
    pub only_rule: Option<String>,
    /// `--copy-kinds`.
    #[serde(default)]
    pub copy_kinds: BTreeSet<Kind>,
    /// A sweep has read every copy.
    #[serde(default)]
    pub swept: bool,
    /// From then on annotations do not count.
    #[serde(default)]
    pub without_annotations: bool,
    pub expect: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scene {
    /// Labels of each namespace; or `terminating`, or nothing: it goes.
    namespaces: BTreeMap<String, Option<NamespaceScene>>,
    /// By `configmap shop/app`; nothing: it goes.
    objects: BTreeMap<String, Option<ObjectScene>>,
    /// By `home/app`: a JSON merge patch of the spec; nothing: it goes.
    rules: BTreeMap<String, Option<Value>>,
    /// When rules were created, where not at 0.
    created: BTreeMap<String, i64>,
    /// Whether its identity may do what a rule declares.
    authority: BTreeMap<String, Answer>,
    /// The only namespaces in which the identity of a rule may do anything.
    rights: BTreeMap<String, BTreeSet<String>>,
    /// The only ClusterRoles that the identity of a rule may bind.
    binds: BTreeMap<String, BTreeSet<String>>,
    /// The UID of the definition of rules; another one is another definition.
    definition: Option<String>,
    /// Rules that go and come back with this spec, before anybody notices.
    anew: BTreeMap<String, Value>,
    /// Objects whose writes the API server refuses.
    refuses: Vec<String>,
    /// What a mutating policy makes of leaves, or of labels as `label KEY`, from the next write on; nothing: the policy goes.
    rewrites: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NamespaceScene {
    Word(String),
    Labels(BTreeMap<String, String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ObjectScene {
    /// Field manager.
    by: Option<String>,
    how: How,
    /// Of a kind without data: the JSON text of each leaf, by its path.
    data: BTreeMap<String, Option<String>>,
    /// Base64.
    binary: BTreeMap<String, Option<String>>,
    labels: BTreeMap<String, Option<String>>,
    annotations: BTreeMap<String, Option<String>>,
    r#type: Option<String>,
    immutable: Option<bool>,
    marks: Option<Marks>,
}

/// How somebody writes.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// `kubectl edit`, `patch`, `replace` of what is named.
    #[default]
    Patch,
    /// Server-side apply, forced.
    Apply,
    /// Server-side apply of `stringData`.
    StringData,
    /// Nothing but managedFields: emptied.
    ForgetManagers,
    /// Delete and create.
    Anew,
    /// A patch that writes the old managedFields back.
    Forged,
    /// An owner put on that does not exist.
    Owned,
    /// A finalizer put on.
    Held,
    /// Deletion, which a finalizer holds up.
    DeletionHeld,
}

/// The marks of a copy, given explicitly.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    rule: String,
    source: String,
    /// Proof for this object; default: the one that carries it.
    slot: Option<String>,
    #[serde(default)]
    other_key: bool,
    on_removal: String,
    remove_after: Option<i64>,
}

fn hundred() -> i64 {
    100
}

pub fn object_key(text: &str) -> ObjectKey {
    let (kind, name) = text.split_once(' ').unwrap();
    let NamespacedName { namespace, name } = rule_name(name).named();
    let kind = Kind::named(kind).unwrap_or_else(|| panic!("{kind:?} is not copied"));
    ObjectKey { kind, namespace, name }
}

fn rule_name(text: &str) -> Declarer {
    Declarer::parse(text).unwrap_or_else(|| panic!("{text:?} is not a namespace/name"))
}

impl Scene {
    pub fn happen(&self, server: &mut Server) {
        for (name, namespace) in &self.namespaces {
            match namespace {
                None => server.remove_namespace(name),
                Some(NamespaceScene::Labels(labels)) => server.set_namespace(name, labels.clone(), false),
                Some(NamespaceScene::Word(word)) => {
                    server.set_namespace(name, BTreeMap::new(), word == "terminating")
                }
            }
        }
        for (name, object) in &self.objects {
            let key = object_key(name);
            match object {
                None => {
                    server.hold(&key, false);
                    server.remove(&key, None).unwrap();
                }
                Some(object) => object.happen(server, &key),
            }
        }
        for (name, patch) in &self.rules {
            let name = rule_name(name);
            let Some(patch) = patch else {
                server.remove_rule(&name);
                continue;
            };
            let mut spec = server.rules.get(&name).map_or(Value::Null, |rule| rule.spec.clone());
            json_patch::merge(&mut spec, patch);
            server.set_rule(&name, spec, self.created.get(&name.to_string()).copied().unwrap_or(0));
        }
        server.definition = self.definition.clone().or(server.definition.take());
        for (name, spec) in &self.anew {
            let name = rule_name(name);
            server.remove_rule(&name);
            server.set_rule(&name, spec.clone(), 0);
        }
        server.binds.extend(self.binds.iter().map(|(rule, roles)| (rule_name(rule), roles.clone())));
        server.rights.extend(self.rights.iter().map(|(rule, places)| (rule_name(rule), places.clone())));
        server.answers.extend(self.authority.iter().map(|(rule, answer)| (rule_name(rule), *answer)));
        server.refuses.extend(self.refuses.iter().map(|name| (object_key(name), Refuses::Writes)));
        for (object, fields) in &self.rewrites {
            for (field, value) in fields {
                let label = field.strip_prefix("label ").map(|key| Field::Label(key.into()));
                let at = (object_key(object), label.unwrap_or_else(|| Field::Path(field.clone())));
                match value {
                    Some(value) => drop(server.rewrites.insert(at, value.clone().into_bytes())),
                    None => drop(server.rewrites.remove(&at)),
                }
            }
        }
    }
}

impl ObjectScene {
    fn happen(&self, server: &mut Server, key: &ObjectKey) {
        let by = self.by.as_deref().unwrap_or("kubectl-edit");
        let edit = self.edit(key);
        let set = || edit.iter().filter_map(|(field, value)| Some((field.clone(), value.clone()?)));
        match self.how {
            How::Patch => drop(server.update(key, by, &edit).unwrap()),
            How::Anew => {
                server.remove(key, None).unwrap();
                server.update(key, by, &edit).unwrap();
            }
            How::Apply => {
                let version = server.objects.get(key).map(|object| object.version());
                server.apply(key, by, &set().collect(), version.as_ref()).unwrap();
            }
            How::StringData => {
                let data = set().filter_map(|(field, value)| match field {
                    Field::Data(key) => Some((key, value)),
                    _ => None,
                });
                server.apply_string_data(key, by, &data.collect()).unwrap();
            }
            How::ForgetManagers => drop(server.set_entries(key, Vec::<Entry>::new(), None).unwrap()),
            How::Forged => {
                let entries = server.objects[key].entries.clone();
                server.update(key, by, &edit).unwrap();
                server.set_entries(key, entries, None).unwrap();
            }
            How::Owned => {
                server.update(key, by, &edit).unwrap();
                server.own(key, true, None).unwrap();
            }
            How::Held => server.hold(key, true),
            How::DeletionHeld => {
                server.hold(key, true);
                server.remove(key, None).unwrap();
            }
        }
    }

    fn edit(&self, key: &ObjectKey) -> Edit {
        let mut edit = Edit::new();
        let text = |value: &Option<String>| value.clone().map(String::into_bytes);
        let decoded = |value: &Option<String>| value.as_ref().map(|value| STANDARD.decode(value).unwrap());
        let field = |name: &String| match key.kind.data() {
            Some(_) => Field::Data(name.clone()),
            None => Field::Path(name.clone()),
        };
        edit.extend(self.data.iter().map(|(key, value)| (field(key), text(value))));
        let binary = |name: &String| match key.kind {
            Kind::ConfigMap => Field::Binary(name.clone()),
            _ => Field::Data(name.clone()),
        };
        edit.extend(self.binary.iter().map(|(name, value)| (binary(name), decoded(value))));
        edit.extend(self.labels.iter().map(|(key, value)| (Field::Label(key.clone()), text(value))));
        edit.extend(
            self.annotations.iter().map(|(key, value)| (Field::Annotation(key.clone()), text(value))),
        );
        edit.extend(self.r#type.iter().map(|type_| (Field::Type, Some(type_.clone().into_bytes()))));
        edit.extend(self.immutable.iter().map(|on| (Field::Immutable, Some(on.to_string().into_bytes()))));
        if let Some(marks) = &self.marks {
            edit.extend(marks.edit(key));
        }
        edit
    }
}

impl Marks {
    fn edit(&self, key: &ObjectKey) -> Edit {
        let rule = rule_name(&self.rule);
        let slot = self.slot.as_ref().map_or_else(|| key.clone(), |slot| object_key(slot));
        let digest_key = if self.other_key { DigestKey::new(b"another") } else { digest_key() };
        let mut annotations = vec![
            (marks::RULE, self.rule.clone()),
            (marks::SOURCE, self.source.clone()),
            (marks::SOURCE_UID, "1".into()),
            (marks::DIGEST, "0.0".into()),
            (marks::ON_REMOVAL, self.on_removal.clone()),
            (marks::MARK, digest_key.mark(&slot, &rule)),
        ];
        annotations
            .extend(self.remove_after.map(|after| (marks::REMOVE_AFTER, marks::write_time(at(after)))));
        let labels = [(marks::MANAGED_BY, "copyrator".into()), (marks::RULE_LABEL, marks::rule_label(&rule))];
        let annotations = annotations.into_iter().map(|(key, value)| (Field::Annotation(key.into()), value));
        let labels = labels.into_iter().map(|(key, value)| (Field::Label(key.into()), value));
        annotations
            .chain(labels)
            .map(|(field, value): (Field, String)| (field, Some(value.into_bytes())))
            .collect()
    }
}
