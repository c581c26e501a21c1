//! The report of `copyrator plan`, in the form of `-o json`. Fields are only ever added.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    restarts::{FileRow, RestartSummary},
    templates::template_row,
};
use crate::{
    cli::{
        arguments::output,
        standing::restarts::{self, RestartRow},
        survey::{AnswerSource, AppliedObject, Declined, OurKind, Survey},
    },
    explain::{Course, Difference, Outlook, RestartCourse, RestartOutlook, monitor_status},
    model::{Declared, RuleFacts, Unseen, World},
    names::NamespacedName,
    plan::copy::{claims::unseen_source, rule_status, targets::unseen},
};

/// The report of a plan.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Plan")]
pub(in crate::cli) struct Report {
    /// Whether the marks of copies were verified; otherwise they are trusted.
    pub verified: bool,
    /// Notes to read first.
    pub notes: Vec<String>,
    /// Every rule, by namespace and name; a rule of a file that would be refused has a row of its own.
    pub rules: Vec<RuleRow>,
    /// The same of templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<RuleRow>,
    /// Every copy that something would happen to, or should; with `-o wide` those in order, too.
    pub copies: Vec<CopyRow>,
    /// The numbers of copies by what happens to them.
    pub summary: Summary,
    /// Monitors of files, and monitors that do nothing; a monitor of a file that would be refused has a row
    /// of its own.
    pub monitors: Vec<RuleRow>,
    /// ConfigPolicies that files have, one row each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<FileRow>,
    /// ConfigMaps and Secrets of files.
    pub files: Vec<FileRow>,
    /// Every workload that restarts, should restart, or uses what changes; with `-o wide` also those that run
    /// the current content. Absent where the caller may not list workloads or monitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Vec<RestartRow>>,
    /// Whether the caller may not read part of what Copyrator looks at; `notes` say what.
    #[serde(skip)]
    pub is_partial: bool,
    /// Whether the report is about a readable namespace, so that others do not matter.
    #[serde(skip)]
    pub is_of_seen: bool,
    /// The numbers of workloads by what happens to them.
    pub restart_summary: RestartSummary,
}

/// A row of a rule, template or monitor.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RuleRow {
    #[serde(skip)]
    pub kind: OurKind,
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
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The warnings for a user who applies it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How the rights of a rule or monitor are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) enum Authority {
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

/// A row of a copy.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct CopyRow {
    pub action: Course,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `namespace/name` of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// `namespace/name` of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The names of what would change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Difference>,
    /// When an orphaned copy is deleted; absent: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub removed_at: Option<Timestamp>,
    /// The result of Copyrator's last attempt, according to the rule's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<String>,
}

/// The numbers of copies by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Summary {
    pub create: usize,
    pub change: usize,
    pub remove: usize,
    pub refuse: usize,
    pub unknown: usize,
    pub wait: usize,
    pub current: usize,
}

