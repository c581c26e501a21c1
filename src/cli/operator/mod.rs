//! The operator in the cluster, as far as commands must know it: how it is installed, what it was told, where
//! it looks.

mod install;
mod installed;
mod sight;

pub(crate) use install::{Install, LEASE, PART_OF, Role};
pub(crate) use installed::{Installed, InstalledArgs};
pub(crate) use sight::Sight;
