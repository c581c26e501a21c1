//! A policy's rules about labels.

use copyrator_cel::Pattern;

use super::{Judgement, Violation, pattern, violation::Subject};
use crate::{
    api::{LabelRules, Problem},
    names::NameKind,
    validate::check_name,
};

/// Compiled rules about labels.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    required: Vec<String>,
    patterns: Vec<(String, Pattern)>,
}

impl Labels {
    pub(super) fn compile(spec: &LabelRules, problems: &mut Vec<Problem>) -> Self {
        for (index, label) in spec.required.iter().enumerate() {
            check_name(&format!("spec.labels.required[{index}]"), label, NameKind::MetadataKey, problems);
        }
        let mut patterns = Vec::new();
        for (label, text) in &spec.patterns {
            let field = format!("spec.labels.patterns[{label}]");
            check_name(&field, label, NameKind::MetadataKey, problems);
            patterns.extend(pattern::whole(&field, text, problems).map(|pattern| (label.clone(), pattern)));
        }
        Self { required: spec.required.clone(), patterns }
    }

    pub(super) fn judge(&self, judgement: &mut Judgement<'_>) -> Vec<Violation> {
        let object = judgement.object;
        let missing = self.required.iter().filter(|label| object.label(label).is_none()).map(|label| {
            violation(
                "labels.required",
                label,
                format!("label {label} is missing"),
                format!("add the label {label}"),
            )
        });
        // A label value that exceeds the budget is treated as wrong.
        let mut is_wrong = |pattern: &Pattern, value| {
            judgement.budget.search(pattern, value).is_err() || pattern.matches(value) != Some(true)
        };
        let wrong = self
            .patterns
            .iter()
            .filter(|(label, pattern)| object.label(label).is_some_and(|value| is_wrong(pattern, value)));
        let wrong = wrong.map(|(label, pattern)| {
            violation(
                "labels.patterns",
                label,
                format!("label {label} has a value that is not allowed"),
                format!("its whole value must match {}", pattern.written()),
            )
        });
        missing.chain(wrong).collect()
    }
}

fn violation(rule: &str, label: &str, what: String, fix: String) -> Violation {
    Violation {
        rule: rule.into(),
        key: None,
        place: None,
        what: what.into(),
        fix: fix.into(),
        subject: Subject::label(label),
    }
}
