//! The answer for people, one fact per line.

use super::answer::{Made, Used, User, Why};
use crate::{
    explain::{Course, RestartOutlook, RestartReason, Restartable},
    marks::write_time,
    names::Declarer,
    plan::restart::RestartState,
    terminal::{line, side_by_side},
};

/// How many characters of a digest are shown: enough to distinguish two digests.
const SHORT: usize = 8;

/// The answer in words; `wide` with whole digests.
pub(super) fn told(why: &Why, wide: bool) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    if !why.exists {
        lines.push(("", "is not there".into()));
    }
    for made in &why.made_by {
        lines.extend(of_copy(made, wide));
    }
    for copied in &why.copied_by {
        lines.push((
            "copied by",
            format!("rule {}: {} of {} copies in order", copied.rule, copied.current, copied.copies),
        ));
    }
    if let Some(at) = why.changed_at {
        lines.push(("changed", format!("not after {}", write_time(at))));
    }
    lines.extend(why.edit.clone().map(|edit| ("edit", edit)));
    for user in &why.on_change {
        lines.push(if user.restarts { ("restarts", restarts(user)) } else { ("does not", declined(user)) });
    }
    if why.edit.is_some() && why.on_change.is_empty() {
        lines.push(("restarts", "no visible workload uses this object".into()));
    }
    lines.extend(why.restart.iter().flat_map(|outlook| of_workload(outlook, wide)));
    let is_plain_workload = why.edit.is_none() && why.made_by.is_empty();
    if is_plain_workload && why.restart.is_none() {
        lines.push(("state", "no monitor or annotation selects this workload".into()));
    }
    lines.extend(why.uses.iter().map(used));
    let heading = format!("{} {}/{}", why.object, why.namespace, why.name);
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let lines = lines.iter().map(|(label, text)| format!("  {label:width$}  {text}"));
    std::iter::once(heading).chain(lines).map(|text| line(&text) + "\n").collect()
}

fn of_copy(made: &Made, wide: bool) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let rule = made.rule.clone().map_or_else(|| "a deleted rule".to_owned(), |rule| format!("rule {rule}"));
    let source = made.source.clone().unwrap_or_else(unknown);
    let (is_declared, noun) = (made.is_declared(), if made.is_declared() { "template" } else { "rule" });
    let mut lines = match made.digest {
        Some(_) if is_declared => vec![("declared by", source)],
        None if is_declared => vec![("wanted by", source)],
        Some(_) => vec![("copy of", format!("{source}, made by {rule}"))],
        None => vec![("wanted by", format!("{rule}, as a copy of {source}"))],
    };
    lines.extend(made.instance.clone().map(|instance| ("for", instance)));
    lines.extend(made.goes_with.as_ref().map(|kind| {
        let when = "when this owner or the CustomResourceDefinition of";
        let keep = "deletionPolicy: Retain in the template keeps it";
        ("owner", format!("Kubernetes deletes the object {when} {kind} is deleted; {keep}"))
    }));
    lines.extend(made.fields.iter().map(|field| ("field", format!("{}: {}", field.path, field.text))));
    if let Some(digest) = &made.digest {
        let shown = if wide { digest.clone() } else { digest.chars().take(SHORT).collect() };
        lines.push(("digest", shown));
    }
    if let Some(identity) = &made.identity {
        let author = made.author.as_ref().map(|author| format!("; {author} wrote its spec"));
        lines.push((
            "rights",
            format!("the {noun} has the RBAC rights of {identity}{}", author.unwrap_or_default()),
        ));
    }
    let message = if made.message.is_empty() { String::new() } else { format!(": {}", made.message) };
    let at = made.at.map(|at| format!(", at {}", write_time(at))).unwrap_or_default();
    lines.push((
        "state",
        match made.action {
            Course::Current => "in order".into(),
            Course::Create => format!("will be created{message}"),
            Course::Change => format!("will be changed, {}{message}", made.reason.as_str()),
            Course::Remove => format!("leaving{at}, {}{message}", made.reason.as_str()),
            Course::Refuse => format!("refused, {}{message}", made.reason.as_str()),
            Course::Unknown => format!("not known, {}{message}", made.reason.as_str()),
            Course::Wait => format!("waiting{at}, {}{message}", made.reason.as_str()),
        },
    ));
    lines
}

fn place(user: &User) -> String {
    match &user.of {
        Restartable::Pods(monitor) => format!("the pods of ConfigMonitor {monitor}"),
        Restartable::Workload(key) => key.to_string(),
    }
}

fn asked(monitors: &[String], by_annotation: bool) -> String {
    let monitors = monitors.iter().map(|name| format!("ConfigMonitor {name}"));
    let all: Vec<String> = monitors.chain(by_annotation.then(|| "its annotation".to_owned())).collect();
    all.join(", ")
}

fn restarts(user: &User) -> String {
    let state = match &user.state {
        None | Some(RestartState::Current) => String::new(),
        Some(state) => format!("; now {state}, {}: {}", word(user), user.message),
    };
    format!("{}, asked by {}{state}", place(user), asked(&user.monitors, user.by_annotation))
}

fn declined(user: &User) -> String {
    format!("{}: {}: {}", place(user), word(user), user.message)
}

fn word(user: &User) -> &'static str {
    user.reason.as_ref().map(RestartReason::as_str).unwrap_or_default()
}

fn of_workload(outlook: &RestartOutlook, wide: bool) -> Vec<(&'static str, String)> {
    let message = if outlook.message.is_empty() { String::new() } else { format!(": {}", outlook.message) };
    let mut lines = vec![("state", format!("{}, {}{message}", outlook.state, outlook.reason.as_str()))];
    let monitors: Vec<String> = outlook.monitors.iter().map(|one| one.named().name.to_string()).collect();
    let asked = asked(&monitors, outlook.by_annotation);
    if !asked.is_empty() {
        lines.push(("asked by", asked));
    }
    let (running, wanted) = match wide {
        true => (outlook.running.clone().unwrap_or_default(), outlook.wanted.clone().unwrap_or_default()),
        false => side_by_side(outlook.running.as_deref(), outlook.wanted.as_deref()),
    };
    lines.push(("runs", format!("{running}, wanted {wanted}")));
    lines
}

fn used(used: &Used) -> (&'static str, String) {
    let of = |source: &String| match Declarer::parse(source).filter(|source| source.as_template().is_some()) {
        Some(template) => format!(", declared by {}", template.said()),
        None => format!(", a copy of {source}"),
    };
    let copy = used.copy_of.as_ref().map(of).unwrap_or_default();
    let gone = if used.exists { "" } else { ", which does not exist" };
    let what = format!("{} {}{copy}{gone}", used.kind, used.name);
    match used.restarts {
        true => ("uses", format!("{what}: a change restarts the workload")),
        false => ("uses", format!("{what}: a change does not restart the workload")),
    }
}
