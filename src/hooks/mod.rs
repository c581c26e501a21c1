//! The webhook configurations: rendered from `webhook-config/`, applied elsewhere. Pure.

mod fail;
mod needs;
mod render;

pub use render::{Endpoint, render};
