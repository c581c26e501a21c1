//! Copyrator.
