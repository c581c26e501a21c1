//! `make demo`: shows what Copyrator does, on a cluster of its own, with the commands that people use.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line tool")]

mod acts;
mod arrivals;
mod stage;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use devcluster::Options;
use testbed::Playground;

use stage::{Failure, Stage};

/// Shows what Copyrator does, on a real Kubernetes control plane on this machine. Needs neither containers nor root.
#[derive(Parser)]
struct Arguments {
    /// Leave all of it running until Ctrl-C, and say how to use it.
    #[arg(long)]
    keep: bool,
    /// The operator's program. Default: beside this one.
    #[arg(long, value_name = "FILE")]
    copyrator: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\ndemo: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let copyrator = match &arguments.copyrator {
        Some(file) => file.clone(),
        None => env::current_exe()?.with_file_name("copyrator"),
    };
    if !copyrator.is_file() {
        return Err(Failure::new(format!(
            "{} is missing: run `make demo`, or `cargo build` first",
            copyrator.display()
        )));
    }
    println!("Copyrator's demo. All of it runs on this machine and ends with it.");
    let playground = set_up(&copyrator)?;
    let stage = Stage::new(&playground, &copyrator);
    let shown = acts::all(&stage);
    if arguments.keep {
        stay(&playground, &copyrator);
    } else if shown.is_ok() {
        println!(
            "\nThat was all; everything is stopped. `make demo ARGS=--keep` leaves it running to play with."
        );
    }
    shown
}

/// The cluster, without Copyrator.
fn set_up(copyrator: &Path) -> Result<Playground, Failure> {
    stage::heading("A cluster");
    stage::say(
        "starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and two simulated nodes",
    );
    let playground = Playground::start(Options::default(), copyrator, None)?;
    stage::say(
        "The nodes run no containers, so this demo plays kubelet and network for the pods of the chart: each is",
    );
    stage::say(
        "a process here, of the program just built in place of the image, with the pod's own arguments,",
    );
    stage::say(
        "environment and account, and it is ready when the pod's probe says so. Other than in a pod are the",
    );
    stage::say("addresses (127.0.0.1, with free ports) and the token (in a kubeconfig, by KUBECONFIG).");
    Ok(playground)
}

/// Leaves everything running, says how to use it, and stays: with this process the pods' kubelet would go.
fn stay(playground: &Playground, copyrator: &Path) -> ! {
    stage::heading("It runs on, until you press Ctrl-C");
    println!("  export KUBECONFIG={}", playground.cluster().admin_kubeconfig().display());
    println!("  alias kubectl={}", playground.cluster().kubectl().get_program().to_string_lossy());
    println!("  alias copyrator={}", copyrator.display());
    println!("  what the pods say: {}", playground.logs().display());
    loop {
        thread::park();
    }
}