impl Report {
    /// The report of a survey; for one namespace, with the rules there and the copies that land there.
    pub(in crate::cli) fn new(survey: &Survey, namespace: Option<&str>, with_current: bool) -> Self {
        let shown = survey.shown(namespace);
        let mut summary = Summary::default();
        for outlook in &shown {
            *summary.of(outlook.course) += 1;
        }
        let mut rules: BTreeMap<NamespacedName, RuleRow> = BTreeMap::new();
        let with_copies: BTreeSet<&NamespacedName> =
            survey.outlooks.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        let reaching: BTreeSet<&NamespacedName> =
            shown.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        let is_here = |name: &&NamespacedName| {
            reaching.contains(name) || namespace.is_none_or(|namespace| *name.namespace == *namespace)
        };
        for rule in survey.world.rules().keys().filter(|rule| survey.selects_rule(rule)) {
            if is_here(&rule) {
                rules.insert(rule.clone(), rule_row(survey, &with_copies, rule));
            }
        }
        let declined = |kind: OurKind| {
            let of_kind = survey.declined.iter().filter(move |declined| declined.kind == kind);
            of_kind.map(declined_row)
        };
        let templates = survey.world.templates().keys().filter(|name| survey.selects_rule(name));
        let templates = templates.filter(is_here).map(|name| template_row(survey, name));
        let templates = declined(OurKind::Template).chain(templates).collect();
        let rules = declined(OurKind::Rule).chain(rules.into_values()).collect();
        let monitors = survey.world.monitors().keys().filter(|monitor| survey.selects_monitor(monitor));
        let monitors = monitors.filter(|it| namespace.is_none_or(|namespace| *it.namespace == *namespace));
        let monitors = monitors.map(|monitor| monitor_row(survey, monitor));
        let monitors = monitors.filter(|row| row.file.is_some() || row.action.is_some());
        let monitors = declined(OurKind::Monitor).chain(monitors).collect();
        let restarts = restarts::rows(survey, namespace);
        let restart_summary = RestartSummary::of(restarts.as_deref().unwrap_or_default());
        let is_shown = |row: &RestartRow| with_current || row.action != RestartCourse::Current;
        let restarts = restarts.map(|mut rows| {
            rows.retain(is_shown);
            rows.sort_by_key(|row| row.action);
            rows
        });
        let copies = shown.into_iter().filter(|outlook| with_current || outlook.course != Course::Current);
        let copies = copies.map(|outlook| copy_row(survey, outlook)).collect();
        Self {
            verified: survey.verified,
            notes: survey.notes.clone(),
            rules,
            templates,
            copies,
            summary,
            monitors,
            policies: policy_rows(survey),
            files: survey.applied.iter().map(file_row).collect(),
            restarts,
            is_partial: survey.is_partial,
            is_of_seen: namespace.is_some_and(|namespace| survey.world.sees(namespace)),
            restart_summary,
        }
    }

    /// The copies and workloads that something would happen to, by name.
    pub(super) fn names(&self) -> String {
        let copies = self.copies.iter().map(|row| (&row.kind, &row.name));
        let workloads = self.restarts.iter().flatten().map(|row| (&row.kind, &row.name));
        output::names(copies.chain(workloads))
    }

    /// Whether anything is refused or unknown. What is unknown only because another namespace cannot be read
    /// does not count, unless it comes from a file.
    pub(super) fn has_refusals(&self) -> bool {
        let is_refused = |course: Course, reason: &str| match course {
            Course::Refuse => true,
            Course::Unknown => !(self.is_of_seen && reason == Unseen::OutOfSight.as_str()),
            _ => false,
        };
        let of_rule = |row: &RuleRow| {
            row.action.is_some_and(|action| {
                is_refused(action, &row.reason) || (row.file.is_some() && action == Course::Unknown)
            })
        };
        self.is_partial
            || self.copies.iter().any(|copy| is_refused(copy.action, &copy.reason))
            || self.restart_summary.refuse + self.restart_summary.unknown > 0
            || self.policies.iter().chain(&self.files).any(|file| file.action == Course::Refuse)
            || self.rules.iter().chain(&self.templates).chain(&self.monitors).any(of_rule)
    }

    /// Whether anything would change, is refused, or is unknown.
    pub(super) fn has_findings(&self) -> bool {
        let Summary { create, change, remove, .. } = self.summary;
        create + change + remove > 0 || self.restart_summary.has_findings() || self.has_refusals()
    }
}

impl Summary {
    fn of(&mut self, course: Course) -> &mut usize {
        match course {
            Course::Create => &mut self.create,
            Course::Change => &mut self.change,
            Course::Remove => &mut self.remove,
            Course::Refuse => &mut self.refuse,
            Course::Unknown => &mut self.unknown,
            Course::Wait => &mut self.wait,
            Course::Current => &mut self.current,
        }
    }
}

impl RuleRow {
    /// The name that copies have of it.
    pub(super) fn id(&self) -> String {
        self.kind.in_world(&NamespacedName::new(self.namespace.as_str(), self.name.as_str())).to_string()
    }
}

fn named(kind: OurKind, rule: &NamespacedName) -> RuleRow {
    RuleRow {
        kind,
        namespace: rule.namespace.to_string(),
        name: rule.name.to_string(),
        file: None,
        identity: None,
        authority: Authority::Allowed,
        action: None,
        reason: String::new(),
        message: String::new(),
        warnings: Vec::new(),
    }
}

