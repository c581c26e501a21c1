//! Judges existing objects by the policies in the cluster, object by object, so that only one object is in
//! memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    api::{ConfigPolicySpec, CopiesMatch, ExistingViolation, PolicyKind},
    model::{PolicyFacts, ScanResult, World},
    names::ObjectKey,
    validate::{Candidate, CompiledPolicy, Judgement},
};

/// The namespaces that no hook covers, beside our own.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// One pass over all objects that policies cover.
pub struct Scan {
    judges: Vec<Judge>,
}

struct Judge {
    name: Arc<str>,
    kinds: Vec<PolicyKind>,
    policy: Arc<CompiledPolicy>,
    /// Whether the policy covers copies, too.
    copies: bool,
    standing: ScanResult,
}

/// The policies of a scan that cover one object.
pub struct Judges(Vec<usize>);

impl Judges {
    /// Whether no policy covers the object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Scan {
    /// Begins a scan with the policies as they are now.
    pub fn begin(world: &World) -> Self {
        let judges = world.policies().iter().filter_map(|(name, facts)| {
            let policy = judging(facts)?.clone();
            let standing =
                ScanResult { uid: facts.uid.clone(), generation: facts.generation, ..ScanResult::default() };
            let (kinds, copies) = (facts.spec.match_.kinds.clone(), speaks_of_copies(facts));
            Some(Judge { name: name.clone(), kinds, policy, copies, standing })
        });
        Self { judges: judges.collect() }
    }

    /// The kinds that must be listed.
    pub fn kinds(&self) -> BTreeSet<PolicyKind> {
        self.judges.iter().flat_map(|judge| judge.kinds.iter().copied()).collect()
    }

    /// The policies that cover an object: none if the hooks exempt the object or the object is being deleted,
    /// and fewer policies for a copy.
    pub fn judges_of(&self, world: &World, object: &Candidate<'_>) -> Judges {
        if object.deleting || object.is_kubernetes_own() || is_exempt(world, &object.namespace) {
            return Judges(Vec::new());
        }
        let namespace = world.namespaces().get(&*object.namespace).map(|facts| &facts.labels);
        let is_copy = object.marks().is_some();
        let covers = |judge: &Judge| {
            (judge.copies || !is_copy) && judge.policy.covers(object, namespace) == Some(true)
        };
        Judges(
            self.judges.iter().enumerate().filter(|(_, one)| covers(one)).map(|(index, _)| index).collect(),
        )
    }

    /// Judges an object by these policies.
    pub fn judge(&mut self, judges: &Judges, object: &Candidate<'_>, now: Timestamp) {
        for index in &judges.0 {
            let Some(Judge { policy, standing, .. }) = self.judges.get_mut(*index) else { continue };
            for violation in policy.judge_standing(&mut Judgement::new(object, now)) {
                let message = violation.brief();
                let namespace = match object.kind {
                    PolicyKind::Namespace => String::new(),
                    _ => object.namespace.clone().into_owned(),
                };
                standing.add(ExistingViolation {
                    kind: object.kind,
                    namespace,
                    name: object.name.clone().into_owned(),
                    rule: violation.rule,
                    key: violation.key,
                    message,
                });
            }
        }
    }

    /// The violations that the scan found, by policy.
    pub fn end(self) -> BTreeMap<Arc<str>, ScanResult> {
        self.judges.into_iter().map(|judge| (judge.name, judge.standing)).collect()
    }
}

/// Whether a policy was never part of a scan. Later generations of a policy do not count, so editing a policy
/// again and again makes no scan urgent.
pub fn is_unscanned(world: &World) -> bool {
    let never = |name| world.scan_result(name).is_none();
    world.policies().iter().any(|(name, facts)| judging(facts).is_some() && never(name))
}

/// Whether a scan's result is about the current version of this policy.
pub(super) fn is_of(standing: &ScanResult, facts: &PolicyFacts) -> bool {
    standing.uid == facts.uid && standing.generation == facts.generation
}

