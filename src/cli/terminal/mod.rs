//! The output of commands on a terminal, and their exit codes.

mod columns;
mod console;
mod digests;
mod exit;
pub(crate) mod refused;
mod run;

pub(crate) use columns::{aligned, aligned_all, line};
pub(crate) use console::{Console, fail, print, say, with_distinct_causes};
pub(crate) use digests::side_by_side;
pub(crate) use exit::Exit;
pub(crate) use run::{Threads, block_on};
