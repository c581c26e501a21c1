//! The metadata of a workload that concerns its restarts. The world has every workload, and most workloads
//! have none of this metadata.

use std::ops::{Deref, DerefMut};

use jiff::Timestamp;

use super::TrackRecord;

/// The labels, annotations and managedFields entries of a workload that concern its restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartFields {
    /// The value of the workload's annotation `copyrator.dev/restart`.
    pub restart: Option<String>,
    /// The problem with the workload's annotations that have our prefix and no effect.
    pub unknown: Option<String>,
    /// The value of the workload's label `copyrator.dev/applied`.
    pub applied: Option<String>,
    /// The value of the pod template's annotation `copyrator.dev/restarted-for`.
    pub restarted_for: Option<String>,
    /// When we last restarted the workload: the time of our own managedFields entry for restarts.
    pub last_restart: Option<Timestamp>,
    /// When we wrote the current applied label, with or without a restart (1 s resolution); `None` if
    /// somebody else wrote it.
    pub recorded: Option<Timestamp>,
    /// Whether we wrote that label when no pod had to be replaced: [`crate::marks::ADOPT_MANAGER`] owns it.
    /// The API server sets no time on an entry if the label already had the value.
    pub verified: bool,
    /// The results of the workload's restarts, according to its labels.
    pub track: TrackRecord,
    /// The foreign manager that last wrote the pod template, or the applied label if the label is not ours.
    /// `None` without an applied label.
    pub other_writer: Option<OtherWriter>,
}

/// A field manager that is not ours, from managedFields, which do not name a manager that only removed
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWriter {
    /// The name of the field manager.
    pub manager: String,
    /// When the manager last wrote (1 s resolution).
    pub at: Timestamp,
}

/// The fields of a workload without any of these labels and annotations.
static NONE: RestartFields = RestartFields {
    restart: None,
    unknown: None,
    applied: None,
    restarted_for: None,
    last_restart: None,
    recorded: None,
    verified: false,
    track: TrackRecord { streak: 0, failures: 0, last_good: None },
    other_writer: None,
};

/// [`RestartFields`] that use only a pointer's memory for a workload without any of the fields.
#[derive(Clone, Debug, Default)]
pub struct RareRestartFields(Option<Box<RestartFields>>);

impl From<RestartFields> for RareRestartFields {
    fn from(fields: RestartFields) -> Self {
        Self((fields != NONE).then(|| Box::new(fields)))
    }
}

impl Deref for RareRestartFields {
    type Target = RestartFields;

    fn deref(&self) -> &RestartFields {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for RareRestartFields {
    fn deref_mut(&mut self) -> &mut RestartFields {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for RareRestartFields {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for RareRestartFields {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_says_nothing_takes_no_room_and_equals_one_that_says_nothing_any_more() {
        let none = RareRestartFields::from(RestartFields::default());
        assert!(none.0.is_none());
        assert_eq!(*none, RestartFields::default());
        let mut some = none.clone();
        some.applied = Some("k.d".into());
        assert_ne!(some, none);
        some.applied = None;
        assert_eq!(some, none);
    }
}
