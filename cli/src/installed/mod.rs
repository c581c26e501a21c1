//! The operator in the cluster, as far as commands need to know it: its install, its settings, the namespaces
//! that it reads.

mod install;
mod plan_settings;
mod read_scope;
mod serve_settings;

pub(crate) use install::{Install, LEASE, PART_OF, Role};
pub use plan_settings::{Installed, InstalledArgs, Kinds};
pub use read_scope::{ReadScope, settings};
