//! The exit codes of commands.

use std::process::ExitCode;

/// The result of a command, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit code 0: done, without findings.
    Done,
    /// Exit code 1: the result has findings, or something failed.
    Findings,
    /// Exit code 2: the arguments are wrong.
    Usage,
    /// Exit code 3: the cluster could not be reached.
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Findings => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
        })
    }
}
