//! An import as text: YAML whose comments say what is different, and JSON.

use serde_json::{Value, json};

use super::{Finding, Imported, Level, Proposal};
use crate::validate::printable;

const WIDTH: usize = 116;
const LONGEST: usize = 4096;

/// What to do with the rules, in this order and why.
const NEXT: [&str; 6] = [
    "Apply these rules. They are suspended: nothing is written until you say so.",
    "Look at what they would do: copyrator plan. Correct what is marked NO EQUIVALENT by hand.",
    "Stop the other tool (kubectl scale deployment --replicas=0). Do not delete its annotations or objects while it runs: \
     it would delete its copies.",
    "Unsuspend: kubectl patch copyratorrule NAME -n NAMESPACE --type=merge -p '{\"spec\":{\"suspend\":false}}'. With \
     conflictPolicy Adopt, copies that are there and hold the same content are taken over as they are, so that nothing \
     restarts and nothing is absent for a moment; what holds something else is left alone and reported.",
    "Look at the result: copyrator status. Where a conflict is reported, make the contents equal, or say conflictPolicy: \
     Overwrite.",
    "Take the other tool's annotations off the sources, and uninstall it. Then say conflictPolicy: Refuse, if nothing else \
     is to be taken over.",
];

/// Every rule with what is different above it, and what has no rule at the end. Nothing at all where nothing was found.
///
/// # Errors
/// A rule that cannot be written as YAML.
pub fn yaml(imported: &Imported) -> Result<String, serde_saphyr::ser_error::Error> {
    if imported.proposals.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from("# Made by copyrator import. What to do next:\n");
    for (number, step) in NEXT.iter().enumerate() {
        comment(&mut text, &format!("{}. ", number + 1), step);
    }
    for (proposal, rule) in imported.proposals.iter().filter_map(|one| Some((one, one.rule.as_ref()?))) {
        text.push_str("---\n");
        explain(&mut text, proposal);
        let mut value = json!(rule);
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        text.push_str(&serde_saphyr::to_string(&value)?);
    }
    let mut without = imported.proposals.iter().filter(|one| one.rule.is_none()).peekable();
    if without.peek().is_some() {
        text.push_str("#\n# Without a rule:\n#\n");
    }
    without.for_each(|proposal| explain(&mut text, proposal));
    Ok(text)
}

fn explain(text: &mut String, proposal: &Proposal) {
    for origin in &proposal.origins {
        comment(text, "", &origin.to_string());
    }
    for Finding { level, about, message } in &proposal.findings {
        let word = match level {
            Level::NoEquivalent => "NO EQUIVALENT",
            Level::Difference => "differs",
        };
        comment(text, "  ", &format!("{word}: {about}: {message}"));
    }
}

/// One paragraph of a comment. What stems from others may hold line breaks, and must not end the comment.
fn comment(text: &mut String, indent: &str, paragraph: &str) {
    let (mut line, mut first) = (format!("# {indent}"), true);
    for word in printable(paragraph, LONGEST).split_whitespace() {
        if !first && line.chars().count() + word.chars().count() >= WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = format!("# {}  ", " ".repeat(indent.chars().count()));
        }
        line.push_str(word);
        line.push(' ');
        first = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// For machines: `rules` as they would be applied, `findings` with the object they are of and the rule they belong to,
/// `next` in words.
pub fn json(imported: &Imported) -> Value {
    let rules: Vec<_> = imported.proposals.iter().filter_map(|one| one.rule.as_ref()).collect();
    let findings = imported.proposals.iter().flat_map(|proposal| {
        let rule = proposal.rule.as_ref().map(|rule| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", part(&rule.metadata.namespace), part(&rule.metadata.name))
        });
        proposal.findings.iter().map(move |finding| {
            json!({
                "origins": proposal.origins, "rule": rule, "level": finding.level, "about": finding.about,
                "message": finding.message,
            })
        })
    });
    let findings: Vec<_> = findings.collect();
    json!({ "rules": rules, "findings": findings, "next": NEXT })
}
