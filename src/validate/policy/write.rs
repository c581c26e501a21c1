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
    /// can see (finalizers, owners, the deletion) brings nothing.
    pub fn judge_write(&self, write: &Write<'_>, budget: &mut Budget) -> Vec<Finding> {
        if write.old.is_some_and(|old| write.new.same_but_for_bookkeeping(old)) {
            return Vec::new();
        }
        let mut violations = self.judge_content(write.new, write.now, budget);
        violations.extend(self.expressions.judge(write.new, write.old, write.request, budget));
        let is_left_alone = |violation: &Violation, old| unchanged(&violation.subject, write.new, old);
        let before = write.old.filter(|old| {
            write.covered_before && violations.iter().any(|violation| is_left_alone(violation, old))
        });
        let stood = before.map(|old| self.judge_standing(old, write.now)).unwrap_or_default();
        let stands_already = |violation: &Violation| {
            let same = |before: &Violation| {
                before.rule == violation.rule
                    && before.key == violation.key
                    && before.subject == violation.subject
            };
            stood.iter().any(same) && before.is_some_and(|old| is_left_alone(violation, old))
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
