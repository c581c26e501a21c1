//! The report of `copyrator plan`, in the form of `-o json`. Fields are only ever added.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    declared::{RuleRow, declined_row, monitor_row, rule_row, template_row},
    restarts::RestartSummary,
};
use crate::{
    arguments::output,
    explain::{CopyRow, CopyState, Course, RestartCourse, RestartOutlook},
    files::FileKind,
    model::Unseen,
    names::Declarer,
    plan::Reason,
    states::restarts,
    survey::{FileOutlook, Survey},
};

/// The report of a plan.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Plan")]
pub struct Report {
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
    pub policies: Vec<FileOutlook>,
    /// ConfigMaps and Secrets of files.
    pub files: Vec<FileOutlook>,
    /// Every workload that restarts, should restart, or uses what changes; with `-o wide` also those that run
    /// the current content. Absent where the caller may not list workloads or monitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Vec<RestartOutlook>>,
    /// Whether the caller may not read part of what Copyrator looks at; `notes` say what.
    #[serde(skip)]
    pub is_partial: bool,
    /// Whether the report is about a readable namespace, so that others do not matter.
    #[serde(skip)]
    pub is_of_seen: bool,
    /// The numbers of workloads by what happens to them.
    pub restart_summary: RestartSummary,
}

/// The numbers of copies by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub create: usize,
    pub change: usize,
    pub remove: usize,
    pub refuse: usize,
    pub unknown: usize,
    pub wait: usize,
    pub current: usize,
}

impl Report {
    /// The report of a survey; for one namespace, with the rules and the copies in that namespace.
    pub fn new(survey: &Survey, namespace: Option<&str>, with_current: bool) -> Self {
        let shown = survey.shown(namespace);
        let mut summary = Summary::default();
        for outlook in &shown {
            *summary.of(outlook.state.action()) += 1;
        }
        let mut rules: BTreeMap<Declarer, RuleRow> = BTreeMap::new();
        let with_copies: BTreeSet<&Declarer> =
            survey.outlooks.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        let reaching: BTreeSet<&Declarer> =
            shown.iter().filter_map(|outlook| outlook.rule.as_ref()).collect();
        let is_here = |name: &&Declarer| {
            reaching.contains(name) || namespace.is_none_or(|namespace| **name.namespace() == *namespace)
        };
        for rule in survey.world.rules().keys().filter(|rule| survey.selects_rule(rule)) {
            if is_here(&rule) {
                rules.insert(rule.clone(), rule_row(survey, &with_copies, rule));
            }
        }
        let of_kind = |kind| survey.files.iter().filter(move |file| file.of.kind == kind);
        let declined =
            |kind| of_kind(kind).filter(|file| file.course == Course::Refuse).filter_map(declined_row);
        let templates = survey.world.templates().keys().filter(|name| survey.selects_rule(name));
        let templates = templates.filter(is_here).map(|name| template_row(survey, name));
        let templates = declined(FileKind::Template).chain(templates).collect();
        let rules = declined(FileKind::Rule).chain(rules.into_values()).collect();
        let monitors = survey.world.monitors().keys().filter(|monitor| survey.selects_monitor(monitor));
        let monitors = monitors.filter(|it| namespace.is_none_or(|namespace| **it.namespace() == *namespace));
        let monitors = monitors.map(|monitor| monitor_row(survey, monitor));
        let monitors = monitors.filter(|row| row.file.is_some() || row.action.is_some());
        let monitors = declined(FileKind::Monitor).chain(monitors).collect();
        let restarts = restarts::rows(survey, namespace);
        let restart_summary = RestartSummary::of(restarts.as_deref().unwrap_or_default());
        let is_shown = |row: &RestartOutlook| with_current || row.course != RestartCourse::Current;
        let restarts = restarts.map(|mut rows| {
            rows.retain(is_shown);
            rows.sort_by_key(|row| row.course);
            rows
        });
        let copies = shown.into_iter().filter(|row| with_current || row.state != CopyState::Current);
        let copies = copies.cloned().collect();
        Self {
            verified: survey.verified,
            notes: survey.notes.clone(),
            rules,
            templates,
            copies,
            summary,
            monitors,
            policies: of_kind(FileKind::Policy).cloned().collect(),
            files: survey.files.iter().filter(|file| file.of.kind.data().is_some()).cloned().collect(),
            restarts,
            is_partial: survey.is_partial,
            is_of_seen: namespace.is_some_and(|namespace| survey.world.sees(namespace)),
            restart_summary,
        }
    }

    /// The copies and workloads that something would happen to, by name.
    pub(super) fn names(&self) -> String {
        let copies = self.copies.iter().map(|row| &row.slot);
        let copies = copies.map(|slot| (slot.kind.to_string(), slot.name.to_string()));
        let workloads =
            self.restarts.iter().flatten().map(|row| (row.of.kind().to_owned(), row.of.name().to_string()));
        output::names(copies.chain(workloads))
    }

    /// Whether anything is refused or unknown. A row that is unknown only because a foreign namespace cannot
    /// be read is ignored, unless the row comes from a file.
    pub(super) fn has_refusals(&self) -> bool {
        let is_refused = |course: Course, reason: Option<Reason>| match course {
            Course::Refuse => true,
            Course::Unknown => !(self.is_of_seen && reason == Some(Unseen::OutOfSight.into())),
            _ => false,
        };
        let of_rule = |row: &RuleRow| {
            row.action.is_some_and(|action| {
                is_refused(action, row.reason) || (row.file.is_some() && action == Course::Unknown)
            })
        };
        self.is_partial
            || self.copies.iter().any(|copy| is_refused(copy.state.action(), Some(copy.reason)))
            || self.restart_summary.refuse + self.restart_summary.unknown > 0
            || self.policies.iter().chain(&self.files).any(|file| file.course == Course::Refuse)
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
