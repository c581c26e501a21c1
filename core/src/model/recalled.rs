//! Which grants of annotations the index of annotated sources lists, as far as their declarations have been there
//! ever since. The proof on an object alone says nothing about that: a user may have kept it, and may write it again
//! after an administrator took it away.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::NamespacedName;

/// What the index of annotated sources says was granted about one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedGrant {
    /// UID of the object; empty in an index of an earlier version, which did not say it.
    pub uid: Box<str>,
    /// The generations of the rule and of the monitor that the annotations declare.
    pub generations: BTreeSet<i64>,
}

/// What this process knows of that.
#[derive(Clone, Debug, Default)]
pub(super) enum Recall {
    /// This process does not lead, so it decides nothing by a proof.
    #[default]
    Unneeded,
    /// It leads, and has not read the index yet.
    Pending,
    /// The grants that are listed, as far as their declarations have been there since.
    Known(BTreeMap<NamespacedName, ListedGrant>),
}
