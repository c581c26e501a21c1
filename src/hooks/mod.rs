//! The webhook configurations: rendered from `webhook-config/`, compared, and applied elsewhere. Pure.

mod drift;
mod fail;
mod needs;
mod render;

pub use drift::says;
pub use render::{AUTHOR_HOOK, Endpoint, STAMPING, Stamper, render};
