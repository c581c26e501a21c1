//! Renders templates from the world, with the objects that their expressions read.

pub mod all;
pub mod existing;
pub mod inputs;
