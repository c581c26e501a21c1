//! `copyrator-certs`: inspects, issues and rotates certificates in files.

mod cli;

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Parser, Subcommand};

/// Inspect, issue and rotate the certificates of an admission webhook, in files.
#[derive(Parser)]
#[command(version, after_help = "Exit codes: 0 done, 1 findings, 2 wrong usage or unusable input.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(cli::inspect::Inspect),
    Issue(cli::issue::Issue),
    Rotate(cli::rotate::Rotate),
}

fn main() -> ExitCode {
    let now = SystemTime::now();
    let done = match Arguments::parse().command {
        Command::Inspect(inspect) => inspect.run(now),
        Command::Issue(issue) => issue.run(now),
        Command::Rotate(rotate) => rotate.run(now),
    };
    match done {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            // If stderr is closed, there is no other place to report the error.
            let _ = writeln!(std::io::stderr(), "copyrator-certs: {error}");
            ExitCode::from(2)
        }
    }
}
