//! How policies stand: whether anybody asks us about writes, and what is there already.

use std::collections::BTreeSet;

use crate::api::{StandingViolation, WORST_PROBLEMS};

/// By how much the objects that are there already break a policy, as the last look at all of them found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The policy's UID.
    pub uid: Box<str>,
    /// The generation of it that they were judged by.
    pub generation: i64,
    /// How many violations there are.
    pub count: i64,
    /// The first of them, in order.
    pub first: BTreeSet<StandingViolation>,
}

impl Standing {
    /// Counts one more.
    pub fn add(&mut self, violation: StandingViolation) {
        self.count = self.count.saturating_add(1);
        self.first.insert(violation);
        if self.first.len() > WORST_PROBLEMS {
            self.first.pop_last();
        }
    }
}

/// Whether the API server asks us about the writes that a policy speaks of, as we last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooked {
    /// The policy's UID.
    pub uid: Box<str>,
    /// The generation of it that was looked at.
    pub generation: i64,
    /// Why it does not, if it does not.
    pub off: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PolicyKind;

    #[test]
    fn all_are_counted_and_the_first_are_kept() {
        let mut standing = Standing::default();
        for number in (0..50).rev() {
            standing.add(StandingViolation {
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
