//! The index of the sources that annotations declare, and of the templates that act: names and declarations,
//! without content, if the authors have the rights. The index is for the webhook, which watches neither
//! ConfigMaps, Secrets nor templates. From the index, the webhook warns about objects that will appear in a
//! new namespace or disappear with a label, and about the reach of a change.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::inert::{Inert, authority, inert_template};
use crate::{
    api::{CopyratorTemplateSpec, TemplateObject},
    marks::{COPY_TO, COPY_TO_SELECTOR, RESTART_PODS, SOURCE_INDEX},
    model::{ListedGrant, MonitorFacts, RuleFacts, TemplateFacts, World},
    names::{Declarer, Kind, NamespacedName, ObjectKey},
    validate::own_deletion,
};

/// Bytes of all entries together; entries beyond this limit are only counted.
const MOST_BYTES: usize = 500 << 10;
/// Bytes of one source's entry; a longer entry is listed without the values of the source's annotations.
const LONGEST_SOURCE: usize = 2 << 10;
/// Bytes of one template's entry; a longer entry is only counted, so that it does not displace other entries.
const LONGEST_TEMPLATE: usize = 8 << 10;
/// The ConfigMap's key with the index.
const KEY: &str = "sources.json";

/// The sources that annotations declare, as listed in a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceIndex {
    /// The sources that fit into the index.
    pub sources: Vec<IndexedSource>,
    /// The templates that fit into the index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<IndexedTemplate>,
    /// How many sources and templates do not fit into the index.
    pub omitted: usize,
}

/// One template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedTemplate {
    /// Namespace of the template.
    pub namespace: String,
    /// Name of the CopyratorTemplate.
    pub name: String,
    /// The template's `forEach` and removal policy. For each object, the entry has the id, the removal
    /// policy, and the condition and name if these read labels of the namespace; the entry leaves out all
    /// other fields.
    pub spec: CopyratorTemplateSpec,
}

/// One source, and the copies that its annotations declare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedSource {
    /// Whether the source is a ConfigMap or a Secret.
    pub kind: Kind,
    /// Namespace of the source.
    pub namespace: String,
    /// Name of the source.
    pub name: String,
    /// UID of the source; empty in an index of an earlier version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The generations of the rule and of the monitor that were granted: a leader believes no other proofs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub generations: BTreeSet<i64>,
    /// The value of the source's annotation `copyrator.dev/copy-to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_to: Option<String>,
    /// The value of the source's annotation `copyrator.dev/copy-to-selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_to_selector: Option<String>,
    /// The value of the source's annotation `copyrator.dev/restart-pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_pods: Option<String>,
}

impl IndexedSource {
    /// Keeps the identity of the source, and removes the values of its annotations.
    fn without_texts(&mut self) {
        (self.copy_to, self.copy_to_selector, self.restart_pods) = (None, None, None);
    }
}

impl SourceIndex {
    /// The known sources whose author has the declared rights, and the templates that act. A new leader does
    /// not know all rights yet, and until then lists the entries of the index `before`.
    ///
    /// Namespaces take turns, so that the entries of one namespace cannot displace the entries of another: a
    /// leader believes the proofs of listed sources only.
    pub fn of(world: &World, before: Option<&Self>) -> Self {
        let listed_before: BTreeSet<(&str, &str)> = before
            .iter()
            .flat_map(|before| &before.templates)
            .map(|one| (&*one.namespace, &*one.name))
            .collect();
        let was_listed =
            |template: &NamespacedName| listed_before.contains(&(&*template.namespace, &*template.name));
        let mut index = Self::default();
        let mut bytes = 0;
        let declared = world.rules().keys().chain(world.monitors().keys());
        let declared = declared.filter(|name| name.as_annotated().is_some()).chain(world.templates().keys());
        let declared: BTreeSet<&Declarer> = declared.collect();
        let mut turns = BTreeMap::<&str, usize>::new();
        let mut entries = Vec::new();
        for (name, entry) in
            declared.into_iter().filter_map(|name| Some((name, Entry::of(world, name, was_listed)?)))
        {
            let turn = turns.entry(name.namespace()).or_default();
            *turn += 1;
            entries.push((*turn, name, entry));
        }
        // The sort keeps the order within a turn, so that the same entries are left out each time.
        entries.sort_by_key(|(turn, ..)| *turn);
        let mut listed = BTreeMap::new();
        for (_, name, mut entry) in entries {
            index.omitted += usize::from(entry.cut());
            let size = entry.size();
            if size > LONGEST_TEMPLATE || bytes + size > MOST_BYTES {
                index.omitted += 1;
            } else {
                bytes += size;
                listed.insert(name, entry);
            }
        }
        for entry in listed.into_values() {
            match entry {
                Entry::Source(one) => index.sources.push(one),
                Entry::Template(one) => index.templates.push(one),
            }
        }
        index
    }

