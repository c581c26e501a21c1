//! Copyrator on a real control plane: every behaviour that DESIGN §3 promises, asserted on the state of the
//! cluster. The operator runs as the chart's ServiceAccounts, with exactly the chart's rights.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what went wrong by failing")]
#![allow(clippy::print_stdout, reason = "a failing test shows the operator's complaints")]

mod annotated;
mod authority;
mod bed;
mod brake;
mod certificates;
mod conflicts;
mod copying;
mod crashes;
mod cut_short;
mod defaults;
mod denials;
mod dormant;
mod faults;
mod formats;
mod hooks;
mod import;
mod import_restarts;
mod install;
mod load;
mod observability;
mod other_writers;
mod own_kinds;
mod plan;
mod plan_restarts;
mod pods;
mod policies;
mod protection;
mod references;
mod removal;
mod repair;
mod replacement;
mod restart_faults;
mod restart_inputs;
mod restart_pods;
mod restarts;
mod restore;
mod restored;
mod scale;
mod stages;
mod stamps;
mod strategies;
mod teardown;
mod together;
mod warnings;
