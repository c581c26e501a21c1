//! The restarts of a plan for people: a line for each workload, with a sign as in a diff, and lines for the
//! files that cause them.

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{self, counted, difference};
use crate::{
    explain::{Course, RestartCause, RestartCourse, RestartOutlook, RestartReason},
    marks::write_time,
    plan::{Reason, restart::RestartState},
    survey::FileOutlook,
};

/// The numbers of workloads by what happens to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartSummary {
    pub refuse: usize,
    pub unknown: usize,
    pub hold: usize,
    pub restart: usize,
    pub wait: usize,
    pub record: usize,
    pub unaffected: usize,
    pub current: usize,
}

impl RestartSummary {
    /// Counts the rows by state.
    pub(super) fn of(rows: &[RestartOutlook]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            *match row.course {
                RestartCourse::Refuse => &mut summary.refuse,
                RestartCourse::Unknown => &mut summary.unknown,
                RestartCourse::Hold => &mut summary.hold,
                RestartCourse::Restart => &mut summary.restart,
                RestartCourse::Wait => &mut summary.wait,
                RestartCourse::Record => &mut summary.record,
                RestartCourse::Unaffected => &mut summary.unaffected,
                RestartCourse::Current => &mut summary.current,
            } += 1;
        }
        summary
    }

    /// Whether anything restarts, is refused, or is unknown.
    pub(super) fn has_findings(self) -> bool {
        self.refuse + self.unknown + self.restart + self.record > 0
    }

    /// The numbers in words; empty without workloads.
    pub(super) fn line(self) -> String {
        let Self { refuse, unknown, hold, restart, wait, record, unaffected, current } = self;
        let counts = [
            (restart, "to restart"),
            (record, "to record"),
            (refuse, "refused"),
            (unknown, "not known"),
            (hold, "held"),
            (wait, "waiting"),
            (unaffected, "not affected"),
        ];
        let said: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let run =
            |verb| format!("{} {verb} the current content.\n", counted(current, "workload", "workloads"));
        match (said.as_slice(), current) {
            ([], 0) => String::new(),
            ([], 1) => format!("No restarts: {}", run("runs")),
            ([], _) => format!("No restarts: {}", run("run")),
            (said, 0) => format!("Workloads: {}.\n", said.join(", ")),
            (said, _) => format!("Workloads: {}, {current} current.\n", said.join(", ")),
        }
    }
}

/// The sign of a line; the command's help explains the signs.
pub(super) fn sign(course: RestartCourse) -> (char, Course) {
    match course {
        RestartCourse::Refuse => ('!', Course::Refuse),
        RestartCourse::Unknown => ('?', Course::Unknown),
        RestartCourse::Hold | RestartCourse::Wait => ('.', Course::Wait),
        RestartCourse::Restart => ('*', Course::Change),
        RestartCourse::Record => ('~', Course::Change),
        RestartCourse::Unaffected | RestartCourse::Current => ('=', Course::Current),
    }
}

/// A line for each workload, in columns, each with the course that colours it.
pub(super) fn lines(rows: &[RestartOutlook]) -> Vec<(Course, String)> {
    let width = rows.iter().map(|row| row.of.to_string().chars().count()).max().unwrap_or(0);
    let line = |row: &RestartOutlook| {
        let (sign, course) = sign(row.course);
        (course, format!("  {sign} {:width$}  {}", row.of.to_string(), what(row)).trim_end().to_owned())
    };
    rows.iter().map(line).collect()
}

/// Describes what happens to a workload: when, how, for which causes and for which monitor.
fn what(row: &RestartOutlook) -> String {
    let mut words: Vec<String> = Vec::new();
    match row.course {
        RestartCourse::Restart => {
            let how = row.strategy.map(|strategy| format!(" by {strategy:?}")).unwrap_or_default();
            words.push(match (&row.reason, row.at) {
                (RestartReason::State(RestartState::Due), _) | (_, None) => format!("restarts now{how}"),
                (reason, Some(at)) => {
                    format!("restarts at {}{how} ({})", write_time(at), reason.as_str())
                }
            });
            words.push(row.message.clone());
            words.extend(row.causes.iter().filter_map(copied));
            words.push(asked(row));
        }
        RestartCourse::Record => words.extend([row.message.clone(), asked(row)]),
        RestartCourse::Current => words.push("runs the current content".into()),
        RestartCourse::Refuse
        | RestartCourse::Unknown
        | RestartCourse::Hold
        | RestartCourse::Wait
        | RestartCourse::Unaffected => {
            words.push(format!("{}: {}", row.reason.as_str(), row.message));
        }
    }
    words.retain(|word| !word.is_empty());
    words.join("; ")
}

