//! The webhook configurations: rendered from `webhook-config/`, applied elsewhere. Pure.

mod needs;
mod render;

pub use needs::Needs;
pub use render::{Endpoint, render};
