//! The feed: the Events that Copyrator writes, as they happen, read with the caller's rights.

mod happening;
mod latest;
mod resume;
mod stream;
#[cfg(test)]
mod tests;

pub(super) use self::{
    happening::{Happening, Thing},
    latest::{Latest, latest},
    stream::open,
};
