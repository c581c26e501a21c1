//! Judges a copy, or an object that a template declares, by the policies that cover the object, before the
//! write. The object is judged as it will be after the write, with the labels and annotations of other
//! writers, which our write leaves alone. The webhook exempts our own writes. Judging only the source is not
//! enough: the policies may not cover the source's name, kind or namespace.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;

use super::slot_plan::CopyWrite;
use crate::{
    api::{Action, PolicyKind, ResourceType},
    model::{PolicyFacts, World},
    names::ObjectKey,
    plan::policy::scan::{is_exempt, speaks_of_copies},
    validate::{
        Candidate, CandidateError, CompiledPolicy, Judgement, RequestFacts, RequestKind, RequestResource,
        RequestUser, Write,
    },
};

/// How many violations a message names.
const MOST_NAMED: usize = 3;

/// The policies that cover one copy, as it is or as it will be, and refuse violations.
pub struct Guards {
    kind: PolicyKind,
    guards: Vec<Guard>,
    request: RequestFacts,
    /// Whether a template declares the object, which is therefore no copy.
    is_declared: bool,
    /// The hash of the facts that the judgement depends on ([`judged_by`]).
    pub judged_by: u64,
}

struct Guard {
    name: Arc<str>,
    policy: Arc<CompiledPolicy>,
    /// Whether the policy also covers the existing object.
    before: bool,
}

impl Guards {
    /// The policies that cover the object that `account` is about to write; `None` if no policy covers the
    /// object.
    pub fn of(world: &World, slot: &ObjectKey, write: &CopyWrite, account: &str) -> Option<Self> {
        if world.policies().is_empty() || is_exempt(world, &slot.namespace) {
            return None;
        }
        // Policies cover ConfigMaps, Secrets and namespaces.
        let kind = PolicyKind::from(slot.kind.data()?);
        let namespace = world.namespaces().get(&slot.namespace).map(|facts| &facts.labels);
        let object = |labels| Candidate::of_metadata(kind, &slot.namespace, &slot.name, labels);
        let existing = write.replaces.as_ref().and_then(|_| world.object(slot));
        // If some labels of the object are not kept, it is unknown whether a selector matches: in this case
        // the policy judges the object.
        let is_cut = existing.is_some_and(|facts| facts.labels.is_cut());
        let new = object(write.labels_after(existing));
        let old = existing.map(|facts| {
            object(facts.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
        });
        let guard = |(name, facts): (&Arc<str>, &PolicyFacts)| {
            let policy = facts.compiled.as_ref().ok().filter(|_| speaks_of_copies(facts))?;
            let covers = |object: &Candidate<'_>| {
                let covers = if is_cut {
                    policy.may_cover(object, namespace)
                } else {
                    policy.covers(object, namespace)
                };
                covers != Some(false)
            };
            let before = old.as_ref().is_some_and(covers);
            // Removing the label by which a policy finds the object does not avoid the policy, for Copyrator
            // as for every writer.
            (policy.actions().contains(&Action::Deny) && (before || covers(&new))).then(|| Guard {
                name: name.clone(),
                policy: policy.clone(),
                before,
            })
        };
        let guards: Vec<Guard> = world.policies().iter().filter_map(guard).collect();
        (!guards.is_empty()).then(|| Self {
            kind,
            guards,
            request: request(world, slot, old.is_some(), account),
            is_declared: write.rendered.is_some(),
            judged_by: judged_by(world, slot),
        })
    }

    /// Why the copy must not become `new`, if a policy refuses the change; `new` and the existing object are
    /// JSON. A fault that exists already and that the write leaves alone is accepted, as for every writer.
    ///
    /// # Errors
    /// The existing object or `new` cannot be read.
    pub fn refusal(
        &self,
        new: &str,
        old: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<String>, CandidateError> {
        let new = Candidate::decode(self.kind, new)?;
        let old = old.map(|old| Candidate::decode(self.kind, old)).transpose()?;
        let mut write = Write {
            new: Judgement::new(&new, now),
            old: old.as_ref().map(|old| Judgement::new(old, now)),
            request: Some(&|| self.request.clone()),
        };
        let mut refusals = Vec::new();
        for Guard { name, policy, before } in &self.guards {
            let found = policy.judge_write(&mut write, *before).into_iter();
            let brought = found.filter(|finding| !finding.stands_already);
            refusals.extend(brought.map(|finding| finding.violation.message(name, &new)));
        }
        if refusals.is_empty() {
            return Ok(None);
        }
        let others = match refusals.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            number => format!(" | and {number} more"),
        };
        refusals.truncate(MOST_NAMED);
        let (object, text) = match self.is_declared {
            false => ("a copy", "its source or its rule's copy and keys"),
            true => ("an object of a template", "the template, or the fields that its expressions read"),
        };
        Ok(Some(format!(
            "{}{others}; the policy checks {object} before it is written: correct {text}, exclude the namespace, or exempt copies and \
             objects of templates in the policy (spec.match.copies: Exclude)",
            refusals.join(" | ")
        )))
    }
}

/// Returns a hash of everything except the copy that the judgement of a copy in this slot depends on: while
/// the hash stays the same, so does the judgement.
pub fn judged_by(world: &World, slot: &ObjectKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    let namespace: Option<&BTreeMap<_, _>> =
        world.namespaces().get(&slot.namespace).map(|facts| &facts.labels);
    namespace.hash(&mut hasher);
    for (name, facts) in world.policies() {
        (name, &facts.uid, facts.generation).hash(&mut hasher);
    }
    hasher.finish()
}

fn request(world: &World, slot: &ObjectKey, is_update: bool, account: &str) -> RequestFacts {
    let accounts = "system:serviceaccounts";
    let groups = vec![
        accounts.into(),
        format!("{accounts}:{}", world.settings().own_namespace),
        "system:authenticated".into(),
    ];
    let ResourceType { group, version, kind, plural, .. } = slot.kind.resource();
    let resource = RequestResource { group: group.into(), version: version.into(), resource: plural.into() };
    let kind = RequestKind { group: group.into(), version: version.into(), kind: kind.into() };
    RequestFacts {
        operation: if is_update { "UPDATE" } else { "CREATE" }.into(),
        request_kind: kind.clone(),
        request_resource: resource.clone(),
        kind,
        resource,
        name: slot.name.to_string(),
        namespace: slot.namespace.to_string(),
        dry_run: false,
        user_info: RequestUser { username: account.to_owned(), groups },
    }
}