fn copied(cause: &RestartCause) -> Option<String> {
    Some(format!("{} {} is a copy of {}", cause.object.kind, cause.object.name, cause.copy_of.as_ref()?))
}

fn asked(row: &RestartOutlook) -> String {
    let monitors = row.monitors.iter().map(|one| format!("ConfigMonitor {}", one.named().name));
    let annotation = row.by_annotation.then(|| "its annotation".to_owned());
    let all: Vec<String> = monitors.chain(annotation).collect();
    if all.is_empty() { String::new() } else { format!("asked by {}", all.join(", ")) }
}

/// A line for each object of a file.
pub(super) fn file_lines(rows: &[FileOutlook]) -> Vec<(Course, String)> {
    let width = rows.iter().map(|row| row.of.to_string().chars().count()).max().unwrap_or(0);
    let line = |row: &FileOutlook| {
        let what = match (row.course, row.reason) {
            (Course::Refuse, reason) => {
                format!("{}: {}", reason.map(Reason::as_str).unwrap_or_default(), row.message)
            }
            _ if !row.message.is_empty() => row.message.clone(),
            (Course::Create | Course::Change, _) => difference(&row.difference),
            _ => "nothing changes".into(),
        };
        let sign = words::sign(row.course);
        let of = row.of.to_string();
        let line = (row.course, format!("  {sign} {of:width$}  {what}; from {}", row.place));
        let warns = words::sign(Course::Wait);
        let warnings =
            row.warnings.iter().map(move |said| (Course::Wait, format!("  {warns} warning: {said}")));
        std::iter::once(line).chain(warnings).collect::<Vec<_>>()
    };
    rows.iter().flat_map(line).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        api::StrategyType,
        model::WaitReason,
        names::{Kind, NamespacedName, ObjectKey},
        plan::restart::Wait,
        states::restarts::row_of,
    };

    #[test]
    fn a_restart_says_when_how_for_what_and_by_whose_wish() {
        let at = Timestamp::from_second(1_000).unwrap();
        let cause = RestartCause {
            object: ObjectKey::new(Kind::Secret, "shop", "tls"),
            changed_at: at,
            copy_of: Some(NamespacedName::new("platform", "tls")),
            rule: None,
        };
        let restart = RestartOutlook {
            at: Some(at),
            strategy: Some(StrategyType::Evict),
            message: "Secret tls has changed".into(),
            causes: vec![cause],
            ..row_of(RestartCourse::Restart, Wait::for_event(WaitReason::QuietPeriod).into(), "web")
        };
        let now = RestartOutlook {
            reason: RestartReason::State(RestartState::Due),
            causes: Vec::new(),
            ..restart.clone()
        };
        let held = RestartOutlook {
            message: "it is paused".into(),
            ..row_of(RestartCourse::Hold, RestartState::Paused, "db")
        };
        let rows = [restart, now, held, row_of(RestartCourse::Current, RestartState::Current, "docs")];
        let text: Vec<String> = lines(&rows).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            text,
            [
                "  * Deployment shop/web   restarts at 1970-01-01T00:16:40Z by Evict (QuietPeriod); Secret tls has changed; \
                 Secret tls is a copy of platform/tls; asked by ConfigMonitor web",
                "  * Deployment shop/web   restarts now by Evict; Secret tls has changed; asked by ConfigMonitor web",
                "  . Deployment shop/db    Paused: it is paused",
                "  = Deployment shop/docs  runs the current content",
            ]
        );
        let summary = RestartSummary::of(&rows);
        assert_eq!(summary.line(), "Workloads: 2 to restart, 1 held, 1 current.\n");
        assert!(summary.has_findings());
        let calm = RestartSummary::of(&rows[3..]);
        assert_eq!(calm.line(), "No restarts: 1 workload runs the current content.\n");
        assert!(!calm.has_findings());
        assert_eq!(RestartSummary::default().line(), "");
    }
}
