//! The webhook configurations: rendered from `webhook-config/`, compared, and applied elsewhere. Pure.

mod drift;
mod fail;
mod in_force;
mod needs;
mod render;

pub use drift::{is_empty, says};
pub use in_force::off;
pub use render::{AUTHOR_HOOK, Endpoint, STAMPING, Stamper, render};

/// The name of both configurations.
pub const NAME: &str = "copyrator";
