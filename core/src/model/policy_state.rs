//! The state of policies: whether the API server calls the webhook for their writes, and how many existing
//! objects violate them.

use std::collections::BTreeSet;

use crate::api::{ExistingViolation, WORST_PROBLEMS};

/// The existing objects that violate a policy, as found by the last scan of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// The policy's UID at the scan.
    pub uid: Box<str>,
    /// The policy's generation at the scan.
    pub generation: i64,
    /// The number of all violations.
    pub count: i64,
    /// The first violations, in order; as many as a status lists.
    pub first: BTreeSet<ExistingViolation>,
}

impl ScanResult {
    /// Counts a violation, and keeps the violation if it is among the first.
    pub fn add(&mut self, violation: ExistingViolation) {
        self.count = self.count.saturating_add(1);
        self.first.insert(violation);
        if self.first.len() > WORST_PROBLEMS {
            self.first.pop_last();
        }
    }
}

/// Whether the API server calls the webhook for the writes that a policy covers, according to the webhook
/// configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCoverage {
    /// The policy's UID at the time of the scan.
    pub uid: Box<str>,
    /// The policy's generation at the time of the scan.
    pub generation: i64,
    /// Why the API server does not call the webhook for all of these writes; `None` if the API server does.
    pub off: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PolicyKind;

    #[test]
    fn all_are_counted_and_the_first_are_kept() {
        let mut standing = ScanResult::default();
        for number in (0..50).rev() {
            standing.add(ExistingViolation {
                kind: PolicyKind::ConfigMap,
                namespace: "shop".into(),
                name: format!("app-{number:02}"),
                rule: "url".into(),
                key: None,
                message: String::new(),
            });
        }
        let names: Vec<&str> = standing.first.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((standing.count, names.len(), names[0], names[19]), (50, 20, "app-00", "app-19"));
    }
}