fn rule_row(survey: &Survey, with_copies: &BTreeSet<&NamespacedName>, rule: &NamespacedName) -> RuleRow {
    let world = &survey.world;
    let row = from_file(survey, OurKind::Rule, rule);
    let Some(facts) = world.rules().get(rule) else { return row };
    let (row, is_settled) = standing(row, facts, world.rule_authority(rule), survey.asked.get(rule));
    if is_settled {
        return row;
    }
    if survey.blind.contains(rule) {
        let message = "what it copies from or to may not be listed".into();
        return RuleRow { action: Some(Course::Unknown), reason: "Unread".into(), message, ..row };
    }
    // The reconciler's message about a rule without sources or targets, or that is suspended. For other rules
    // this would plan every slot once more.
    if with_copies.contains(rule) && !facts.spec.suspend {
        return beyond_sight(world, rule, facts, row);
    }
    let status = rule_status(world, rule, survey.now).unwrap_or_default();
    let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
    let row = match ready.filter(|ready| ["NoSource", "NoTarget", "Suspended"].contains(&&*ready.reason)) {
        Some(ready) => RuleRow {
            action: Some(Course::Wait),
            reason: ready.reason,
            message: [row.message.as_str(), ready.message.as_str()].join(" ").trim().to_owned(),
            ..row
        },
        None => row,
    };
    if facts.spec.suspend { row } else { beyond_sight(world, rule, facts, row) }
}

/// The row of a rule that selects namespaces which cannot be read.
fn beyond_sight(world: &World, rule: &NamespacedName, facts: &RuleFacts, row: RuleRow) -> RuleRow {
    let Ok(compiled) = &facts.compiled else { return row };
    let source = unseen_source(world, rule, compiled);
    let targets = unseen(world, compiled);
    let told: Vec<_> = source.into_iter().chain(targets).filter_map(|name| world.unseen(name)).collect();
    let Some((reason, _)) = told.first() else { return row };
    // Nothing happens with what is not served, and that is known.
    let action = match reason {
        Unseen::NotServed => Course::Refuse,
        Unseen::OutOfSight => Course::Unknown,
    };
    let messages = told.iter().map(|(_, message)| message.as_str());
    let message = Some(row.message.as_str()).filter(|said| !said.is_empty()).into_iter().chain(messages);
    let message = message.collect::<Vec<_>>().join("; ");
    RuleRow { action: Some(action), reason: reason.to_string(), message, ..row }
}

fn monitor_row(survey: &Survey, monitor: &NamespacedName) -> RuleRow {
    let world = &survey.world;
    let row = from_file(survey, OurKind::Monitor, monitor);
    let Some(facts) = world.monitors().get(monitor) else { return row };
    let known = world.monitor_authority(monitor);
    let (row, is_settled) = standing(row, facts, known, survey.asked_of_monitors.get(monitor));
    if is_settled {
        return row;
    }
    // The reconciler's message about a monitor without workloads, or that is suspended. For other monitors
    // this would plan every workload once more.
    let is_of = |outlook: &RestartOutlook| outlook.monitors.contains(monitor);
    if !facts.spec.suspend && survey.restarts.iter().flatten().any(is_of) {
        return row;
    }
    let status = monitor_status(world, monitor, survey.now).unwrap_or_default();
    let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
    match ready.filter(|ready| ["NoObject", "NoWorkload", "Suspended"].contains(&&*ready.reason)) {
        Some(ready) => {
            RuleRow { action: Some(Course::Wait), reason: ready.reason, message: ready.message, ..row }
        }
        None => row,
    }
}

fn declined_row(declined: &Declined) -> RuleRow {
    RuleRow {
        file: Some(declined.place.clone()),
        authority: if declined.reason == "Forbidden" { Authority::Refused } else { Authority::NotValid },
        action: Some(Course::Refuse),
        reason: declined.reason.clone(),
        message: declined.message.clone(),
        ..named(declined.kind, &declined.name)
    }
}