    /// The grants in the index, by the names of the declarations.
    pub fn grants(self) -> impl Iterator<Item = (Declarer, ListedGrant)> {
        self.sources.into_iter().map(|one| {
            let source = ObjectKey::new(one.kind, one.namespace, one.name);
            (Declarer::annotated(source), ListedGrant { uid: one.uid.into(), generations: one.generations })
        })
    }

    /// Whether the index is empty: it neither lists nor leaves out a source or template.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.templates.is_empty() && self.omitted == 0
    }

    /// The data of the ConfigMap.
    ///
    /// # Errors
    /// The index cannot be written as JSON.
    pub fn to_data(&self) -> Result<BTreeMap<String, String>, serde_json::Error> {
        Ok([(KEY.to_owned(), serde_json::to_string(self)?)].into())
    }

    /// Reads the data of the ConfigMap; `None` for data that is no index of ours.
    pub fn from_data<'d>(value: impl Fn(&str) -> Option<&'d str>) -> Option<Self> {
        serde_json::from_str(value(KEY)?).ok()
    }
}

/// An entry of the index.
enum Entry {
    Source(IndexedSource),
    Template(IndexedTemplate),
}

impl Entry {
    fn of(world: &World, name: &Declarer, was_listed: impl Fn(&NamespacedName) -> bool) -> Option<Self> {
        match name {
            Declarer::Template(named) => {
                let facts = world.templates().get(name)?;
                let acts = acts(world, name, facts).unwrap_or_else(|| was_listed(named));
                acts.then(|| Self::Template(template(named, facts)))
            }
            Declarer::Annotated(object) => source(world, name, object).map(Self::Source),
            Declarer::Rule(_) | Declarer::Monitor(_) => None,
        }
    }

    /// Removes the texts from a source whose texts are too long; returns whether the texts were removed.
    fn cut(&mut self) -> bool {
        match self {
            Self::Source(one) if size(one) > LONGEST_SOURCE => {
                one.without_texts();
                true
            }
            Self::Source(_) | Self::Template(_) => false,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Source(one) => size(one),
            Self::Template(one) => size(one),
        }
    }
}

/// The bytes of an entry, and of the comma after it.
fn size(entry: &impl Serialize) -> usize {
    serde_json::to_string(entry).map_or(0, |text| text.len() + 1)
}

/// The entry of a source that annotations declare, if its author has the rights for the declaration.
fn source(world: &World, name: &Declarer, source: &ObjectKey) -> Option<IndexedSource> {
    let rule = world.rules().get(name).filter(|facts| may_copy(world, name, facts));
    let monitor = world.monitors().get(name).filter(|facts| may_restart(world, name, facts));
    let versions = rule.map(|facts| (&facts.uid, facts.generation)).into_iter();
    let versions: Vec<_> = versions.chain(monitor.map(|facts| (&facts.uid, facts.generation))).collect();
    let (uid, _) = versions.first()?;
    let of_rule = |key| rule.and_then(|facts| facts.annotations.get(key)).cloned();
    Some(IndexedSource {
        kind: source.kind,
        namespace: source.namespace.to_string(),
        name: source.name.to_string(),
        uid: uid.to_string(),
        generations: versions.iter().map(|(_, generation)| *generation).collect(),
        copy_to: of_rule(COPY_TO),
        copy_to_selector: of_rule(COPY_TO_SELECTOR),
        restart_pods: monitor.and_then(|facts| facts.annotations.get(RESTART_PODS)).cloned(),
    })
}

