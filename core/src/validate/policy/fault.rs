//! What is wrong with a value.

use std::borrow::Cow;

use super::Place;

/// What is wrong with a value, where, and what to write instead. Holds no part of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: Cow<'static, str>,
    pub(super) fix: Cow<'static, str>,
    pub(super) place: Option<Place>,
}

impl Fault {
    pub(super) fn new(what: impl Into<Cow<'static, str>>, fix: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), fix: fix.into(), place: None }
    }

    /// The same, found at a byte of the value.
    pub(super) fn at(self, value: &[u8], offset: usize) -> Self {
        Self { place: Some(Place::of_byte(value, offset)), ..self }
    }
}
