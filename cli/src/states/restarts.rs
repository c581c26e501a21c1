//! The state and planned action of every workload, one row each, for `status` and `plan`.

use std::sync::Arc;

use crate::{
    api::WorkloadKind,
    explain::{RestartCourse, RestartOutlook, RestartReason, Restartable},
    marks::write_time,
    names::{Declarer, WorkloadKey},
    plan::restart::RestartState,
    survey::Survey,
    terminal::{aligned, side_by_side},
};

/// Every workload of a survey that is in this namespace, or restarts for a copy of one of the namespace's
/// rules; the worst first. `None` if the caller may not see workloads.
pub fn rows(survey: &Survey, namespace: Option<&str>) -> Option<Vec<RestartOutlook>> {
    let concerns = |outlook: &&RestartOutlook| {
        namespace.is_none_or(|here| outlook.of.namespace() == here || is_spread_from(outlook, here))
    };
    let all = survey.restarts.as_ref()?.iter().filter(concerns);
    let mut rows: Vec<RestartOutlook> = all.filter(|it| survey.selects_restart(it)).cloned().collect();
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    Some(rows)
}

fn order(row: &RestartOutlook) -> (u8, &str, &str, Arc<str>) {
    (row.state.rank(), row.of.namespace(), row.of.kind(), row.of.name())
}

fn is_spread_from(outlook: &RestartOutlook, namespace: &str) -> bool {
    let rules = outlook.causes.iter().filter_map(|cause| cause.rule.as_ref());
    rules.map(|rule| &**rule.namespace()).any(|home| home == namespace)
}

/// A table for people, with a line for each workload; current workloads only with `wide`.
pub fn table(rows: &[RestartOutlook], wide: bool) -> String {
    let shown: Vec<&RestartOutlook> =
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
        let by: Vec<String> =
            row.monitors.iter().map(|one| one.named().name.to_string()).chain(annotation).collect();
        [
            row.state.to_string(),
            row.of.to_string(),
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

/// Returns a row in this state for the Deployment `shop/NAME`.
#[doc(hidden)]
pub fn row_of(course: RestartCourse, state: RestartState, name: &str) -> RestartOutlook {
    let (kind, namespace, name) = (WorkloadKind::Deployment, "shop".into(), name.into());
    RestartOutlook {
        course,
        reason: RestartReason::State(state.clone()),
        state,
        of: Restartable::Workload(WorkloadKey { kind, namespace, name }),
        message: String::new(),
        at: None,
        strategy: None,
        causes: Vec::new(),
        monitors: vec![Declarer::monitor("shop", "web")],
        by_annotation: false,
        running: Some("k.0123456789ab.s".into()),
        wanted: Some("k.0123456789ab.s".into()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        api::StrategyType,
        explain::RestartCause,
        model::WaitReason,
        names::{Kind, NamespacedName, ObjectKey},
        plan::restart::Wait,
    };

    /// Scripts read these fields, which are the outlook's own.
    #[test]
    fn a_row_has_these_fields() {
        let at = Timestamp::from_second(1_000).unwrap();
        let full = RestartOutlook {
            message: "it waits".into(),
            at: Some(at),
            strategy: Some(StrategyType::Rollout),
            causes: vec![RestartCause {
                object: ObjectKey::new(Kind::Secret, "shop", "tls"),
                changed_at: at,
                copy_of: Some(NamespacedName::new("platform", "tls")),
                rule: Some(Declarer::rule("platform", "tls")),
            }],
            ..row_of(RestartCourse::Restart, RestartState::Due, "web")
        };
        let digest = "k.0123456789ab.s";
        let expected = format!(
            "{{\"action\":\"restart\",\"state\":\"Due\",\"kind\":\"Deployment\",\"namespace\":\"shop\",\"name\":\"web\",\
             \"reason\":\"Due\",\"message\":\"it waits\",\"at\":\"1970-01-01T00:16:40Z\",\"strategy\":\"Rollout\",\
             \"causes\":[{{\"kind\":\"Secret\",\"name\":\"tls\",\"changedAt\":\"1970-01-01T00:16:40Z\",\"copyOf\":\"platform/tls\"}}],\
             \"monitors\":[\"web\"],\"byAnnotation\":false,\"running\":\"{digest}\",\"wanted\":\"{digest}\"}}"
        );
        assert_eq!(serde_json::to_string(&full).unwrap(), expected);
        let pods = Restartable::Pods(Declarer::monitor("shop", "web"));
        let few = RestartOutlook { of: pods, monitors: Vec::new(), running: None, wanted: None, ..full };
        let few =
            RestartOutlook { message: String::new(), at: None, strategy: None, causes: Vec::new(), ..few };
        assert_eq!(
            serde_json::to_string(&few).unwrap(),
            "{\"action\":\"restart\",\"state\":\"Due\",\"kind\":\"Pods\",\"namespace\":\"shop\",\"name\":\"web\",\
             \"reason\":\"Due\",\"byAnnotation\":false}"
        );
    }

    #[test]
    fn a_workload_shows_what_it_runs_and_what_it_waits_for() {
        let waiting = RestartOutlook {
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