/// Whether a template acts; `None` while unknown.
fn acts(world: &World, name: &Declarer, facts: &TemplateFacts) -> Option<bool> {
    match inert_template(world, name, facts) {
        None => Some(true),
        Some(Inert::NotListed) => None,
        Some(Inert::Unauthorized) if authority(world, name, facts).is_none() => None,
        Some(_) => Some(false),
    }
}

/// The entry of a template.
fn template(name: &NamespacedName, facts: &TemplateFacts) -> IndexedTemplate {
    let CopyratorTemplateSpec { for_each, objects, deletion_policy, deletion_grace, .. } = &facts.spec;
    let object = |(at, object): (usize, &TemplateObject)| {
        let kind = object.template["kind"].as_str().unwrap_or_default();
        let compiled = facts.compiled.as_deref().ok();
        let (include_when, name) = match compiled.is_some_and(|compiled| compiled.follows_labels(&object.id))
        {
            true => (object.include_when.clone(), object.template["metadata"]["name"].as_str()),
            false => (object.include_when.as_ref().map(|_| "false".to_owned()), None),
        };
        // Objects of several kinds may have one name, and all objects in this list are of one kind.
        let name = name.filter(|name| name.contains("${"));
        let name = name.map_or_else(|| format!("x{at}"), |name| format!("x{at}-{name}"));
        let read = compiled.into_iter().flat_map(|compiled| compiled.read_by(&object.id));
        let read: BTreeMap<&str, String> = read.map(|id| (id, format!("${{{id}.metadata.uid}}"))).collect();
        TemplateObject {
            id: object.id.clone(),
            include_when,
            template: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": read}),
            deletion_policy: own_deletion(kind, object.deletion_policy),
            ..TemplateObject::default()
        }
    };
    IndexedTemplate {
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
        spec: CopyratorTemplateSpec {
            for_each: for_each.clone(),
            objects: objects.iter().enumerate().map(object).collect(),
            deletion_policy: *deletion_policy,
            deletion_grace: deletion_grace.clone(),
            ..CopyratorTemplateSpec::default()
        },
    }
}

/// Whether the author has the rights that the rule needs; if unknown, whether the previous index listed this
/// version of the rule.
fn may_copy(world: &World, name: &Declarer, facts: &RuleFacts) -> bool {
    let known = authority(world, name, facts).map(|known| known.answer.is_ok());
    facts.compiled.is_ok() && known.unwrap_or_else(|| world.recalls(name, facts) == Some(true))
}

/// Whether the author has the rights that the monitor needs; if unknown, whether the previous index listed
/// this version of the monitor.
fn may_restart(world: &World, name: &Declarer, facts: &MonitorFacts) -> bool {
    let known = world.monitor_authority(name);
    let known = known.filter(|it| it.uid == facts.uid && it.generation == facts.generation);
    let known = known.map(|known| known.answer.is_ok());
    facts.compiled.is_ok() && known.unwrap_or_else(|| world.recalls(name, facts) == Some(true))
}

/// Whether an object is the ConfigMap with the index.
pub(crate) fn is_source_index(world: &World, key: &ObjectKey) -> bool {
    key.kind == Kind::ConfigMap
        && *key.namespace == *world.settings().own_namespace
        && &*key.name == SOURCE_INDEX
}

