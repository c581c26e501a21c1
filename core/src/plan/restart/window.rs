//! Whether a monitor's window is open, or when it opens.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{brake::Wait, nudge::is_nudged};
use crate::{
    model::{WaitReason, World},
    names::Declarer,
    validate::CompiledWindow,
};

/// Whether the windows of all these monitors are open for a workload whose content changed at `since`.
///
/// # Errors
/// The wait for the window that opens last.
pub(super) fn opens(
    world: &World,
    monitors: &BTreeSet<Declarer>,
    since: Timestamp,
    last_restart: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Wait> {
    let closed = shut(world, monitors, since, last_restart, now);
    closed.into_iter().map(|(_, wait)| wait).max_by_key(|wait| wait.until).map_or(Ok(()), Err)
}

/// The monitors whose window is closed for a workload whose content changed at `since`, each with its wait.
pub(super) fn shut<'m>(
    world: &World,
    monitors: &'m BTreeSet<Declarer>,
    since: Timestamp,
    last_restart: Option<Timestamp>,
    now: Timestamp,
) -> Vec<(&'m Declarer, Wait)> {
    let window = |name: &Declarer| world.monitors().get(name)?.compiled.as_ref().ok()?.window.as_ref();
    let closed = monitors.iter().filter_map(|name| {
        let wait = is_open(window(name)?, now).err()?;
        (!is_nudged(world, name, since, last_restart)).then_some((name, wait))
    });
    closed.collect()
}

/// A window is open if it began at most its duration ago. So one search suffices, forwards from one duration
/// ago: the first opening that it finds is either in the past, and the window is open, or is the next
/// opening.
fn is_open(window: &CompiledWindow, now: Timestamp) -> Result<(), Wait> {
    let duration = SignedDuration::try_from(window.duration).unwrap_or(SignedDuration::MAX);
    let from = now.checked_sub(duration).unwrap_or(Timestamp::UNIX_EPOCH);
    let opening = window.schedule.find_next_occurrence(&from.to_zoned(window.zone.clone()), false);
    match opening.map(|opening| opening.timestamp()) {
        Ok(opening) if opening <= now => Ok(()),
        Ok(opening) => Err(Wait::until(WaitReason::Window, opening)),
        Err(_) => Err(Wait::for_event(WaitReason::Window)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::ConfigMonitorSpec, validate::CompiledMonitor};

    fn window(schedule: &str, zone: &str, duration: &str) -> CompiledWindow {
        let spec: ConfigMonitorSpec = serde_json::from_value(serde_json::json!({
            "watch": [{"kind": "ConfigMap", "names": ["a"]}],
            "window": {"schedule": schedule, "timeZone": zone, "duration": duration},
        }))
        .unwrap();
        CompiledMonitor::compile(&spec).unwrap().window.unwrap()
    }

    #[test]
    fn a_window_is_open_from_its_time_on_and_names_the_next() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (schedule, zone, duration, now, opens) in [
            ("0 2 * * *", "UTC", "2h", "2026-01-10T02:00:00Z", None),
            ("0 2 * * *", "UTC", "2h", "2026-01-10T03:59:59Z", None),
            ("0 2 * * *", "UTC", "2h", "2026-01-10T04:00:00Z", Some("2026-01-11T02:00:00Z")),
            ("0 2 * * *", "UTC", "2h", "2026-01-10T01:59:59Z", Some("2026-01-10T02:00:00Z")),
            // The cases are winter time, summer time, and the nights of the change.
            ("0 2 * * *", "Europe/Berlin", "1h", "2026-01-10T01:30:00Z", None),
            ("0 2 * * *", "Europe/Berlin", "1h", "2026-07-10T01:30:00Z", Some("2026-07-11T00:00:00Z")),
            ("0 2 * * *", "Europe/Berlin", "1h", "2026-03-28T22:00:00Z", Some("2026-03-29T01:00:00Z")),
            ("30 2 * * *", "Europe/Berlin", "1h", "2026-03-29T01:10:00Z", None),
            ("0 2 * * *", "Europe/Berlin", "1h", "2026-10-24T20:00:00Z", Some("2026-10-25T00:00:00Z")),
            // In the night with two o'clock twice, the window lasts two hours.
            ("0 2 * * *", "Europe/Berlin", "2h", "2026-10-25T01:30:00Z", None),
            ("0 2 * * *", "Europe/Berlin", "30m", "2026-10-25T01:10:00Z", Some("2026-10-26T01:00:00Z")),
            // The window crosses midnight, and is longer than the time between two openings.
            ("0 23 * * FRI", "UTC", "3h", "2026-01-10T01:00:00Z", None),
            ("0 * * * *", "UTC", "90m", "2026-01-10T12:59:59Z", None),
            ("0 0 29 2 *", "UTC", "1h", "2026-01-10T00:00:00Z", Some("2028-02-29T00:00:00Z")),
        ] {
            let found = is_open(&window(schedule, zone, duration), at(now)).err();
            let expected = opens.map(|opens| Wait::until(WaitReason::Window, at(opens)));
            assert_eq!(found, expected, "{schedule} {zone} at {now}");
        }
    }
}
