//! The results of a workload's restarts so far. The workload carries the results as labels, so every leader
//! knows them.

/// The results of a workload's restarts, read from its labels or to be written by a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackRecord {
    /// Restarts in a row, each soon after the previous one; 0: none yet.
    pub streak: u32,
    /// Restarts in a row after which the workload was not ready. The last restart is judged only when the
    /// next restart is written.
    pub failures: u32,
    /// The content with which the workload was last ready: `<key id>.<digest>`.
    pub last_good: Option<String>,
}

impl TrackRecord {
    /// The highest count; a higher count would make no difference.
    pub const MOST: u32 = 99;

    /// Reads the labels `copyrator.dev/brake` and `copyrator.dev/last-good`. A value that cannot be read is
    /// ignored, since somebody else wrote it.
    pub fn read(brake: Option<&str>, last_good: Option<String>) -> Self {
        let counts = brake.and_then(|text| {
            let (streak, failures) = text.split_once('.')?;
            Some((streak.parse::<u32>().ok()?.min(Self::MOST), failures.parse::<u32>().ok()?.min(Self::MOST)))
        });
        let (streak, failures) = counts.unwrap_or_default();
        Self { streak, failures, last_good }
    }

    /// The record after one more restart that did not become ready.
    pub fn failed(self) -> Self {
        Self { failures: (self.failures + 1).min(Self::MOST), ..self }
    }

    /// The value of the label `copyrator.dev/brake`; `None` if streak and failures are 0.
    pub fn brake(&self) -> Option<String> {
        let says_nothing = self.streak == 0 && self.failures == 0;
        (!says_nothing).then(|| format!("{}.{}", self.streak, self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_were_written() {
        for (text, streak, failures) in [
            (Some("2.1"), 2, 1),
            (Some("1.0"), 1, 0),
            (Some("700.99"), 99, 99),
            (Some("2"), 0, 0),
            (Some("-1.0"), 0, 0),
            (Some("2.x"), 0, 0),
            (None, 0, 0),
        ] {
            let read = TrackRecord::read(text, None);
            assert_eq!((read.streak, read.failures), (streak, failures), "{text:?}");
            assert_eq!(TrackRecord::read(read.brake().as_deref(), None), read);
        }
        assert_eq!(TrackRecord::default().brake(), None);
    }
}
