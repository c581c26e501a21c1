//! Why a rule does what it does, or does nothing: whose rights it acts with, what its status says, and the
//! states of its copies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{api::Problem, authority::author, names::Declarer, survey::Survey, terminal::line};

/// What is known of one rule or template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWhy {
    /// The kind of the object: `CopyratorRule` or `CopyratorTemplate`.
    pub object: &'static str,
    /// Namespace and name of the object, as `namespace/name`.
    pub rule: String,
    /// Who wrote its spec, as the API server has stamped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// With whose rights it acts, as its status says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Status, reason and message of each condition, by type.
    pub conditions: BTreeMap<String, String>,
    /// How many of its copies will be created, changed, removed and so on; what is in order is `current`.
    pub copies: BTreeMap<String, usize>,
    /// What is wrong, as its status says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// Explains a rule or template; `None` if the rule or template does not exist.
pub(super) fn why_rule(survey: &Survey, rule: &Declarer) -> Option<RuleWhy> {
    let declared = survey.world.declaration(rule)?;
    let generation = declared.version().generation;
    let status = declared.status().cloned().unwrap_or_default();
    let conditions = status.conditions.iter().map(|one| {
        let said = if one.observed_generation == Some(generation) { "" } else { " (of an earlier spec)" };
        (one.type_.clone(), format!("{}, {}: {}{said}", one.status, one.reason, one.message))
    });
    let mut copies = BTreeMap::new();
    for row in survey.outlooks.iter().filter(|row| row.rule.as_ref() == Some(rule)) {
        *copies.entry(row.state.as_str().to_owned()).or_default() += 1;
    }
    Some(RuleWhy {
        object: if rule.as_template().is_some() { "CopyratorTemplate" } else { "CopyratorRule" },
        rule: rule.as_template().map_or_else(|| rule.to_string(), ToString::to_string),
        author: author(declared.annotations()).ok().map(|writer| writer.user),
        identity: status.identity,
        conditions: conditions.collect(),
        copies,
        problems: status.problems,
    })
}

/// The answer as text, one fact per line.
pub(super) fn told(why: &RuleWhy) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    lines.extend(why.identity.clone().map(|identity| ("acts as".to_owned(), identity)));
    lines.extend(why.author.clone().map(|author| ("written by".to_owned(), author)));
    lines.extend(why.conditions.clone());
    if why.conditions.is_empty() {
        lines.push(("status".into(), "none yet: no reconciler has checked the rights".into()));
    }
    let copies: Vec<String> = why.copies.iter().map(|(word, number)| format!("{number} {word}")).collect();
    let objects = if why.object == "CopyratorTemplate" { "objects" } else { "copies" };
    lines.push((objects.into(), if copies.is_empty() { "none".into() } else { copies.join(", ") }));
    for problem in &why.problems {
        let Problem { reason, message, .. } = problem;
        lines.push(("problem".into(), format!("{reason} {}: {message}", problem.place())));
    }
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = lines.iter().map(|(label, text)| format!("  {label:width$}  {text}"));
    let heading = format!("{} {}", why.object, why.rule);
    std::iter::once(heading).chain(lines).map(|text| line(&text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document has a field `kind` of its own.
    #[test]
    fn what_it_is_has_another_field_than_the_documents_kind() {
        let why = RuleWhy {
            object: "CopyratorRule",
            rule: "platform/apps".into(),
            author: None,
            identity: None,
            conditions: BTreeMap::new(),
            copies: BTreeMap::new(),
            problems: Vec::new(),
        };
        let why = serde_json::to_value(why).unwrap();
        assert_eq!((&why["object"], why.get("kind")), (&"CopyratorRule".into(), None));
    }
}
