//! The webhook configurations: rendered from `webhook-config/`, compared, and applied elsewhere. Pure.

mod drift;
mod groups;
mod in_force;
mod needs;
mod render;
mod spoken;
mod warned;

pub use drift::{is_empty, says};
pub use in_force::off;
pub use render::{AUTHOR_HOOK, Endpoint, Frame, STAMPING, Stamper, WARNINGS, render};
pub use warned::Warned;

/// The name of both configurations.
pub const NAME: &str = "copyrator";
