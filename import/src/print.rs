//! Prints an import: as YAML whose comments describe the differences, and as JSON.

use serde_json::{Value, json};

use super::{Finding, Imported, Level, Proposal, steps::next};
use crate::validate::printable;

const WIDTH: usize = 116;
const LONGEST: usize = 4096;

/// Prints every rule, template and monitor, with its differences in a comment above, and at the end the
/// objects from which no rule, template or monitor was made. Returns an empty text if the input requests no
/// copies or restarts.
///
/// # Errors
/// An object that cannot be written as YAML.
pub fn yaml(imported: &Imported) -> Result<String, serde_saphyr::ser_error::Error> {
    if imported.proposals.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from("# Made by copyrator import. What to do next:\n");
    for (number, step) in next(imported).into_iter().enumerate() {
        comment(&mut text, &format!("{}. ", number + 1), &step);
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
        text.push_str("#\n# Without a rule, template or monitor:\n#\n");
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

/// Appends one paragraph of a comment. Line breaks in the input's text must not end the comment.
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

/// Returns the import for machines: `rules`, `templates` and `monitors` as they would be applied, `findings`
/// with their objects and the rule, template or monitor, and the steps in words as `next`.
pub fn json(imported: &Imported) -> Value {
    let of = |wanted: &str| imported.made().filter(|made| made.word() == wanted).collect::<Vec<_>>();
    let findings = imported.proposals.iter().flat_map(|proposal| {
        let place = |wanted: &str| {
            let made = proposal.made.as_ref().filter(|made| made.word() == wanted)?;
            let (namespace, name) = made.place();
            Some(format!("{namespace}/{name}"))
        };
        let (rule, template, monitor) = (place("rule"), place("template"), place("monitor"));
        proposal.findings.iter().map(move |finding| {
            json!({
                "origins": proposal.origins, "rule": rule, "template": template, "monitor": monitor, "level": finding.level,
                "about": finding.about, "message": finding.message,
            })
        })
    });
    let findings: Vec<_> = findings.collect();
    json!({
        "rules": of("rule"), "templates": of("template"), "monitors": of("monitor"), "findings": findings,
        "next": next(imported),
    })
}
