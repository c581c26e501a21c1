//! Events about a rule or monitor that annotations declare: it has no status that people could read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{copy::LargeSpread, reason::Reason};
use crate::api::{ConfigMonitorStatus, CopyratorRuleStatus, Problem};

/// An Event about a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusEvent<'s> {
    /// Whether the Event is a `Warning`.
    pub is_warning: bool,
    /// The reason in one word: a reason of `Ready`, of `Authorized` or of a problem.
    pub reason: &'s str,
    /// The message of the condition, or the size of a large spread.
    pub message: String,
}

/// The parts of a status that Events are about.
#[derive(Clone, Copy, Debug)]
pub struct StatusParts<'s> {
    conditions: &'s [Condition],
    problems: &'s [Problem],
}

impl<'s> From<&'s CopyratorRuleStatus> for StatusParts<'s> {
    fn from(status: &'s CopyratorRuleStatus) -> Self {
        Self { conditions: &status.conditions, problems: &status.problems }
    }
}

impl<'s> From<&'s ConfigMonitorStatus> for StatusParts<'s> {
    fn from(status: &'s ConfigMonitorStatus) -> Self {
        Self { conditions: &status.conditions, problems: &status.problems }
    }
}

/// Returns an Event for each fault that is new in `after`, or has changed since `before`, and one Event if a
/// fault in `before` is gone and everything is in order. Without an earlier status, as after a start of the
/// reconciler, no Event says that everything is in order. `ready` is the reason of `Ready` in `after`;
/// `large` is a source that is large for so many targets, if that is news.
pub fn status_events<'s>(
    before: StatusParts<'_>,
    after: StatusParts<'s>,
    ready: Reason,
    large: Option<&LargeSpread>,
) -> Vec<StatusEvent<'s>> {
    let was = wrong(before);
    let is = wrong(after);
    // `Degraded` counts problems in its message: only a change of the first problem makes an Event.
    let first = |said: StatusParts<'_>| said.problems.first().map(|one| one.message.clone());
    let (first_was, first_is) = (first(before), first(after));
    let same = |one: &Condition, other: &Condition| {
        let says_same = match one.type_.as_str() {
            "Degraded" => first_was == first_is,
            _ => one.message == other.message,
        };
        one.type_ == other.type_ && one.reason == other.reason && says_same
    };
    let fresh = is.iter().filter(|now| !was.iter().any(|then| same(then, now)));
    let mut all: Vec<StatusEvent<'s>> = fresh
        .map(|one| StatusEvent { is_warning: true, reason: &one.reason, message: one.message.clone() })
        .collect();
    all.extend(large.map(|large| StatusEvent {
        is_warning: true,
        reason: "LargeSpread",
        message: large.to_string(),
    }));
    let is_mended = is.is_empty() && !was.is_empty();
    if let (true, Reason::AllCopied | Reason::Watching) = (is_mended, ready) {
        let message = condition(after, "Ready").map(|said| said.message.clone()).unwrap_or_default();
        all.push(StatusEvent { is_warning: false, reason: ready.as_str(), message });
    }
    all
}

/// The conditions that report a fault.
fn wrong(said: StatusParts<'_>) -> Vec<&Condition> {
    let stalled = condition(said, "Stalled");
    // A missing right sets Stalled and Degraded with the same reason; report it once.
    let is_told = |one: &&Condition| stalled.is_some_and(|stalled| stalled.reason == one.reason);
    let degraded = condition(said, "Degraded").filter(|one| !is_told(one));
    stalled.into_iter().chain(degraded).filter(|one| one.status == "True").collect()
}

fn condition<'s>(said: StatusParts<'s>, type_: &str) -> Option<&'s Condition> {
    said.conditions.iter().find(|one| one.type_ == type_)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::{api::set_condition, model::RefusalReason};

    fn status(conditions: &[(&str, bool, &str)]) -> CopyratorRuleStatus {
        let mut status = CopyratorRuleStatus::default();
        for (type_, is, reason) in conditions {
            let wanted = Some((*is, *reason, format!("it is {reason}")));
            set_condition(&mut status.conditions, type_, wanted, 1, &Time(Timestamp::UNIX_EPOCH));
        }
        status
    }

    #[test]
    fn only_what_has_changed_is_told() {
        let unknown = CopyratorRuleStatus::default();
        let well = status(&[("Ready", true, "AllCopied")]);
        let refused = status(&[("Ready", false, "Forbidden"), ("Stalled", true, "Forbidden")]);
        let conflict = status(&[("Ready", true, "Incomplete"), ("Degraded", true, "Conflict")]);
        let told =
            |before: &CopyratorRuleStatus, (after, ready): (&CopyratorRuleStatus, Reason)| -> Vec<String> {
                let line =
                    |one: StatusEvent<'_>| format!("{}{}", if one.is_warning { "!" } else { "" }, one.reason);
                status_events(before.into(), after.into(), ready, None).into_iter().map(line).collect()
            };
        let forbidden = Reason::Refused(RefusalReason::Forbidden);
        assert!(told(&unknown, (&well, Reason::AllCopied)).is_empty(), "after a start there is no Event");
        assert_eq!(told(&unknown, (&refused, forbidden)), ["!Forbidden"]);
        assert!(told(&refused, (&refused, forbidden)).is_empty());
        assert_eq!(told(&refused, (&conflict, Reason::Incomplete)), ["!Conflict"]);
        assert_eq!(told(&conflict, (&well, Reason::AllCopied)), ["AllCopied"]);
        let copying = status(&[("Ready", true, "Copying")]);
        assert!(told(&conflict, (&copying, Reason::Copying)).is_empty());
    }
}
