//! Compiles a monitor's window: its schedule and its time zone.

use std::time::Duration;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

use super::invalid;
use crate::api::{Problem, Window};

/// A compiled window for restarts.
#[derive(Clone, Debug)]
pub struct CompiledWindow {
    /// The times at which the window opens.
    pub schedule: Cron,
    /// The time zone that the schedule is in.
    pub zone: TimeZone,
    /// How long the window stays open.
    pub duration: Duration,
}

impl CompiledWindow {
    /// Compiles a window, and reports its problems.
    pub(super) fn compile(window: &Window, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let duration = window.duration.get().unwrap_or_else(|error| {
            problems.push(invalid("spec.window.duration", error));
            Duration::MAX
        });
        if duration.is_zero() {
            problems.push(invalid(
                "spec.window.duration",
                "with 0s the window never opens: write how long it stays open, as in 2h",
            ));
        }
        let name = window.time_zone.as_deref().unwrap_or("UTC");
        // The bundled time zones are the same everywhere, also in an image without a time zone database.
        let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| {
            let what = format!(
                "{name:?} is not a time zone: write a name from the IANA database, such as Europe/Berlin, or UTC"
            );
            problems.push(invalid("spec.window.timeZone", what));
        });
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let schedule = parser.parse(&window.schedule).map_err(|error| {
            let what = format!(
                "{:?} is not a schedule ({error}): write minute, hour, day of month, month and day of week, as in \"0 2 * * *\"",
                window.schedule
            );
            problems.push(invalid("spec.window.schedule", what));
        });
        let (zone, schedule) = (zone.ok()?, schedule.ok()?);
        if !fires(&schedule) {
            let what = format!(
                "{:?} never opens the window, because this date does not exist; write another schedule, as in \"0 2 * * *\"",
                window.schedule
            );
            problems.push(invalid("spec.window.schedule", what));
        }
        (problems.len() == before).then_some(Self { schedule, zone, duration })
    }
}

/// Whether the schedule ever fires. Schedules have no years, so the start of the search does not matter.
fn fires(schedule: &Cron) -> bool {
    schedule.find_next_occurrence(&Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC), true).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Span;

    fn problems(schedule: &str, zone: Option<&str>, duration: &str) -> Vec<String> {
        let window = Window {
            schedule: schedule.into(),
            time_zone: zone.map(str::to_owned),
            duration: Span::new(duration),
        };
        let mut problems = Vec::new();
        let compiled = CompiledWindow::compile(&window, &mut problems);
        assert_eq!(compiled.is_some(), problems.is_empty());
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn windows_are_read_as_cron_has_them() {
        for (schedule, zone) in [
            ("0 2 * * *", Some("Europe/Berlin")),
            ("0 2 * * MON-FRI", Some("America/Argentina/Buenos_Aires")),
            ("*/15 22-23 1,15 JAN *", None),
            ("0 0 29 2 *", Some("UTC")),
            ("@weekly", None),
            ("0 3 * * 6#1", None),
        ] {
            assert_eq!(problems(schedule, zone, "2h"), [""; 0], "{schedule} {zone:?}");
        }
    }

    #[test]
    fn what_is_wrong_names_the_field_and_the_fix() {
        for (schedule, zone, duration, expected) in [
            ("0 2 * *", None, "2h", "spec.window.schedule: \"0 2 * *\" is not a schedule"),
            ("0 0 2 * * *", None, "2h", "spec.window.schedule: \"0 0 2 * * *\" is not a schedule"),
            ("61 2 * * *", None, "2h", "spec.window.schedule: \"61 2 * * *\" is not a schedule"),
            ("@fortnightly", None, "2h", "spec.window.schedule: "),
            ("0 2 30 2 *", None, "2h", "spec.window.schedule: \"0 2 30 2 *\" never opens"),
            (
                "0 2 * * *",
                Some("Europe/Bonn"),
                "2h",
                "spec.window.timeZone: \"Europe/Bonn\" is not a time zone",
            ),
            ("0 2 * * *", Some("../etc/passwd"), "2h", "spec.window.timeZone: "),
            ("0 2 * * *", None, "0s", "spec.window.duration: with 0s the window never opens"),
            ("0 2 * * *", None, "2 hours", "spec.window.duration: \"2 hours\" is not a duration"),
        ] {
            let found = problems(schedule, zone, duration);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(expected), "{found:?}");
        }
    }

    /// A schedule that never fires is searched up to the year 5000, which must not take long.
    #[test]
    fn hostile_schedules_end() {
        for schedule in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 29 2 +1#5", "0 0 30W 2 *", "* * 31 6 *"] {
            let _ = problems(schedule, None, "1h");
        }
    }
}
