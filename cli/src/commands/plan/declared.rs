//! The rows of rules, templates and monitors in a plan.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    api::Problem,
    explain::{Course, RestartOutlook, monitor_report},
    files::FileKind,
    model::{Declared, RuleFacts, Unseen, World},
    names::{Declarer, NamespacedName},
    plan::{
        Reason,
        copy::{
            ProblemReason, RuleReport, inert::unseen_source, rule_report, targets::unseen, template_report,
        },
    },
    survey::{AnswerSource, FileOutlook, Survey},
    validate::CompiledTemplate,
};

/// A row of a rule, template or monitor.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRow {
    #[serde(skip)]
    pub kind: FileKind,
    #[serde(skip)]
    pub declarer: Declarer,
    pub namespace: String,
    pub name: String,
    /// `FILE:LINE` of the file that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The identity whose rights it acts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How its rights are known.
    pub authority: Authority,
    /// `refuse`, `unknown` or `wait`, where that is true of the object as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Course>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What a template's expressions read of the object that it is rendered for: who may write these fields controls what is
    /// rendered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The warnings for a user who applies it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How the rights of a rule or monitor are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Authority {
    /// The API server allows what it declares.
    Allowed,
    /// Its status says that it is allowed.
    AllowedByStatus,
    /// The API server refuses what it declares.
    Refused,
    /// Nobody could be asked; planned as if it were allowed.
    NotAsked,
    /// Its spec is invalid, so its rights do not matter.
    NotValid,
}

