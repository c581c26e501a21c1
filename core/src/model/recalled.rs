//! The grants to annotations that the index of annotated sources lists, if the annotations have stayed on the
//! object ever since. The proof on an object alone does not show that the annotations have stayed: a user may
//! keep the proof, and write it again after an administrator removed it.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::Declarer;

/// The grants to one object's annotations in the index of annotated sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedGrant {
    /// UID of the object; empty in an index that an earlier version wrote without UIDs.
    pub uid: Box<str>,
    /// The generations of the rule and of the monitor that the annotations declare.
    pub generations: BTreeSet<i64>,
}

/// The listed grants, as far as this process knows them.
#[derive(Clone, Debug, Default)]
pub(super) enum Recall {
    /// This process does not lead, so it makes no decision by a proof.
    #[default]
    Unneeded,
    /// This process leads, and has not read the index yet.
    Pending,
    /// The listed grants whose annotations have stayed on the object ever since.
    Known(BTreeMap<Declarer, ListedGrant>),
}
