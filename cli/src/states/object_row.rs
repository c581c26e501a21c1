//! The row of one of our objects, from its status. For a source with annotations, the row is computed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::Reported;
use crate::{
    api::{
        ConfigMonitorStatus, ConfigPolicySpec, ConfigPolicyStatus, CopyratorRuleStatus,
        CopyratorTemplateStatus, ExistingViolation, Problem, WhileInUse, speaks_of,
    },
    explain::{CopyRow, RestartOutlook},
    names::Declarer,
    plan::copy::rule_status,
    survey::Survey,
};

/// A row of one object and its state.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ObjectRow {
    /// The rule that the row is of, or that the source declares.
    #[serde(skip)]
    rule: Option<Declarer>,
    /// Whether its status is about an earlier spec, or absent.
    #[serde(skip)]
    is_behind: bool,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) ready: String,
    pub(super) reason: String,
    /// The numbers of its status, in words.
    pub(super) summary: String,
    pub(super) message: String,
    pub(super) degraded: bool,
    pub(super) problems: Vec<Problem>,
    /// For a rule: every copy, the worst first; absent where the caller may not read them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<Vec<CopyRow>>,
    /// The monitor that the row is of.
    #[serde(skip)]
    monitor: Option<Declarer>,
    /// For a monitor: every workload, the worst first; absent where the caller may not read them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    workloads: Option<Vec<RestartOutlook>>,
}

impl ObjectRow {
    /// Whether something is not as declared.
    pub(crate) fn is_worrying(&self) -> bool {
        self.ready != "True"
            || self.degraded
            || self.copies.iter().flatten().any(CopyRow::is_worrying)
            || self.workloads.iter().flatten().any(RestartOutlook::is_worrying)
    }

    /// Whether a command that waits has to wait for this object.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.is_behind || self.ready != "True" || self.degraded
    }

    /// The object's state and first problem, in one line.
    pub(crate) fn in_short(&self) -> String {
        let name = [self.namespace.as_str(), self.name.as_str()].join("/");
        let state = match (self.is_behind, self.ready == "True" && self.degraded) {
            (true, _) => "its status is not about the current spec yet".to_owned(),
            (false, true) => "Degraded".to_owned(),
            (false, false) => format!("Ready is {}", self.ready),
        };
        let problem = self.problems.first();
        let (reason, message) = match problem.filter(|_| self.ready == "True") {
            Some(problem) => (&problem.reason, &problem.message),
            None => (&self.reason, &self.message),
        };
        format!("{} {}: {state}, {reason}: {message}", self.kind, name.trim_start_matches('/'))
    }

    /// Kind and name, for `-o name`.
    pub fn kind_and_name(&self) -> (&'static str, &str) {
        (self.kind, &self.name)
    }

    /// The object's namespace; empty for a policy.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the row is of a source whose annotations declare a rule.
    pub fn is_annotated(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.as_annotated().is_some())
    }

    /// A text that sorts the worst first.
    pub fn rank(&self) -> &'static str {
        match (self.ready == "True", self.is_worrying()) {
            (false, _) => "0",
            (true, true) => "1",
            (true, false) => "2",
        }
    }

    /// Sets the workloads of a monitor.
    pub(crate) fn give_workloads(&mut self, workloads: Option<&[RestartOutlook]>) {
        if let (Some(monitor), Some(workloads)) = (&self.monitor, workloads) {
            self.workloads =
                Some(workloads.iter().filter(|row| row.monitors.contains(monitor)).cloned().collect());
        }
    }

    /// Sets the copies of a rule.
    pub(crate) fn give(&mut self, copies: &[CopyRow]) {
        if let Some(rule) = &self.rule {
            let is_ours = |copy: &&CopyRow| copy.rule.as_ref() == Some(rule);
            self.copies = Some(copies.iter().filter(is_ours).cloned().collect());
        }
    }
}

/// Sorts the worst first.
pub fn sort(rows: &mut [ObjectRow]) {
    rows.sort_by_key(|row| {
        let worst_first = (row.ready == "True", !row.is_worrying());
        (worst_first, row.kind, row.namespace.clone(), row.name.clone())
    });
}

/// The row of a rule.
pub(super) fn of_rule(rule: Reported<CopyratorRuleStatus>) -> ObjectRow {
    let status = rule.status.clone().unwrap_or_default();
    let summary = format!("{} of {} copies", status.current, status.desired);
    let name = Declarer::rule(rule.namespace().unwrap_or_default(), rule.name_any());
    let row = of_status("CopyratorRule", &rule, summary, &status.conditions, status.problems);
    ObjectRow { rule: Some(name), ..row }
}

/// The row of a template.
pub(super) fn of_template(template: Reported<CopyratorTemplateStatus>) -> ObjectRow {
    let status = template.status.clone().unwrap_or_default();
    let summary = format!("{} of {} objects", status.current, status.desired);
    let name = Declarer::template(template.namespace().unwrap_or_default(), template.name_any());
    let row = of_status("CopyratorTemplate", &template, summary, &status.conditions, status.problems);
    ObjectRow { rule: Some(name), ..row }
}

