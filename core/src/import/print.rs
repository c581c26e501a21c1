//! Prints an import: as YAML whose comments describe the differences, and as JSON.

use serde_json::{Value, json};

use super::{Finding, Imported, Level, Made, Proposal};
use crate::validate::printable;

const WIDTH: usize = 116;
const LONGEST: usize = 4096;

/// The steps for replacing a tool that copies, in order, with the reasons.
const COPYING: [&str; 6] = [
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

/// The steps for replacing a tool that restarts. The other tool is removed last. If it went first, a change
/// in between would restart nothing; if both see a change, ours finds pods that are younger than it.
const RESTARTING: [&str; 5] = [
    "Apply these monitors. They are suspended: nobody restarts for them.",
    "Look at what they reach: copyrator plan. Correct what is marked NO EQUIVALENT by hand.",
    "Unsuspend them while the other tool still runs: kubectl patch configmonitor NAME -n NAMESPACE --type=merge -p \
     '{\"spec\":{\"suspend\":false}}'. Each workload is marked with the content that it runs with, and nobody restarts. For what \
     the other tool restarts meanwhile, Copyrator does not restart it again.",
    "When copyrator status shows them all as up to date, stop the other tool (kubectl scale deployment --replicas=0). A \
     change before that is the other tool's, a change after it is Copyrator's: none is lost.",
    "Take the other tool's annotations off the workloads, not off their pod templates, and uninstall it. What it left on pod \
     templates does nothing, and taking it off is a rollout: leave that to the next release.",
];

/// The steps that fit this import.
fn next(imported: &Imported) -> Vec<&'static str> {
    let restarts = |one: &Proposal| one.origins.iter().any(|origin| origin.tool.restarts());
    let mut steps = Vec::new();
    if !imported.proposals.iter().all(restarts) {
        steps.extend(COPYING);
    }
    if imported.proposals.iter().any(restarts) {
        steps.extend(RESTARTING);
    }
    steps
}

/// Every rule and monitor, with its differences in a comment above, and at the end what became neither. Empty
/// where nothing was found.
///
/// # Errors
/// An object that cannot be written as YAML.
pub fn yaml(imported: &Imported) -> Result<String, serde_saphyr::ser_error::Error> {
    if imported.proposals.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from("# Made by copyrator import. What to do next:\n");
    for (number, step) in next(imported).into_iter().enumerate() {
        comment(&mut text, &format!("{}. ", number + 1), step);
    }
    for (proposal, made) in imported.proposals.iter().filter_map(|one| Some((one, one.made.as_ref()?))) {
        text.push_str("---\n");
        explain(&mut text, proposal);
        let mut value = json!(made);
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(spec) = value["spec"].as_object_mut() {
            spec.retain(|field, value| field != "pace" || *value != json!({}));
        }
        text.push_str(&serde_saphyr::to_string(&value)?);
    }
    let mut without = imported.proposals.iter().filter(|one| one.made.is_none()).peekable();
    if without.peek().is_some() {
        text.push_str("#\n# Without a rule or monitor:\n#\n");
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

/// One paragraph of a comment. Text from the input may contain line breaks, and must not end the comment.
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

/// For machines: `rules` and `monitors` as they would be applied, `findings` with the object and the rule or
/// monitor that each belongs to, and `next` in words.
pub fn json(imported: &Imported) -> Value {
    let of = |wanted: fn(&Made) -> bool| imported.made().filter(|made| wanted(made)).collect::<Vec<_>>();
    let rules = of(|made| matches!(made, Made::Rule(_)));
    let monitors = of(|made| matches!(made, Made::Monitor(_)));
    let findings = imported.proposals.iter().flat_map(|proposal| {
        let place = |made: &Made| {
            let (namespace, name) = made.place();
            format!("{namespace}/{name}")
        };
        let rule = proposal.made.as_ref().filter(|made| matches!(made, Made::Rule(_))).map(place);
        let monitor = proposal.made.as_ref().filter(|made| matches!(made, Made::Monitor(_))).map(place);
        proposal.findings.iter().map(move |finding| {
            json!({
                "origins": proposal.origins, "rule": rule, "monitor": monitor, "level": finding.level,
                "about": finding.about, "message": finding.message,
            })
        })
    });
    let findings: Vec<_> = findings.collect();
    json!({ "rules": rules, "monitors": monitors, "findings": findings, "next": next(imported) })
}
