//! Judges a write of one object by a policy.

use std::collections::HashMap;

use super::{
    Candidate, CompiledPolicy, Judgement, RequestFacts, Violation,
    violation::{Part, Subject},
};

/// A write of one object, to be judged by policies.
pub struct Write<'w> {
    /// The object after the write.
    pub new: Judgement<'w>,
    /// The object before the write, with a budget of its own; absent on CREATE.
    pub old: Option<Judgement<'w>>,
    /// Creates the variable `request`, which few expressions use.
    pub request: Option<&'w dyn Fn() -> RequestFacts>,
}

impl Write<'_> {
    /// Whether a budget was exceeded.
    pub fn fell_short(&self) -> bool {
        self.new.fell_short() || self.old.as_ref().is_some_and(Judgement::fell_short)
    }
}

/// A violation, and whether the write causes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fault, the rule of the policy and the key.
    pub violation: Violation,
    /// Whether the object already had the violation, in a part that the write does not change. The webhook
    /// warns of an existing violation and does not refuse the write.
    pub stands_already: bool,
}

impl CompiledPolicy {
    /// Returns all violations by the object after the write. `covered_before` is whether the policy covers
    /// the old object, too; if not, all violations count as new. If the budget of the old object is
    /// exhausted, all violations also count as new: the write is refused rather than allowed unjudged.
    pub fn judge_write(&self, write: &mut Write<'_>, covered_before: bool) -> Vec<Finding> {
        let Write { new, old, request } = write;
        let mut violations = self.judge_content(new);
        violations.extend(self.expressions.judge(new, old.as_mut(), *request));
        let new = new.object;
        let changes = |old: &Judgement<'_>| {
            self.data.iter().flat_map(|rule| rule.judge_change(new, old.object)).collect::<Vec<_>>()
        };
        let changes = old.as_ref().map(changes).unwrap_or_default();
        if violations.is_empty() && changes.is_empty() {
            return Vec::new();
        }
        let is_left_alone =
            |violation: &Violation, old: &Judgement<'_>| unchanged(&violation.subject, new, old.object);
        let before = old.as_mut().filter(|old| {
            covered_before
                && !old.budget.is_exhausted()
                && violations.iter().any(|violation| is_left_alone(violation, old))
        });
        let stood = before.map(|old| self.judge_standing(old)).unwrap_or_default();
        let before = old.as_ref().filter(|old| !old.budget.is_exhausted());
        // The old violations are in a map, since each of very many keys can have a violation.
        let mut by_key: HashMap<_, Vec<&Subject>> = HashMap::new();
        for Violation { rule, key, subject, .. } in &stood {
            by_key.entry((rule, key)).or_default().push(subject);
        }
        let stands_already = |violation: &Violation| {
            let subjects = by_key.get(&(&violation.rule, &violation.key));
            subjects.is_some_and(|subjects| subjects.contains(&&violation.subject))
                && before.is_some_and(|old| is_left_alone(violation, old))
        };
        let found = |violation| Finding { stands_already: stands_already(&violation), violation };
        let mut findings: Vec<_> = violations.into_iter().map(found).collect();
        findings.extend(changes.into_iter().map(|violation| Finding { violation, stands_already: false }));
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
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::api::PolicyKind;

    /// In an earlier version, every policy had half a second of its own, and with many policies the answer
    /// came too late.
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
            let mut before = Judgement::new(&old, now);
            if spent {
                assert!(before.budget.spend(u64::MAX).is_err());
            }
            let mut write = Write { new: Judgement::new(&new, now), old: Some(before), request: None };
            let findings = policy.judge_write(&mut write, true);
            findings.iter().map(|finding| finding.stands_already).collect::<Vec<_>>()
        };
        assert_eq!(judged("(", false), [true]);
        assert_eq!(judged("(", true), [false], "what could not be judged is not let through");
        assert_eq!(judged(&r"\pL".repeat(5_000), false), [false], "nor where it is spent on the way");
    }
}
