//! The output of commands on a terminal, and their exit codes.

mod columns;
mod console;
mod digests;
mod exit;
pub(crate) mod refused;
mod run;

pub(crate) use columns::{aligned, aligned_all, line};
pub use console::{Console, fail, print, say, with_distinct_causes};
pub use digests::side_by_side;
pub use exit::Exit;
pub use run::{Threads, block_on};
