//! How every workload stands, and what becomes of it: a row each, for `status` and `plan`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    api::StrategyType,
    cli::{
        survey::Survey,
        terminal::{aligned, side_by_side},
    },
    explain::{RestartCourse, RestartOutlook, RestartReason, Restartable},
    marks::write_time,
    model::World,
    names::NamespacedName,
    plan::restart::{Concern, RestartState},
};

/// A workload, or the pods that a monitor finds itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestartRow {
    pub action: RestartCourse,
    #[schemars(with = "String")]
    pub state: RestartState,
    /// `Deployment`, `StatefulSet`, `DaemonSet`; `Pods` of the monitor of that name.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    #[schemars(with = "String")]
    pub reason: RestartReason,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it restarts, or is looked at again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyType>,
    /// The objects that have changed since what runs was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseRow>,
    /// The monitors that ask for its restarts, in its own namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<String>,
    /// Its own annotation asks for them.
    pub by_annotation: bool,
    /// Keyed digest of what it is recorded to run with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    /// Keyed digest of what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
}

/// An object that has changed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CauseRow {
    pub kind: String,
    pub name: String,
    #[schemars(with = "String")]
    pub changed_at: Timestamp,
    /// `namespace/name` of the source, where it is a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

impl RestartRow {
    /// Something is due, or is not going to happen, and it will not go away by itself in time.
    pub(crate) fn is_worrying(&self) -> bool {
        self.state.concern() == Concern::Worrying
    }

    /// `Deployment shop/web`, or `Pods of ConfigMonitor shop/web`.
    pub(crate) fn place(&self) -> String {
        match &*self.kind {
            "Pods" => format!("Pods of ConfigMonitor {}/{}", self.namespace, self.name),
            kind => format!("{kind} {}/{}", self.namespace, self.name),
        }
    }

    /// Whether this monitor asks for its restarts.
    pub(crate) fn is_of(&self, monitor: &NamespacedName) -> bool {
        *monitor.namespace == *self.namespace && self.monitors.iter().any(|name| **name == *monitor.name)
    }
}

/// Every workload of a survey that is in this namespace, or that restarts for a copy which a rule of it
/// makes; the worst first. `None` where they may not be seen.
pub(crate) fn rows(survey: &Survey, namespace: Option<&str>) -> Option<Vec<RestartRow>> {
    let concerns = |outlook: &&RestartOutlook| {
        namespace.is_none_or(|here| outlook.of.namespace() == here || is_spread_from(survey, outlook, here))
    };
    let mut rows: Vec<RestartRow> = survey
        .restarts
        .as_ref()?
        .iter()
        .filter(concerns)
        .filter(|it| survey.selects_restart(it))
        .map(|outlook| row(&survey.world, outlook))
        .collect();
    rows.sort_by(|a, b| {
        (a.state.rank(), &a.namespace, &a.kind, &a.name).cmp(&(
            b.state.rank(),
            &b.namespace,
            &b.kind,
            &b.name,
        ))
    });
    Some(rows)
}

fn is_spread_from(survey: &Survey, outlook: &RestartOutlook, namespace: &str) -> bool {
    outlook.causes.iter().any(|cause| {
        let marks = survey.world.object(&cause.object).and_then(|facts| facts.marks.as_deref());
        marks.is_some_and(|marks| *marks.rule.namespace == *namespace)
    })
}

/// A workload as its outlook has it.
pub(crate) fn row(world: &World, outlook: &RestartOutlook) -> RestartRow {
    let (kind, name) = match &outlook.of {
        Restartable::Workload(key) => (key.kind.to_string(), key.name.to_string()),
        Restartable::Pods(monitor) => ("Pods".to_owned(), monitor.name.to_string()),
    };
    let causes = outlook.causes.iter().map(|cause| {
        let marks = world.object(&cause.object).and_then(|facts| facts.marks.as_deref());
        CauseRow {
            kind: cause.object.kind.to_string(),
            name: cause.object.name.to_string(),
            changed_at: cause.changed_at,
            copy_of: marks.map(|marks| marks.origin().to_string()),
        }
    });
    RestartRow {
        action: outlook.course,
        state: outlook.state.clone(),
        kind,
        namespace: outlook.of.namespace().to_owned(),
        name,
        reason: outlook.reason.clone(),
        message: outlook.message.clone(),
        at: outlook.at,
        strategy: outlook.strategy,
        causes: causes.collect(),
        monitors: outlook.monitors.iter().map(|monitor| monitor.name.to_string()).collect(),
        by_annotation: outlook.by_annotation,
        running: outlook.running.clone(),
        wanted: outlook.wanted.clone(),
    }
}

/// For people: a line a workload; those that run the current content only if asked for, and then with whole
/// digests.
pub(crate) fn table(rows: &[RestartRow], wide: bool) -> String {
    let shown: Vec<&RestartRow> =
        rows.iter().filter(|row| wide || row.state != RestartState::Current).collect();
    if shown.is_empty() {
        return String::new();
    }
    let header =
        ["STATE", "WORKLOAD", "BY", "RUNNING", "WANTED", "NEXT", "REASON", "MESSAGE"].map(str::to_owned);
    let cells = shown.iter().map(|row| {
        let (running, wanted) = side_by_side(row.running.as_deref(), row.wanted.as_deref());
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let annotation = row.by_annotation.then(|| "annotation".to_owned());
        let by: Vec<String> = row.monitors.iter().cloned().chain(annotation).collect();
        [
            row.state.to_string(),
            row.place(),
            or_none(by.join(",")),
            running,
            wanted,
            row.at.map_or_else(|| "-".to_owned(), write_time),
            row.reason.as_str().to_owned(),
            row.message.clone(),
        ]
    });
    let lines: Vec<[String; 8]> = std::iter::once(header).chain(cells).collect();
    format!("\n{}\n", aligned(&lines).join("\n"))
}

#[cfg(test)]
pub(crate) fn row_of(action: RestartCourse, state: RestartState, name: &str) -> RestartRow {
    RestartRow {
        action,
        reason: RestartReason::State(state.clone()),
        state,
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: name.into(),
        message: String::new(),
        at: None,
        strategy: None,
        causes: Vec::new(),
        monitors: vec!["web".into()],
        by_annotation: false,
        running: Some("k.0123456789ab.s".into()),
        wanted: Some("k.0123456789ab.s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::WaitReason, plan::restart::Wait};

    #[test]
    fn a_workload_shows_what_it_runs_and_what_it_waits_for() {
        let waiting = RestartRow {
            at: Some(Timestamp::from_second(1_000).unwrap()),
            message: "ConfigMap app has changed".into(),
            wanted: Some("k.fedcba987654.s".into()),
            by_annotation: true,
            ..row_of(RestartCourse::Restart, Wait::for_event(WaitReason::QuietPeriod).into(), "web")
        };
        let current = row_of(RestartCourse::Current, RestartState::Current, "docs");
        let expected = "
STATE     WORKLOAD              BY               RUNNING    WANTED     NEXT                   REASON        MESSAGE
Waiting   Deployment shop/web   web,annotation   01234567   fedcba98   1970-01-01T00:16:40Z   QuietPeriod   ConfigMap app has changed
";
        assert_eq!(table(&[waiting.clone(), current.clone()], false), expected);
        assert!(table(&[waiting, current.clone()], true).contains("\nCurrent   Deployment shop/docs  "));
        assert_eq!(table(&[current], false), "");
    }
}
