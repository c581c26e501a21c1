//! The webhook as the API server meets it: recorded reviews in, answers out, in one process.

mod annotations;
mod check;
mod discretion;
mod foresight;
mod harness;
mod idempotent;
mod in_use;
mod lost_declarations;
mod metadata;
mod overload;
mod own_kinds;
mod pace;
mod parity;
mod policies;
mod protocol;
mod size;
