//! Checks the webhook's CA: it exists, does not expire soon, and no rotation is stuck.

use std::time::{Duration, SystemTime};

use copyrator_certs::{CaSecret, Rotation, Times};
use jiff::Timestamp;

use super::{
    facts::{Ca, Facts},
    finding::{Findings, Id},
    hooks,
};
use crate::{
    installed::{Install, Role},
    marks::CA_SECRET,
};

/// A renewal or rotation that is this late does not happen by itself any more.
const LATE: Duration = Duration::from_secs(24 * 3600);

/// Finds everything that is wrong with the CA.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    // Someone else maintains a mounted certificate.
    if install.told("tls-dir").is_some() {
        return;
    }
    let namespace = &facts.namespace;
    let object = format!("Secret {namespace}/{CA_SECRET}");
    let anew = format!("kubectl -n {namespace} delete secret {CA_SECRET}");
    match &facts.ca {
        Err(unread) => found.unknown(&[Id::CaMissing, Id::CaExpiring, Id::RotationHeld], unread),
        Ok(Ca::Absent) => {
            let what = "does not exist, so webhooks have no certificate; the leading reconciler makes a new CA within a minute";
            let restart = install.start(Role::Reconciler);
            found.error(Id::CaMissing, object, what, restart);
        }
        Ok(Ca::Torn(why)) => {
            let what = format!(
                "has no usable CA ({why}): restore the Secret, or delete it, and Copyrator makes a new CA"
            );
            found.error(Id::CaMissing, object, what, anew);
        }
        Ok(Ca::There(ca)) => {
            aged(&ca.secret, facts.now, &object, &anew, found);
            held(facts, install, ca, &object, found);
        }
    }
}

fn aged(ca: &CaSecret, now: Timestamp, object: &str, anew: &str, found: &mut Findings) {
    let (validity, now) = (ca.current.certificate().validity(), SystemTime::from(now));
    if validity.is_expired(now) {
        let what = format!(
            "its CA expired on {}, so the API server does not trust the webhook",
            day(validity.not_after())
        );
        found.error(Id::CaExpiring, object, what, anew);
    } else if validity.renewal_at() + LATE <= now {
        let what = format!(
            "its CA was due for renewal on {} and was not renewed; the CA expires on {}",
            day(validity.renewal_at()),
            day(validity.not_after())
        );
        found.warning(Id::CaExpiring, object, what, anew);
    }
}

/// A rotation continues once the Secret notes that every hook has the next CA; the previous CA is dropped
/// once every leaf that it signed has expired.
fn held(facts: &Facts, install: &Install<'_>, ca: &Rotation, object: &str, found: &mut Findings) {
    let of_leaves = Times::default().leaf_lifetime;
    let (what, since) = match (&ca.secret.next, ca.published, ca.switched) {
        (Some(_), None, _) if left_alone(facts, object, found) => return,
        (Some(next), None, _) => {
            ("is being replaced: not every hook has the next CA yet", next.validity().not_before())
        }
        (Some(_), Some(published), _) => (
            "is being replaced: every hook has the next CA, but Copyrator has not switched to it yet",
            published,
        ),
        (None, _, Some(switched)) if !ca.secret.old.is_empty() => {
            ("has replaced an older CA, which the hooks still trust", switched + of_leaves)
        }
        _ => return,
    };
    if since + LATE <= SystemTime::from(facts.now) {
        let what = format!("its CA {what}; the next step was due on {}", day(since));
        let restart = install.start(Role::Reconciler);
        found.warning(Id::RotationHeld, object, what, restart);
    }
}

/// Whether the hands-off annotation, on one or two of our webhook configurations, keeps the next CA from the
/// hooks. If so, reports the annotation.
fn left_alone(facts: &Facts, object: &str, found: &mut Findings) -> bool {
    let ours = facts.hooks.iter().flatten().filter(|one| one["metadata"]["name"] == crate::hooks::NAME);
    let kinds: Vec<&str> =
        ours.filter(|one| hooks::is_off(one)).filter_map(|one| one["kind"].as_str()).collect();
    if kinds.is_empty() {
        return false;
    }
    let what = format!(
        "the next CA cannot replace the current one: the hands-off annotation of {} {} keeps Copyrator from updating the webhook configurations",
        kinds.join(" and "),
        crate::hooks::NAME
    );
    found.warning(Id::RotationHeld, object, what, hooks::hands_on(&kinds.join(",")));
    true
}

fn day(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| time.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}
