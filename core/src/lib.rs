//! The decisions of Copyrator and its custom resources, without I/O: no socket, no client of the API server,
//! no task, no clock and no environment. The operator (`operator/`) observes the cluster and carries out the
//! decisions; the webhook, the reconciler and the commands decide by the same functions.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do.

#![warn(unreachable_pub)]

pub mod admit;
pub mod api;
pub mod authority;
pub mod crds;
pub mod decoded;
pub mod digest;
pub mod explain;
pub mod hooks;
pub mod intake;
pub mod marks;
pub mod model;
pub mod names;
pub mod paths;
pub mod plan;
pub mod validate;
