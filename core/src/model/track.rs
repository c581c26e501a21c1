//! How a workload's restarts have gone so far. It is kept on the workload, so that no restart of ours forgets
//! it.

/// How a workload's restarts have gone: as its labels say, or as a plan wants them to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackRecord {
    /// Restarts in a row, each soon after the one before; 0: none yet.
    pub streak: u32,
    /// Restarts in a row that did not become ready; the last one is not judged before the next is written.
    pub failures: u32,
    /// The content that it last was ready with: `<key id>.<digest>`.
    pub last_good: Option<String>,
}

impl TrackRecord {
    /// Counts stop here: beyond, nothing differs any more.
    pub const MOST: u32 = 99;

    /// From the values of the labels `copyrator.dev/brake` and `copyrator.dev/last-good`. What cannot be read
    /// counts as nothing: somebody else has written it.
    pub fn read(brake: Option<&str>, last_good: Option<String>) -> Self {
        let counts = brake.and_then(|text| {
            let (streak, failures) = text.split_once('.')?;
            Some((streak.parse::<u32>().ok()?.min(Self::MOST), failures.parse::<u32>().ok()?.min(Self::MOST)))
        });
        let (streak, failures) = counts.unwrap_or_default();
        Self { streak, failures, last_good }
    }

    /// The same, with a last restart that did not become ready.
    pub fn failed(self) -> Self {
        Self { failures: (self.failures + 1).min(Self::MOST), ..self }
    }

    /// The value of the label `copyrator.dev/brake`, where there is something to say.
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
