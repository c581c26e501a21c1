//! Findings as text for people: a block for each object, and a summary line.

use super::report::{Becomes, Finding, Level, Rendered, Report};
use crate::terminal::line;

/// Renders the report; with `all`, also objects without findings.
pub(super) fn table(report: &Report, all: bool) -> String {
    let mut text = String::new();
    let mut say = |text_line: &str| text.push_str(&(line(text_line) + "\n"));
    for object in report.objects.iter().filter(|object| all || !object.findings.is_empty()) {
        say(&format!("{}: {}", object.place, object.title()));
        object.findings.iter().for_each(|finding| say(&format!("  {} {}", sign(finding), finding.message)));
    }
    say(&summary(report));
    for one in &report.rendered {
        text.push_str(&document(one));
    }
    text
}

/// A rendered object as a YAML document, with a comment that names its template and instance.
fn document(one: &Rendered) -> String {
    let title = format!("# {} of template {}, for {}", one.id, one.template, one.instance);
    match &one.becomes {
        Becomes::Object(object) => {
            format!("---\n{}\n{}", line(&title), serde_saphyr::to_string(object).unwrap_or_default())
        }
        Becomes::Excluded(_) => format!(
            "---\n{}: not wanted: its includeWhen is false, or it reads an object that is not wanted\n",
            line(&title)
        ),
        Becomes::WaitingFor(ids) => {
            format!("---\n{}: waits for {}\n", line(&title), line(&ids.join(", ")))
        }
    }
}

fn sign(finding: &Finding) -> char {
    match finding.level {
        Level::Refused => '!',
        Level::Warned => '~',
        Level::Noted => '.',
        Level::Unknown => '?',
    }
}

fn summary(report: &Report) -> String {
    let refused = report.objects.iter().filter(|object| !object.allowed).count();
    let mut parts = vec![match report.objects.len() {
        1 => "1 object judged".to_owned(),
        number => format!("{number} objects judged"),
    }];
    let more = [
        (refused, "would be refused"),
        (report.count(Level::Warned), "warned of"),
        (report.count(Level::Noted), "noted"),
        (report.count(Level::Unknown), "not judged offline"),
    ];
    parts.extend(
        more.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")),
    );
    if parts.len() == 1 {
        parts.push("nothing found".into());
    }
    parts.join(", ")
}
