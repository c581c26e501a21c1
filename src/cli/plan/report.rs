//! What `copyrator plan` says, in the shape that `-o json` shows. Fields are only ever added.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::restarts::{FileRow, RestartSummary};
use crate::{
    cli::{
        arguments::output,
        standing::restarts::{self, RestartRow},
        survey::{Asked, Declined, Laid, OurKind, Survey},
    },
    explain::{Course, Difference, Outlook, RestartCourse, RestartOutlook},
    model::{Declared, RuleFacts, World},
    names::NamespacedName,
    plan::{
        copy::{claims::unseen_source, rule_status, targets::unseen},
        restart::monitor_status,
    },
};

/// What would happen.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The marks of copies were verified; else they are taken at their word.
    pub verified: bool,
    /// What to know before reading on.
    pub notes: Vec<String>,
    /// Every rule, by namespace and name; a rule of a file that would be refused has a row of its own.
    pub rules: Vec<RuleRow>,
    /// Every copy that something would happen to, or should; with `-o wide` those in order, too.
    pub copies: Vec<CopyRow>,
    /// How many copies there are of each kind.
    pub summary: Summary,
    /// Monitors of files, and those that are held back; a monitor of a file that would be refused has a row
    /// of its own.
    pub monitors: Vec<RuleRow>,
    /// ConfigMaps and Secrets of files.
    pub files: Vec<FileRow>,
    /// Every workload that restarts, or should, or that uses what changes; with `-o wide` those that run the
    /// current content, too. Absent where workloads or monitors may not be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Vec<RestartRow>>,
    /// Something that Copyrator looks at may not be seen; `notes` say what.
    #[serde(skip)]
    pub is_partial: bool,
    /// It is about a namespace that is seen, so that others need not be.
    #[serde(skip)]
    pub is_of_seen: bool,
    /// How many workloads there are of each kind.
    pub restart_summary: RestartSummary,
}

/// A rule, or a monitor.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleRow {
    #[serde(skip)]
    pub kind: OurKind,
    pub namespace: String,
    pub name: String,
    /// `FILE:LINE`, where it comes from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whose rights it acts with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How it is known what it may do.
    pub authority: Authority,
    /// `refuse`, `unknown` or `wait`, where that is true of the rule as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Course>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What a user who applies it would be warned of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How it is known what a rule may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Authority {
    /// It may.
    Allowed,
    /// It may, as its status says.
    AllowedByStatus,
    /// It may not.
    Refused,
    /// Nobody could be asked; planned as if it may.
    NotAsked,
    /// It is not valid, so that it does not matter.
    NotValid,
}

/// A copy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopyRow {
    pub action: Course,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What would change, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Difference>,
    /// When a copy that nobody wants goes; without it, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
    /// What became of it when Copyrator last tried, as the rule's status says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<String>,
}

/// Counts of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub create: usize,
    pub change: usize,
    pub remove: usize,
    pub refuse: usize,
    pub unknown: usize,
    pub wait: usize,
    pub current: usize,
}

impl Report {
    /// What a survey comes to; for one namespace, the rules that are there and the copies that land there.
    pub(super) fn new(survey: &Survey, namespace: Option<&str>, with_current: bool) -> Self {
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
        for rule in survey.world.rules().keys().filter(|rule| survey.selects_rule(rule)) {
            if reaching.contains(rule) || namespace.is_none_or(|namespace| *rule.namespace == *namespace) {
                rules.insert(rule.clone(), rule_row(survey, &with_copies, rule));
            }
        }
        let declined = |kind: OurKind| {
            let of_kind = survey.declined.iter().filter(move |declined| declined.kind == kind);
            of_kind.map(declined_row)
        };
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
            copies,
            summary,
            monitors,
            files: survey.laid.iter().map(file_row).collect(),
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

    /// Whether anything is refused, or cannot be told. What cannot be told because a namespace other than the
    /// one asked about is out of sight does not count, unless a file says it.
    pub(super) fn has_refusals(&self) -> bool {
        let is_refused = |course: Course, reason: &str| match course {
            Course::Refuse => true,
            Course::Unknown => !(self.is_of_seen && reason == "OutOfSight"),
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
            || self.files.iter().any(|file| file.action == Course::Refuse)
            || self.rules.iter().chain(&self.monitors).any(of_rule)
    }

    /// Whether anything would change or be refused, or cannot be told.
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
    // What the reconciler would say of a rule that has nothing to copy, or nowhere to copy it to, or is
    // suspended. For other rules it would look at every slot once more.
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

/// Where only some namespaces are looked at: what a rule means that is not seen.
fn beyond_sight(world: &World, rule: &NamespacedName, facts: &RuleFacts, row: RuleRow) -> RuleRow {
    let Ok(compiled) = &facts.compiled else { return row };
    let source = unseen_source(world, rule, compiled);
    let targets = unseen(world, compiled);
    let told: Vec<_> = source.into_iter().chain(targets).filter_map(|name| world.unseen(name)).collect();
    let Some((reason, _)) = told.first() else { return row };
    // Nothing happens with what is not served, and that is known.
    let action = if *reason == "NotServed" { Course::Refuse } else { Course::Unknown };
    let messages = told.iter().map(|(_, message)| message.as_str());
    let message = Some(row.message.as_str()).filter(|said| !said.is_empty()).into_iter().chain(messages);
    let message = message.collect::<Vec<_>>().join("; ");
    RuleRow { action: Some(action), reason: (*reason).to_owned(), message, ..row }
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
    // What the reconciler would say of a monitor that has nothing to do, or is suspended; for other monitors
    // it would look at every workload once more.
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

fn from_file(survey: &Survey, kind: OurKind, name: &NamespacedName) -> RuleRow {
    let file = survey.from_files.iter().find(|file| file.kind == kind && file.name == *name);
    RuleRow {
        file: file.map(|file| file.place.clone()),
        warnings: file.map(|file| file.warnings.clone()).unwrap_or_default(),
        ..named(kind, name)
    }
}

/// Whether it is valid and may; and whether that says all there is to say.
fn standing<S, C, T>(
    row: RuleRow,
    facts: &Declared<S, C, T>,
    known: Option<&crate::model::Authority>,
    asked: Option<&Asked>,
) -> (RuleRow, bool) {
    if let Err(problems) = &facts.compiled {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let (authority, action) = (Authority::NotValid, Some(Course::Refuse));
        return (RuleRow { authority, action, reason: "Invalid".into(), message, ..row }, true);
    }
    let row = RuleRow { identity: known.map(|known| known.identity.clone()), ..row };
    if let Some(Err((reason, message))) = known.map(|known| &known.answer) {
        let (authority, action) = (Authority::Refused, Some(Course::Refuse));
        return (
            RuleRow { authority, action, reason: reason.clone(), message: message.clone(), ..row },
            true,
        );
    }
    let (authority, not_asked) = match asked {
        Some(Asked::Reported) => (Authority::AllowedByStatus, String::new()),
        Some(Asked::Assumed(why)) => {
            (Authority::NotAsked, format!("authority not asked ({why}); planned as if it may"))
        }
        Some(Asked::Answered) | None => (Authority::Allowed, String::new()),
    };
    (RuleRow { authority, message: not_asked, ..row }, false)
}

fn file_row(laid: &Laid) -> FileRow {
    FileRow {
        action: laid.course,
        kind: laid.object.kind.to_string(),
        namespace: laid.object.namespace.to_string(),
        name: laid.object.name.to_string(),
        file: laid.place.clone(),
        reason: laid.reason.clone(),
        message: laid.message.clone(),
        changes: laid.difference.clone(),
    }
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
