//! The webhook configurations, rendered from `webhook-config/` and compared. Pure: `operator/src/act/hooks.rs` applies
//! them.

mod drift;
mod groups;
mod in_force;
mod match_condition;
mod needs;
mod passing_by;
mod render;
mod warning_scope;

pub use drift::{is_empty, says};
pub use in_force::off;
pub use render::{AUTHOR_HOOK, Endpoint, Frame, STAMPING, Stamper, WARNINGS, render};
pub use warning_scope::WarningScope;

/// The name of both configurations.
pub const NAME: &str = "copyrator";
