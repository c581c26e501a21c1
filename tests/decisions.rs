//! What is decided, in one process and without a cluster: reviews answered, copies and restarts planned, manifests imported. One
//! program, since each takes seconds to link.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its world, or read its cases, has failed")]

#[path = "copy_cases/mod.rs"]
mod copy_cases;
#[path = "copy_model/mod.rs"]
mod copy_model;
#[path = "copy_properties/mod.rs"]
mod copy_properties;
#[path = "fuzz/replay.rs"]
mod fuzz_seeds;
#[path = "import_cases/mod.rs"]
mod import_cases;
#[path = "restart_cases/mod.rs"]
mod restart_cases;
#[path = "reviews/mod.rs"]
mod reviews;
