//! Plans for ConfigPolicies: their statuses, and the scan of existing objects.

mod policy_status;
pub mod scan;

pub use policy_status::{is_in_force, policy_status};
pub use scan::{Judges, Scan, is_unscanned};
