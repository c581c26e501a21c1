//! The validity period of a certificate, and the time of its renewal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::certificate::X509Certificate;

/// How far `notBefore` lies before the moment of issue, so that a client whose clock is slow still
/// accepts a certificate issued just now. cert-controller backdates by the same hour.
pub const BACKDATE: Duration = Duration::from_secs(3600);

/// A certificate's validity period, in whole seconds, both ends included (RFC 5280 §4.1.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    #[serde(serialize_with = "as_rfc3339")]
    not_before: SystemTime,
    #[serde(serialize_with = "as_rfc3339")]
    not_after: SystemTime,
}

impl Validity {
    /// Returns the period of a certificate issued at `now`, usable for `lifetime` and backdated by
    /// [`BACKDATE`]. `None` if a certificate cannot express the period: before 1970 or after the year 9999.
    pub fn starting(now: SystemTime, lifetime: Duration) -> Option<Self> {
        let period = Self { not_before: now.checked_sub(BACKDATE)?, not_after: now.checked_add(lifetime)? };
        (period.not_before >= UNIX_EPOCH && to_date(period.not_after).is_some()).then_some(period)
    }

    /// First second of the period.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// Last second of the period.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Whether a verifier whose clock shows `now` accepts the certificate.
    pub fn contains(&self, now: SystemTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Whether the period is over at `now`.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.not_after < now
    }

    /// Returns the moment from which the certificate should be replaced: two thirds of its lifetime after the
    /// issue, as cert-manager does. The backdating is not part of the lifetime; otherwise a certificate of
    /// less than half an hour would be due before it was issued.
    pub fn renewal_at(&self) -> SystemTime {
        let issued = self
            .not_before
            .checked_add(BACKDATE)
            .filter(|issued| *issued < self.not_after)
            .unwrap_or(self.not_before);
        issued + self.not_after.duration_since(issued).unwrap_or_default() * 2 / 3
    }

    /// How long the certificate was made to last, without the backdating.
    pub fn lifetime(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default().saturating_sub(BACKDATE)
    }

    /// Returns the overlap of this period with `outer`.
    pub(crate) fn within(self, outer: Self) -> Self {
        Self {
            not_before: self.not_before.max(outer.not_before),
            not_after: self.not_after.min(outer.not_after),
        }
    }

    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let period = certificate.validity();
        Self {
            not_before: from_seconds(period.not_before.timestamp()),
            not_after: from_seconds(period.not_after.timestamp()),
        }
    }

    /// Returns both ends as the dates rcgen wants; `None` outside 1970–9999.
    pub(crate) fn as_dates(&self) -> Option<(OffsetDateTime, OffsetDateTime)> {
        Some((to_date(self.not_before)?, to_date(self.not_after)?))
    }
}

/// Formats `at` as RFC 3339 in UTC, to the second; `?` where the date has no such form.
pub fn rfc3339(at: SystemTime) -> String {
    to_date(at).and_then(|date| date.format(&Rfc3339).ok()).unwrap_or_else(|| "?".to_owned())
}

fn as_rfc3339<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

fn to_date(at: SystemTime) -> Option<OffsetDateTime> {
    let seconds = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).ok()?,
        Err(before) => i64::try_from(before.duration().as_secs()).ok()?.checked_neg()?,
    };
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

fn from_seconds(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    at.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(n: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(20_000 * 86_400 + n * 86_400)
    }

    #[test]
    fn renewal_is_due_at_two_thirds() {
        let period = Validity::starting(day(0), Duration::from_secs(3 * 86_400)).unwrap();
        assert_eq!(period.renewal_at(), day(2));
        assert_eq!(period.lifetime(), Duration::from_secs(3 * 86_400));
    }

    #[test]
    fn a_short_certificate_is_not_due_before_it_is_issued() {
        let period = Validity::starting(day(0), Duration::from_secs(60)).unwrap();
        assert!(period.renewal_at() > day(0));
    }

    #[test]
    fn dates_no_certificate_can_express_are_refused() {
        assert_eq!(Validity::starting(day(0), Duration::from_secs(u64::MAX)), None);
        assert_eq!(Validity::starting(UNIX_EPOCH, Duration::from_secs(60)), None);
    }

    #[test]
    fn dates_read_as_rfc3339() {
        assert_eq!(rfc3339(day(0)), "2024-10-04T00:00:00Z");
    }
}
