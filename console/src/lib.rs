//! The console: the commands' answers over HTTP and on web pages, with the caller's own rights. `copyrator
//! console` runs the console on the caller's machine, on loopback, and `copyrator serve --roles=console` in
//! the cluster.

#![warn(unreachable_pub)]

mod as_caller;
mod asked;
mod browser;
mod callers;
mod command;
mod door;
mod entry;
mod feed;
mod guard;
mod in_cluster;
mod login;
mod page;
mod paged;
mod problem;
mod refused;
mod rest;
mod routes;
mod scoped_survey;
mod sealed;
mod seat;
mod seats;
mod site;
mod stay;
mod surveying;
mod surveys;
#[cfg(test)]
mod tests;
mod token;
mod whoami;

use copyrator_cluster::{access, config, connect, read};
use copyrator_core::{api, explain, marks, model, names, plan};
use copyrator_serve as serve;

pub use command::Args;
pub use in_cluster::{ConsoleArgs, ConsoleError, serve as serve_in_cluster};
