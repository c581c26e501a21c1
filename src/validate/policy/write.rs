//! A policy judges what a write changes.

use super::{Candidate, CompiledPolicy, RequestFacts, Violation, violation::Subject};

/// A write of an object.
pub struct Write<'w> {
    /// The object as it would be.
    pub new: &'w Candidate<'w>,
    /// The object as it is; absent on creation.
    pub old: Option<&'w Candidate<'w>>,
    /// The request.
    pub request: Option<&'w RequestFacts>,
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
    pub fn judge_write(&self, write: &Write<'_>) -> Vec<Finding> {
        if write.old.is_some_and(|old| write.new.same_but_for_bookkeeping(old)) {
            return Vec::new();
        }
        let mut violations = self.judge_content(write.new);
        violations.extend(self.expressions.judge(write.new, write.old, write.request));
        if violations.is_empty() && write.old.is_none() {
            return Vec::new();
        }
        let stood = write
            .old
            .map(|old| if violations.is_empty() { Vec::new() } else { self.judge(old) })
            .unwrap_or_default();
        let mut findings: Vec<_> = violations
            .into_iter()
            .map(|violation| {
                let stands_already = write.old.is_some_and(|old| {
                    let same = |before: &Violation| {
                        before.rule == violation.rule
                            && before.key == violation.key
                            && before.subject == violation.subject
                    };
                    stood.iter().any(same) && unchanged(&violation.subject, write.new, old)
                });
                Finding { violation, stands_already }
            })
            .collect();
        if let Some(old) = write.old {
            let changes = self.data.iter().flat_map(|rule| rule.judge_change(write.new, old));
            findings.extend(changes.map(|violation| Finding { violation, stands_already: false }));
        }
        findings
    }
}

fn unchanged(subject: &Subject, new: &Candidate<'_>, old: &Candidate<'_>) -> bool {
    match subject {
        Subject::Keys(keys) => {
            keys.iter().all(|key| new.data.get(key.as_str()) == old.data.get(key.as_str()))
        }
        Subject::Label(label) => new.label(label) == old.label(label),
        Subject::Size => new.size() <= old.size(),
        Subject::Whole => new.same_but_for_bookkeeping(old),
        Subject::Change => false,
    }
}
