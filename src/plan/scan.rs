//! What is there already, judged by the policies present: object by object, so that no more than one needs to be held.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    api::{ConfigPolicySpec, PolicyKind, StandingViolation},
    model::{Kind, ObjectKey, PolicyFacts, Standing, World},
    validate::{Candidate, CompiledPolicy},
};

/// The namespaces that no hook speaks of, beside our own.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// One look at everything that policies speak of.
pub struct Scan {
    judges: Vec<Judge>,
}

struct Judge {
    name: Arc<str>,
    kinds: Vec<PolicyKind>,
    policy: Arc<CompiledPolicy>,
    standing: Standing,
}

/// The policies of a scan that speak of an object.
pub struct Judges(Vec<usize>);

impl Judges {
    /// Whether nobody speaks of the object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Scan {
    /// Begins one, by the policies as they are.
    pub fn begin(world: &World) -> Self {
        let judges = world.policies.iter().filter_map(|(name, facts)| {
            let policy = judging(facts)?.clone();
            let standing =
                Standing { uid: facts.uid.clone(), generation: facts.generation, ..Standing::default() };
            Some(Judge { name: name.clone(), kinds: facts.spec.match_.kinds.clone(), policy, standing })
        });
        Self { judges: judges.collect() }
    }

    /// The kinds that are to be looked at.
    pub fn kinds(&self) -> BTreeSet<PolicyKind> {
        self.judges.iter().flat_map(|judge| judge.kinds.iter().copied()).collect()
    }

    /// Who speaks of an object: what hooks exempt, what is on its way out and copies, which are judged at their source,
    /// nobody does.
    pub fn judges_of(&self, world: &World, object: &Candidate<'_>) -> Judges {
        if object.deleting || object.marks().is_some() || is_exempt(world, &object.namespace) {
            return Judges(Vec::new());
        }
        let namespace = world.namespaces.get(&*object.namespace).map(|facts| &facts.labels);
        let covers = |judge: &Judge| judge.policy.covers(object, namespace) == Some(true);
        Judges(
            self.judges.iter().enumerate().filter(|(_, one)| covers(one)).map(|(index, _)| index).collect(),
        )
    }

    /// Has them judge it.
    pub fn judge(&mut self, judges: &Judges, object: &Candidate<'_>, now: Timestamp) {
        for index in &judges.0 {
            let Some(Judge { policy, standing, .. }) = self.judges.get_mut(*index) else { continue };
            for violation in policy.judge_standing(object, now) {
                let message = violation.brief();
                let namespace = match object.kind {
                    PolicyKind::Namespace => String::new(),
                    _ => object.namespace.clone().into_owned(),
                };
                standing.add(StandingViolation {
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

    /// What came of it, by policy.
    pub fn end(self) -> BTreeMap<Arc<str>, Standing> {
        self.judges.into_iter().map(|judge| (judge.name, judge.standing)).collect()
    }
}

/// Whether a policy has not been held against what is there yet, in the generation that it now has.
pub fn is_unscanned(world: &World) -> bool {
    world.policies.iter().any(|(name, facts)| {
        judging(facts).is_some() && world.standing.get(name).is_none_or(|standing| !is_of(standing, facts))
    })
}

/// Whether what was found is of this very policy.
pub(super) fn is_of(standing: &Standing, facts: &PolicyFacts) -> bool {
    standing.uid == facts.uid && standing.generation == facts.generation
}

/// Whether some policy speaks of an object, as far as its metadata says.
pub(super) fn is_judged(world: &World, key: &ObjectKey) -> bool {
    let Some(facts) = world.object(key).filter(|facts| facts.marks.is_none()) else { return false };
    let kind = match key.kind {
        Kind::ConfigMap => PolicyKind::ConfigMap,
        Kind::Secret => PolicyKind::Secret,
    };
    let mut judging = world
        .policies
        .values()
        .filter(|policy| policy.spec.match_.kinds.contains(&kind))
        .filter_map(self::judging)
        .peekable();
    if judging.peek().is_none() || is_exempt(world, &key.namespace) {
        return false;
    }
    let labels = facts.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let object = Candidate::of_metadata(kind, &key.namespace, &key.name, labels);
    let namespace = world.namespaces.get(&key.namespace).map(|facts| &facts.labels);
    judging.any(|policy| policy.covers(&object, namespace) == Some(true))
}

/// Whether what some policy says of objects hangs on namespaces.
pub(super) fn hangs_on_namespaces(world: &World) -> bool {
    world.policies.values().filter(|facts| judging(facts).is_some()).any(|facts| {
        let scope = &facts.spec.match_;
        scope.namespace_selector.is_some() || scope.kinds.contains(&PolicyKind::Namespace)
    })
}

/// A policy that says something of objects as they stand.
fn judging(facts: &PolicyFacts) -> Option<&Arc<CompiledPolicy>> {
    let ConfigPolicySpec { data, labels, limits, validations, .. } = &facts.spec;
    let says = !data.is_empty() || labels.is_some() || limits.is_some() || !validations.is_empty();
    facts.compiled.as_ref().ok().filter(|_| says)
}

fn is_exempt(world: &World, namespace: &str) -> bool {
    SYSTEM.contains(&namespace) || world.own_namespace == namespace
}
