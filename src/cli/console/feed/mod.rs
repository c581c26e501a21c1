//! The feed: what Copyrator reports, as it happens. These are the Events that it writes, read with the caller's rights where
//! the caller may read them.

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