/// Whether some policy covers an object, according to the object's metadata; true if not all labels of the
/// object are known.
pub fn is_judged(world: &World, key: &ObjectKey) -> bool {
    let (Some(facts), Some(kind)) = (world.object(key), key.kind.data()) else { return false };
    let kind = PolicyKind::from(kind);
    let mut judging = world
        .policies()
        .values()
        .filter(|policy| policy.spec.match_.kinds.contains(&kind))
        .filter_map(self::judging)
        .peekable();
    if judging.peek().is_none() || is_exempt(world, &key.namespace) {
        return false;
    }
    let labels = facts.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let object = Candidate::of_metadata(kind, &key.namespace, &key.name, labels);
    let namespace = world.namespaces().get(&key.namespace).map(|facts| &facts.labels);
    facts.labels.is_cut() || judging.any(|policy| policy.covers(&object, namespace) == Some(true))
}

/// Whether some policy selects objects by the labels of namespaces.
pub(crate) fn hangs_on_namespaces(world: &World) -> bool {
    world.policies().values().filter(|facts| judging(facts).is_some()).any(|facts| {
        let scope = &facts.spec.match_;
        scope.namespace_selector.is_some() || scope.kinds.contains(&PolicyKind::Namespace)
    })
}

/// The compiled policy, if the policy judges existing objects.
pub(crate) fn judging(facts: &PolicyFacts) -> Option<&Arc<CompiledPolicy>> {
    let ConfigPolicySpec { data, labels, limits, validations, .. } = &facts.spec;
    let says = !data.is_empty() || labels.is_some() || limits.is_some() || !validations.is_empty();
    facts.compiled.as_ref().ok().filter(|_| says)
}

/// Whether no hook covers a namespace: a system namespace, or our own.
pub fn is_exempt(world: &World, namespace: &str) -> bool {
    SYSTEM.contains(&namespace) || world.settings().own_namespace == namespace
}

