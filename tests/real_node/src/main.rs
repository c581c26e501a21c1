//! The chart on a real node: a kubelet, containerd, real pods from the real image, the webhook behind its Service.
//!
//! How it reads, in the order things happen:
//!
//! 1. `requirements` says what this machine lacks. Then the test is skipped, and says so: it never counts as passed.
//! 2. `images` builds the images, without a daemon and without a registry.
//! 3. `boundary` starts this program again in network, process and mount namespaces of its own, where nothing can touch
//!    what the machine has; when it ends, by itself or not, so does everything in there. `remains` goes after it.
//! 4. `node` starts a control plane and the node.
//! 5. `story` does what users do, and holds each answer against what they were promised; `scene` runs the
//!    commands that people use, `transcript` shows and keeps them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line tool")]

mod boundary;
mod failure;
mod http;
mod images;
mod node;
mod options;
mod remains;
mod requirements;
mod scene;
mod story;
mod transcript;

use std::env;
use std::process::ExitCode;

use boundary::Inside;
use failure::Failure;
use options::{Options, Task};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some(inside) = Inside::from(&arguments) {
        return told(inside.and_then(|inside| inside.run(story::tell)));
    }
    match Options::parse(&arguments) {
        Ok(Task::Nothing) => ExitCode::SUCCESS,
        Ok(Task::List) => {
            println!("real_node: test");
            ExitCode::SUCCESS
        }
        Ok(Task::Test(options)) => outside(&options),
        Err(usage) => {
            eprintln!("real_node: {usage}");
            ExitCode::from(2)
        }
    }
}

fn outside(options: &Options) -> ExitCode {
    let missing = requirements::missing();
    if !missing.is_empty() {
        let reason = format!("needs {}", missing.join("; "));
        println!("SKIPPED real_node: {reason}");
        return match options.note_skipped(&reason) {
            // A user who asks for this test alone wants to know that there was none.
            Ok(()) if !options.is_required => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(failure) => told(Err(failure)),
        };
    }
    told(prepare(options).and_then(|()| boundary::run_inside(options)))
}

/// What takes the network, or minutes: programs and images.
fn prepare(options: &Options) -> Result<(), Failure> {
    devcluster::build_everything()?;
    devcluster::kubelet()?;
    if options.is_built { images::check() } else { images::build() }
}

fn told(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nreal_node FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}