/// The row of a monitor.
pub(super) fn of_monitor(monitor: Reported<ConfigMonitorStatus>) -> ObjectRow {
    let status = monitor.status.clone().unwrap_or_default();
    let mut summary = format!("{} of {} workloads", status.up_to_date, status.workloads);
    for (count, word) in
        [(status.restarting, "restarting"), (status.waiting, "waiting"), (status.failed, "failed")]
    {
        if count > 0 {
            summary = format!("{summary}, {count} {word}");
        }
    }
    let name = Declarer::monitor(monitor.namespace().unwrap_or_default(), monitor.name_any());
    let row = of_status("ConfigMonitor", &monitor, summary, &status.conditions, status.problems);
    ObjectRow { monitor: Some(name), ..row }
}

/// The row of a policy.
pub(super) fn of_policy(policy: Reported<ConfigPolicyStatus>) -> ObjectRow {
    let status = policy.status.clone().unwrap_or_default();
    let spec = serde_json::from_value(policy.spec.clone()).unwrap_or_default();
    let summary = match status.violation_count {
        Some(count) if count > 0 => format!("{}; violations {count}", demands(&spec)),
        _ => demands(&spec),
    };
    let problems = status.problems.into_iter().chain(status.violations.into_iter().map(violation));
    of_status("ConfigPolicy", &policy, summary, &status.conditions, problems.collect())
}

/// The rows of sources whose annotations declare these rules. A rule in annotations has no status, so this
/// function computes the status.
pub fn of_annotations(survey: &Survey, is_wanted: impl Fn(&Declarer) -> bool) -> Vec<ObjectRow> {
    let wanted = survey.world.rules().keys().filter(|rule| is_wanted(rule));
    let row = |rule: &Declarer| {
        let source = rule.as_annotated()?;
        let status = rule_status(&survey.world, rule, survey.now)?;
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready")?;
        Some(ObjectRow {
            rule: Some(rule.clone()),
            is_behind: false,
            kind: source.kind.resource().kind,
            namespace: source.namespace.to_string(),
            name: source.name.to_string(),
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
            summary: format!("{} of {} copies (declared by annotation)", status.current, status.desired),
            message: ready.message.clone(),
            degraded: status.conditions.iter().any(|one| one.type_ == "Degraded" && one.status == "True"),
            problems: status.problems,
            copies: None,
            monitor: None,
            workloads: None,
        })
    };
    wanted.filter_map(row).collect()
}

/// The rows of workloads without a monitor, for machines. People find these workloads in the table of
/// workloads.
pub fn of_workloads(workloads: &[RestartOutlook]) -> Vec<ObjectRow> {
    let alone = workloads.iter().filter(|row| row.monitors.is_empty());
    let row = |row: &RestartOutlook| ObjectRow {
        rule: None,
        is_behind: false,
        kind: row.of.kind(),
        namespace: row.of.namespace().to_owned(),
        name: row.of.name().to_string(),
        ready: if row.is_worrying() { "False".into() } else { "True".into() },
        reason: row.reason.as_str().to_owned(),
        summary: if row.by_annotation { "by annotation".into() } else { String::new() },
        message: row.message.clone(),
        degraded: false,
        problems: Vec::new(),
        copies: None,
        monitor: None,
        workloads: Some(vec![row.clone()]),
    };
    alone.map(row).collect()
}

/// A violation by an existing object, as a problem of the policy.
fn violation(found: ExistingViolation) -> Problem {
    let ExistingViolation { kind, namespace, name, rule, key, message } = found;
    let key = key.map(|key| format!(", key {key}")).unwrap_or_default();
    let message = format!("{kind:?}, rule {rule}{key}: {message}");
    Problem { namespace, name, reason: "Violation".into(), message, ..Problem::default() }
}

/// The number of demands of a policy, in words.
fn demands(spec: &ConfigPolicySpec) -> String {
    let labels = spec.labels.as_ref().map_or(0, |labels| labels.required.len() + labels.patterns.len());
    let defaults = spec.defaults.as_ref().map_or(0, |given| given.labels.len() + given.annotations.len());
    let counts = [
        (spec.data.len(), "data"),
        (labels, "labels"),
        (spec.validations.len(), "CEL"),
        (usize::from(spec.limits.is_some()), "limits"),
        (usize::from(spec.warn_above.is_some()), "warnAbove"),
        (usize::from(spec.while_in_use == WhileInUse::Refuse), "whileInUse"),
        (defaults, "defaults"),
    ];
    let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{word} {count}"));
    words.collect::<Vec<_>>().join(", ")
}

/// The row of an object with these conditions.
fn of_status<K: ResourceExt>(
    kind: &'static str,
    object: &K,
    summary: String,
    conditions: &[Condition],
    problems: Vec<Problem>,
) -> ObjectRow {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let generation = object.meta().generation.unwrap_or_default();
    ObjectRow {
        rule: None,
        is_behind: !speaks_of(conditions, "Ready", generation),
        kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        ready: ready.map_or_else(|| "Unknown".into(), |condition| condition.status.clone()),
        reason: ready.map_or_else(|| "NotSeenYet".into(), |condition| condition.reason.clone()),
        message: ready.map(|condition| condition.message.clone()).unwrap_or_default(),
        degraded: conditions
            .iter()
            .any(|condition| condition.type_ == "Degraded" && condition.status == "True"),
        summary,
        problems,
        copies: None,
        monitor: None,
        workloads: None,
    }
}
