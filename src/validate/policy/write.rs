//! A policy judges what a write changes.

use jiff::Timestamp;

use super::{
    Budget, Candidate, CompiledPolicy, RequestFacts, Violation,
    violation::{Part, Subject},
};

/// A write of an object.
pub struct Write<'w> {
    /// The object as it would be.
    pub new: &'w Candidate<'w>,
    /// The object as it is; absent on creation.
    pub old: Option<&'w Candidate<'w>>,
    /// The policy speaks of the object as it is too: what it never spoke of cannot have been let stand.
    pub covered_before: bool,
    /// The request.
    pub request: Option<&'w RequestFacts>,
    /// When: certificates run out.
    pub now: Timestamp,
}

/// A violation, and whether the write brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The violation.
    pub violation: Violation,
    /// The object already had it, for a value that the write leaves alone: a warning, no refusal.
    pub stands_already: bool,
}

impl CompiledPolicy {
    /// Everything by which the object, once written, breaks the policy. A write that touches nothing a policy
    /// can see (finalizers, owners, the deletion) brings nothing. `before` is what all policies may spend on the object
    /// as it is; once that is gone, nothing counts as standing already: rather refused than let through unjudged.
    pub fn judge_write(&self, write: &Write<'_>, budget: &mut Budget, before: &mut Budget) -> Vec<Finding> {
        if write.old.is_some_and(|old| write.new.same_but_for_bookkeeping(old)) {
            return Vec::new();
        }
        let mut violations = self.judge_content(write.new, write.now, budget);
        violations.extend(self.expressions.judge(write.new, write.old, write.request, budget));
        let is_left_alone = |violation: &Violation, old| unchanged(&violation.subject, write.new, old);
        let old = write.old.filter(|old| {
            write.covered_before
                && !before.is_exhausted()
                && violations.iter().any(|violation| is_left_alone(violation, old))
        });
        let stood = old.map(|old| self.judge_standing(old, write.now, before)).unwrap_or_default();
        let old = old.filter(|_| !before.is_exhausted());
        let stands_already = |violation: &Violation| {
            let same = |before: &Violation| {
                before.rule == violation.rule
                    && before.key == violation.key
                    && before.subject == violation.subject
            };
            stood.iter().any(same) && old.is_some_and(|old| is_left_alone(violation, old))
        };
        let found = |violation| Finding { stands_already: stands_already(&violation), violation };
        let mut findings: Vec<_> = violations.into_iter().map(found).collect();
        if let Some(old) = write.old {
            let changes = self.data.iter().flat_map(|rule| rule.judge_change(write.new, old));
            findings.extend(changes.map(|violation| Finding { violation, stands_already: false }));
        }
        findings
    }
}

fn unchanged(subject: &Subject, new: &Candidate<'_>, old: &Candidate<'_>) -> bool {
    match subject {
        Subject::Parts(parts) => parts.iter().all(|part| is_same(part, new, old)),
        Subject::Size => new.size() <= old.size(),
        Subject::Change => false,
    }
}

fn is_same(part: &Part, new: &Candidate<'_>, old: &Candidate<'_>) -> bool {
    match part {
        Part::Key(key) => new.data.get(key.as_str()) == old.data.get(key.as_str()),
        Part::Data => new.data == old.data,
        Part::Label(label) => new.label(label) == old.label(label),
        Part::Labels => new.labels.iter().flatten().eq(old.labels.iter().flatten()),
        Part::Annotations => new.annotations.iter().flatten().eq(old.annotations.iter().flatten()),
        Part::Type => new.type_ == old.type_,
        Part::Immutable => new.immutable == old.immutable,
        Part::Everything => new.same_but_for_bookkeeping(old),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::PolicyKind;

    /// Each policy had half a second of its own for it: with many, there was no answer in time.
    #[test]
    fn what_stands_already_is_paid_for_by_all_policies_together() {
        let spec = json!({"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "r", "keys": ["a"], "format": "regex"}]});
        let policy = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap();
        let raw = |label: &str, value: &str| {
            json!({"metadata": {"name": "x", "labels": {"l": label}}, "data": {"a": value}}).to_string()
        };
        let judged = |value: &str, spent: bool| {
            let (new, old) = (raw("new", value), raw("old", value));
            let [new, old] = [&new, &old].map(|raw| Candidate::decode(PolicyKind::ConfigMap, raw).unwrap());
            let now = Timestamp::UNIX_EPOCH;
            let write = Write { new: &new, old: Some(&old), covered_before: true, request: None, now };
            let mut before = Budget::default();
            if spent {
                assert!(before.spend(u64::MAX).is_err());
            }
            let findings = policy.judge_write(&write, &mut Budget::default(), &mut before);
            findings.iter().map(|finding| finding.stands_already).collect::<Vec<_>>()
        };
        assert_eq!(judged("(", false), [true]);
        assert_eq!(judged("(", true), [false], "what could not be judged is not let through");
        assert_eq!(judged(&r"\pL".repeat(5_000), false), [false], "nor where it is spent on the way");
    }
}