/// Whether a policy covers copies.
pub(crate) fn speaks_of_copies(facts: &PolicyFacts) -> bool {
    facts.spec.match_.copies == CopiesMatch::Include
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        api::CopiesMatch,
        marks::{MARK, RULE, SOURCE, rule_label},
        model::{Declared, NamespaceFacts, ObjectFacts},
        names::{Declarer, Kind},
        plan::{Changed, Key, affected},
    };

    fn world(spec: Value) -> World {
        let mut world = World::default();
        world.settings_mut().own_namespace = "copyrator-system".into();
        for (name, team) in
            [("shop", "blue"), ("kube-system", "blue"), ("copyrator-system", "blue"), ("red", "red")]
        {
            let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
            world.set_namespace(name.into(), NamespaceFacts { labels, ..NamespaceFacts::default() });
        }
        let spec: ConfigPolicySpec = serde_json::from_value(spec).unwrap();
        let compiled = CompiledPolicy::compile(&spec).map(Arc::new);
        let facts = Declared {
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            annotations: BTreeMap::new(),
            spec,
            compiled,
            status: None,
        };
        world.set_policy("p".into(), facts);
        world
    }

    fn blue() -> Value {
        json!({
            "match": {"kinds": ["ConfigMap"], "names": ["app-*"], "namespaceSelector": {"matchLabels": {"team": "blue"}}},
            "data": [{"name": "url", "keys": ["url"], "format": "url"}],
            "validations": [
                {"expression": "object.kind == 'ConfigMap' && object.metadata.name != 'app-3'"},
                {"expression": "oldObject == null || request.operation == 'never'"},
            ],
        })
    }

    fn config_map(namespace: &str, name: &str, metadata: Value) -> String {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"url": "x"}});
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["name"] = json!(name);
        object.to_string()
    }

    #[test]
    fn what_no_hook_speaks_of_is_not_counted_and_copies_are_unless_the_policy_leaves_them_out() {
        let world = world(blue());
        let mut scan = Scan::begin(&world);
        assert_eq!(scan.kinds().into_iter().collect::<Vec<_>>(), [PolicyKind::ConfigMap]);
        assert!(is_unscanned(&world));
        let rule = Declarer::rule("a", "b");
        let copy = json!({
            "labels": {"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": rule_label(&rule)},
            "annotations": {MARK: "k.m", RULE: "a/b", SOURCE: "a/app"},
        });
        let (plain, leaving) = (json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        for (namespace, name, metadata, judged) in [
            ("shop", "app-1", &plain, true),
            ("shop", "app-3", &plain, true),
            ("shop", "other", &plain, false),
            ("shop", "app-2", &copy, true),
            ("shop", "app-2", &leaving, false),
            ("red", "app-1", &plain, false),
            ("gone", "app-1", &plain, false),
            ("kube-system", "app-1", &plain, false),
            ("copyrator-system", "app-1", &plain, false),
        ] {
            let text = config_map(namespace, name, metadata.clone());
            let object = Candidate::decode(PolicyKind::ConfigMap, &text).unwrap();
            let judges = scan.judges_of(&world, &object);
            assert_eq!(!judges.is_empty(), judged, "{namespace}/{name}");
            scan.judge(&judges, &object, Timestamp::UNIX_EPOCH);
        }
        let standing = scan.end();
        let told = standing["p"].first.iter().map(|one| format!("{} {}", one.name, one.rule));
        assert_eq!(told.collect::<Vec<_>>(), ["app-1 url", "app-2 url", "app-3 url", "app-3 validations[0]"]);
        assert_eq!(standing["p"].count, 4);
        let mut world = world;
        world.set_scan_results(standing);
        assert!(!is_unscanned(&world));
        world.edit_policy("p", |facts| facts.generation = 2);
        assert!(!is_unscanned(&world), "a quarrel over a policy would have everything read all the time");
        world.set_scan_results(Default::default());
        assert!(is_unscanned(&world));
        world.edit_policy("p", |facts| facts.spec.match_.copies = CopiesMatch::Exclude);
        let text = config_map("shop", "app-2", copy);
        let object = Candidate::decode(PolicyKind::ConfigMap, &text).unwrap();
        assert!(Scan::begin(&world).judges_of(&world, &object).is_empty());
    }

    #[test]
    fn only_what_policies_speak_of_is_looked_at_again() {
        let scans = |world: &World, changed: Changed| affected(world, &changed).contains(&Key::Scan);
        let object = |world: &mut World, namespace: &str, name: &str| {
            let key = ObjectKey::new(Kind::ConfigMap, namespace, name);
            let facts = ObjectFacts {
                uid: "o".into(),
                resource_version: "1".into(),
                labels: Default::default(),
                deletion: None,
                created: jiff::Timestamp::UNIX_EPOCH,
                owners: 0,
                changed_at: Timestamp::UNIX_EPOCH,
                content_fields: 0,
                restart: None,
                marks: None,
                ownership: None,
                examined: None,
                trace: Default::default(),
                seen: Default::default(),
            };
            world.set_object(key.clone(), Some(facts));
            Changed::Object(key)
        };
        let mut world = world(blue());
        for (namespace, name, judged) in [
            ("shop", "app-1", true),
            ("shop", "other", false),
            ("red", "app-1", false),
            ("kube-system", "app-1", false),
        ] {
            let changed = object(&mut world, namespace, name);
            assert_eq!(scans(&world, changed), judged, "{namespace}/{name}");
        }
        assert!(scans(&world, Changed::Namespace("red".into())), "its labels bring objects under the policy");
        assert!(scans(&world, Changed::Policy("p".into())));
        // A policy that only has `whileInUse` does not judge existing objects.
        let mut world = self::world(json!({"match": {"kinds": ["ConfigMap"]}, "whileInUse": "Refuse"}));
        let changed = object(&mut world, "shop", "app-1");
        assert!(!scans(&world, changed) && !scans(&world, Changed::Namespace("red".into())));
    }
}