fn named(kind: FileKind, declarer: &Declarer) -> RuleRow {
    let NamespacedName { namespace, name } = match declarer {
        Declarer::Template(name) => name.clone(),
        _ => declarer.named(),
    };
    RuleRow {
        kind,
        declarer: declarer.clone(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        file: None,
        identity: None,
        authority: Authority::Allowed,
        action: None,
        reason: None,
        message: String::new(),
        reads: Vec::new(),
        warnings: Vec::new(),
    }
}

/// The row of a rule; `with_copies` are the rules with copies.
pub(super) fn rule_row(survey: &Survey, with_copies: &BTreeSet<&Declarer>, rule: &Declarer) -> RuleRow {
    let world = &survey.world;
    let row = from_file(survey, FileKind::Rule, rule);
    let Some(facts) = world.rules().get(rule) else { return row };
    let (row, is_settled) = standing(row, facts, world.rule_authority(rule), survey.asked.get(rule));
    if is_settled {
        return row;
    }
    if survey.blind.contains(rule) {
        let message = "you may not list the objects that this rule copies from or to".into();
        return RuleRow { action: Some(Course::Unknown), reason: Some(Reason::Unread), message, ..row };
    }
    // Add the reconciler's message for a rule that is suspended, or has no sources or targets. For other
    // rules, finding a message would plan every slot once more.
    if with_copies.contains(rule) && !facts.spec.suspend {
        return beyond_sight(world, rule, facts, row);
    }
    let row = match rule_report(world, rule, survey.now).map(|report| report.ready) {
        Some((reason @ (Reason::NoSource | Reason::NoTarget | Reason::Suspended), said)) => RuleRow {
            action: Some(Course::Wait),
            reason: Some(reason),
            message: [row.message.as_str(), said.as_str()].join(" ").trim().to_owned(),
            ..row
        },
        _ => row,
    };
    if facts.spec.suspend { row } else { beyond_sight(world, rule, facts, row) }
}

/// The row of a rule that selects namespaces which the caller may not read.
fn beyond_sight(world: &World, rule: &Declarer, facts: &RuleFacts, row: RuleRow) -> RuleRow {
    let Ok(compiled) = &facts.compiled else { return row };
    let source = unseen_source(world, rule, compiled);
    let targets = unseen(world, compiled);
    let told: Vec<_> = source.into_iter().chain(targets).filter_map(|name| world.unseen(name)).collect();
    let Some((reason, _)) = told.first() else { return row };
    // Copyrator does nothing in a namespace that it does not serve, so the outcome is known.
    let action = match reason {
        Unseen::NotServed => Course::Refuse,
        Unseen::OutOfSight => Course::Unknown,
    };
    let messages = told.iter().map(|(_, message)| message.as_str());
    let message = Some(row.message.as_str()).filter(|said| !said.is_empty()).into_iter().chain(messages);
    let message = message.collect::<Vec<_>>().join("; ");
    RuleRow { action: Some(action), reason: Some((*reason).into()), message, ..row }
}

/// The row of a template.
pub(super) fn template_row(survey: &Survey, template: &Declarer) -> RuleRow {
    let world = &survey.world;
    let row = from_file(survey, FileKind::Template, template);
    let Some(facts) = world.templates().get(template) else { return row };
    let reads = facts.compiled.as_deref().map(CompiledTemplate::object_paths).unwrap_or_default();
    let row = RuleRow { reads, ..row };
    let asked = survey.asked.get(template);
    let (row, is_settled) = standing(row, facts, world.rule_authority(template), asked);
    if is_settled {
        return row;
    }
    let Some(RuleReport { status, ready: (reason, message), .. }) =
        template_report(world, template, survey.now)
    else {
        return row;
    };
    let action = match reason {
        Reason::KindNotGranted => Course::Refuse,
        Reason::NoInstance | Reason::Suspended => Course::Wait,
        _ => {
            let fault = status.problems.iter().find(is_unrendered);
            return fault.map_or(row.clone(), |fault| unrendered(row, fault));
        }
    };
    RuleRow { action: Some(action), reason: Some(reason), message, ..row }
}

fn is_unrendered(problem: &&Problem) -> bool {
    ProblemReason::of(problem) == Some(ProblemReason::RenderFailed)
}

/// The row of a template that cannot be rendered in some namespace.
fn unrendered(row: RuleRow, fault: &Problem) -> RuleRow {
    let Problem { namespace, name, message, .. } = fault;
    let message = format!("{name} in namespace {namespace}: {message}");
    RuleRow { action: Some(Course::Refuse), reason: Some(ProblemReason::RenderFailed.into()), message, ..row }
}

/// The row of a monitor.
pub(super) fn monitor_row(survey: &Survey, monitor: &Declarer) -> RuleRow {
    let world = &survey.world;
    let row = from_file(survey, FileKind::Monitor, monitor);
    let Some(facts) = world.monitors().get(monitor) else { return row };
    let known = world.monitor_authority(monitor);
    let (row, is_settled) = standing(row, facts, known, survey.asked_of_monitors.get(monitor));
    if is_settled {
        return row;
    }
    // Add the reconciler's message for a monitor that is suspended, or has no workloads. For other monitors,
    // finding a message would plan every workload once more.
    let is_of = |outlook: &RestartOutlook| outlook.monitors.contains(monitor);
    if !facts.spec.suspend && survey.restarts.iter().flatten().any(is_of) {
        return row;
    }
    match monitor_report(world, monitor, survey.now).map(|report| report.ready) {
        Some((reason @ (Reason::NoObject | Reason::NoWorkload | Reason::Suspended), message)) => {
            RuleRow { action: Some(Course::Wait), reason: Some(reason), message, ..row }
        }
        _ => row,
    }
}

/// The row of an object of a file that would be refused; `None` for a kind that declares nothing.
pub(super) fn declined_row(file: &FileOutlook) -> Option<RuleRow> {
    Some(RuleRow {
        file: Some(file.place.clone()),
        authority: match file.reason {
            Some(Reason::Refused(_)) => Authority::Refused,
            _ => Authority::NotValid,
        },
        action: Some(Course::Refuse),
        reason: file.reason,
        message: file.message.clone(),
        ..named(file.of.kind, &file.of.kind.declarer(&file.of.name)?)
    })
}

fn from_file(survey: &Survey, kind: FileKind, declarer: &Declarer) -> RuleRow {
    let mut taken = survey.files.iter().filter(|file| file.course != Course::Refuse);
    let file = taken.find(|file| file.of.kind.declarer(&file.of.name).as_ref() == Some(declarer));
    RuleRow {
        file: file.map(|file| file.place.clone()),
        warnings: file.map(|file| file.warnings.clone()).unwrap_or_default(),
        ..named(kind, declarer)
    }
}

/// Sets whether the object is valid and allowed. Also returns whether the row is complete.
fn standing<S, C, T>(
    row: RuleRow,
    facts: &Declared<S, C, T>,
    known: Option<&crate::model::Authority>,
    asked: Option<&AnswerSource>,
) -> (RuleRow, bool) {
    if let Err(problems) = &facts.compiled {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let (authority, action) = (Authority::NotValid, Some(Course::Refuse));
        return (RuleRow { authority, action, reason: Some(Reason::Invalid), message, ..row }, true);
    }
    let row = RuleRow { identity: known.map(|known| known.identity.clone()), ..row };
    if let Some(Err(refusal)) = known.map(|known| &known.answer) {
        let (authority, action) = (Authority::Refused, Some(Course::Refuse));
        let (reason, message) = (Some(Reason::Refused(refusal.reason)), refusal.message.clone());
        return (RuleRow { authority, action, reason, message, ..row }, true);
    }
    let (authority, not_asked) = match asked {
        Some(AnswerSource::Reported) => (Authority::AllowedByStatus, String::new()),
        Some(AnswerSource::Assumed(why)) => (
            Authority::NotAsked,
            format!("rights not checked ({why}); the plan assumes that they are granted"),
        ),
        Some(AnswerSource::Answered) | None => (Authority::Allowed, String::new()),
    };
    (RuleRow { authority, message: not_asked, ..row }, false)
}