/// The ConfigMap with the index, in our own namespace.
pub fn source_index_key(world: &World) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, world.settings().own_namespace.as_str(), SOURCE_INDEX)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        api::{CopyratorRuleSpec, CopyratorTemplate, DataKind},
        intake::{AsWritten, watched::Watched as _},
        model::{Authority, Declared, Refusal, RefusalReason},
        validate::{CompiledTemplate, annotated_rule},
    };

    fn source(
        world: &mut World,
        (namespace, name): (&str, &str),
        copy_to: &str,
        answer: Result<(), Refusal>,
    ) {
        let key = ObjectKey::new(Kind::Secret, namespace, name);
        let annotations = BTreeMap::from([(COPY_TO.to_owned(), copy_to.to_owned())]);
        let declared =
            annotated_rule(DataKind::Secret, name, |key| annotations.get(key).map(String::as_str)).unwrap();
        let (spec, compiled) = match declared {
            Ok((spec, compiled)) => (spec, Ok(std::sync::Arc::new(compiled))),
            Err(problems) => (CopyratorRuleSpec::default(), Err(problems)),
        };
        let facts = Declared {
            uid: "u".into(),
            resource_version: "".into(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            annotations,
            spec,
            compiled,
            status: None,
        };
        world.set_rule(Declarer::annotated(key.clone()), facts);
        let authority = Authority {
            uid: "u".into(),
            generation: 1,
            identity: "user alice".into(),
            answer,
            asked: Timestamp::UNIX_EPOCH,
            questions: 0,
            refusals: 0,
        };
        world.set_rule_authority(&Declarer::annotated(key.clone()), authority);
    }

    #[test]
    fn who_may_is_indexed_and_read_back() {
        let mut world = World::default();
        source(&mut world, ("shop", "a"), "team-*", Ok(()));
        let no = Refusal { reason: RefusalReason::Forbidden, message: "no".into() };
        source(&mut world, ("shop", "b"), "team-*", Err(no));
        let index = SourceIndex::of(&world, None);
        assert_eq!((index.sources.len(), index.omitted), (1, 0));
        let data = index.to_data().unwrap();
        assert_eq!(SourceIndex::from_data(|key| data.get(key).map(String::as_str)), Some(index));
        assert_eq!(SourceIndex::from_data(|_| Some("[")), None);
    }

    /// A template whose author has all declared rights.
    fn template(world: &mut World, (namespace, name): (&str, &str), more: &serde_json::Value) {
        let object = |id: &str, kind: &str| {
            let metadata = json!({"name": "${namespaceObject.metadata.name}-Secret"});
            json!({"id": id, "template": {"apiVersion": "v1", "kind": kind, "metadata": metadata}})
        };
        let mut kept = object("B_2", "ConfigMap");
        kept["includeWhen"] =
            json!("namespaceObject.metadata.name == 'swordfish' && size(c.metadata.uid) > 2");
        let mut labelled = object("c", "ConfigMap");
        labelled["template"]["metadata"]["name"] = json!("c");
        labelled["includeWhen"] = json!("'pods' in namespaceObject.metadata.labels");
        let mut spec = json!({
            "forEach": {"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]},
            "objects": [object("a", "ConfigMap"), labelled, kept], "deletionGrace": "1h",
        });
        json_patch::merge(&mut spec, more);
        let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "spec": spec,
            "metadata": {"namespace": namespace, "name": name, "uid": "u", "generation": 1, "resourceVersion": "1"}});
        let template: AsWritten<CopyratorTemplate> = serde_json::from_value(object).unwrap();
        template.put(world, Timestamp::UNIX_EPOCH);
        let authority = Authority {
            uid: "u".into(),
            generation: 1,
            identity: "user alice".into(),
            answer: Ok(()),
            asked: Timestamp::UNIX_EPOCH,
            questions: 0,
            refusals: 0,
        };
        world.set_rule_authority(&Declarer::template(namespace, name), authority);
    }

    /// The webhook compiles the entries of the index: its warnings would leave out an entry that the webhook
    /// cannot read.
    #[test]
    fn a_template_is_indexed_without_its_texts_and_compiles() {
        let mut world = World::default();
        let mut put = |name: &str, more: serde_json::Value| template(&mut world, ("home", name), &more);
        put("kit", json!({}));
        put("off", json!({"suspend": true}));
        let long: Vec<String> = (0..64).map(|number| format!("{number:0>63}")).collect();
        put("long", json!({"forEach": {"namespaces": vec![json!({"names": long}); 4]}}));
        let index = SourceIndex::of(&world, None);
        assert_eq!((index.templates.len(), index.omitted), (1, 1), "{index:?}");
        let IndexedTemplate { namespace, name, spec } = &index.templates[0];
        assert_eq!((namespace.as_str(), name.as_str()), ("home", "kit"));
        let compiled = CompiledTemplate::compile(spec).unwrap();
        let conditions: Vec<Option<&str>> = compiled.objects.iter().map(|one| one.condition()).collect();
        let by_label = "'pods' in namespaceObject.metadata.labels";
        assert_eq!(
            (conditions, compiled.grace),
            (vec![None, Some(by_label), Some("false")], Some(std::time::Duration::from_secs(3600)))
        );
        assert_eq!(compiled.read_by("B_2").collect::<Vec<_>>(), ["c"]);
        // Objects of several kinds have one name in many templates.
        let one = |id: &str, version: &str, kind: &str| {
            let template = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "web"}});
            json!({"id": id, "includeWhen": by_label, "template": template})
        };
        let both = [one("a", "v1", "ConfigMap"), one("b", "networking.k8s.io/v1", "NetworkPolicy")];
        let mut other = World::default();
        template(&mut other, ("home", "kit"), &json!({ "objects": both }));
        let (name, facts) = other.templates().iter().next().unwrap();
        let compiled =
            CompiledTemplate::compile(&super::template(name.as_template().unwrap(), facts).spec).unwrap();
        assert!(compiled.objects.iter().all(|object| object.condition() == Some(by_label)));

        let data = index.to_data().unwrap();
        assert!(!data.values().any(|text| text.contains("swordfish") || text.contains("Secret")), "{data:?}");
        assert_eq!(SourceIndex::from_data(|key| data.get(key).map(String::as_str)), Some(index.clone()));

        // A leader that has just begun knows of no answer yet.
        world.forget_rule_authority(&Declarer::template("home", "kit"), |_| true);
        assert_eq!(SourceIndex::of(&world, Some(&index)).templates, index.templates);
        assert_eq!(SourceIndex::of(&world, None).templates, []);
    }

    fn names(number: usize) -> String {
        (0..number).map(|number| format!("{number:0>63}")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn what_does_not_fit_is_counted_and_takes_no_place_of_another_namespace() {
        let mut world = World::default();
        for number in 0..300 {
            source(&mut world, ("a-tenant", &format!("source-{number}")), &names(28), Ok(()));
        }
        source(&mut world, ("shop", "certificate"), "team-*", Ok(()));
        template(&mut world, ("site", "kit"), &json!({}));
        let index = SourceIndex::of(&world, None);
        assert!(index.omitted > 0 && index.sources.len() + index.omitted == 301, "{}", index.omitted);
        assert_eq!(index.templates.len(), 1);
        assert_eq!(index.sources.last().map(|one| &*one.namespace), Some("shop"));
        let size: usize = index.to_data().unwrap().values().map(String::len).sum();
        assert!(size <= MOST_BYTES + 100, "{size}");
    }

    #[test]
    fn a_source_that_asks_for_much_is_listed_without_what_it_asks_for() {
        let mut world = World::default();
        source(&mut world, ("shop", "long"), &names(64), Ok(()));
        let index = SourceIndex::of(&world, None);
        assert_eq!((index.sources[0].copy_to.as_deref(), index.omitted), (None, 1));
        assert_eq!(index.sources[0].generations, [1].into());
    }
}
