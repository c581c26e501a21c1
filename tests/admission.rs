//! The webhook as the API server meets it: recorded reviews in, answers out, in one process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

#[path = "reviews/annotations.rs"]
mod annotations;
#[path = "reviews/check.rs"]
mod check;
#[path = "reviews/discretion.rs"]
mod discretion;
#[path = "reviews/foresight.rs"]
mod foresight;
#[path = "reviews/harness.rs"]
mod harness;
#[path = "reviews/idempotent.rs"]
mod idempotent;
#[path = "reviews/in_use.rs"]
mod in_use;
#[path = "reviews/metadata.rs"]
mod metadata;
#[path = "reviews/overload.rs"]
mod overload;
#[path = "reviews/own_kinds.rs"]
mod own_kinds;
#[path = "reviews/pace.rs"]
mod pace;
#[path = "reviews/parity.rs"]
mod parity;
#[path = "reviews/policies.rs"]
mod policies;
#[path = "reviews/protocol.rs"]
mod protocol;
