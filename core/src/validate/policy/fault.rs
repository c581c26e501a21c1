//! A fault of a single value.

use std::borrow::Cow;

use super::Position;

/// A fault of a value: the error, its position, and the fix. A fault never quotes the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: Cow<'static, str>,
    pub(super) fix: Cow<'static, str>,
    pub(super) place: Option<Position>,
}

impl Fault {
    pub(super) fn new(what: impl Into<Cow<'static, str>>, fix: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), fix: fix.into(), place: None }
    }

    /// Sets the position of the fault to this byte of the value.
    pub(super) fn at(self, value: &[u8], offset: usize) -> Self {
        Self { place: Some(Position::of_byte(value, offset)), ..self }
    }
}