pub(super) fn from_file(survey: &Survey, kind: OurKind, name: &NamespacedName) -> RuleRow {
    let file = survey.from_files.iter().find(|file| file.kind == kind && file.name == *name);
    RuleRow {
        file: file.map(|file| file.place.clone()),
        warnings: file.map(|file| file.warnings.clone()).unwrap_or_default(),
        ..named(kind, name)
    }
}

/// Whether it is valid and allowed, and whether there is nothing more to say.
pub(super) fn standing<S, C, T>(
    row: RuleRow,
    facts: &Declared<S, C, T>,
    known: Option<&crate::model::Authority>,
    asked: Option<&AnswerSource>,
) -> (RuleRow, bool) {
    if let Err(problems) = &facts.compiled {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let (authority, action) = (Authority::NotValid, Some(Course::Refuse));
        return (RuleRow { authority, action, reason: "Invalid".into(), message, ..row }, true);
    }
    let row = RuleRow { identity: known.map(|known| known.identity.clone()), ..row };
    if let Some(Err(refusal)) = known.map(|known| &known.answer) {
        let (authority, action) = (Authority::Refused, Some(Course::Refuse));
        let (reason, message) = (refusal.reason.as_str().to_owned(), refusal.message.clone());
        return (RuleRow { authority, action, reason, message, ..row }, true);
    }
    let (authority, not_asked) = match asked {
        Some(AnswerSource::Reported) => (Authority::AllowedByStatus, String::new()),
        Some(AnswerSource::Assumed(why)) => {
            (Authority::NotAsked, format!("authority not asked ({why}); planned as if it may"))
        }
        Some(AnswerSource::Answered) | None => (Authority::Allowed, String::new()),
    };
    (RuleRow { authority, message: not_asked, ..row }, false)
}

fn file_row(applied: &AppliedObject) -> FileRow {
    FileRow {
        action: applied.course,
        kind: applied.object.kind.to_string(),
        namespace: applied.object.namespace.to_string(),
        name: applied.object.name.to_string(),
        file: applied.place.clone(),
        reason: applied.reason.clone(),
        message: applied.message.clone(),
        changes: applied.difference.clone(),
        warnings: applied.warnings.clone(),
    }
}

/// The policies of files: those that would be refused, and those that copies and objects are judged by.
fn policy_rows(survey: &Survey) -> Vec<FileRow> {
    let row =
        |action, name: &NamespacedName, place: &str, reason: &str, message: &str, warnings: &[String]| {
            FileRow {
                action,
                kind: OurKind::Policy.as_str().into(),
                namespace: String::new(),
                name: name.name.to_string(),
                file: place.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                changes: Difference::default(),
                warnings: warnings.to_vec(),
            }
        };
    let declined = survey.declined.iter().filter(|it| it.kind == OurKind::Policy);
    let declined = declined.map(|it| row(Course::Refuse, &it.name, &it.place, &it.reason, &it.message, &[]));
    let accepted = survey.from_files.iter().filter(|it| it.kind == OurKind::Policy);
    let judges = "copies and objects of files are judged by it, too";
    let accepted = accepted.map(|it| row(it.course, &it.name, &it.place, "", judges, &it.warnings));
    declined.chain(accepted).collect()
}

fn copy_row(survey: &Survey, outlook: &Outlook) -> CopyRow {
    let is_due = matches!(outlook.course, Course::Create | Course::Change);
    let reported = survey.reported(outlook).filter(|_| is_due);
    CopyRow {
        action: outlook.course,
        kind: outlook.slot.kind.to_string(),
        namespace: outlook.slot.namespace.to_string(),
        name: outlook.slot.name.to_string(),
        rule: outlook.rule.as_ref().map(ToString::to_string),
        source: outlook.source.as_ref().map(ToString::to_string),
        reason: outlook.reason.clone(),
        message: outlook.message.clone(),
        changes: outlook.difference.clone(),
        removed_at: outlook.at,
        last_attempt: reported.map(|problem| format!("{}: {}", problem.reason, problem.message)),
    }
}
