//! `make demo`: shows what Copyrator does, on a cluster of its own, with the commands that people use.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line tool")]

mod acts;
mod arrivals;
mod stage;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use devcluster::{DevCluster, Options};
use testbed::{Operator, Role, Testbed};

use stage::{Failure, Stage};

/// Shows what Copyrator does, on a real Kubernetes control plane on this machine. Needs neither containers nor root.
#[derive(Parser)]
struct Arguments {
    /// Leave the cluster and the operator running, and say how to use and how to end them.
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
    let (testbed, crew) = set_up(&copyrator)?;
    let stage = Stage::new(&testbed, &copyrator);
    let shown = acts::all(&stage);
    if arguments.keep {
        explain(testbed, crew);
    } else if shown.is_ok() {
        println!(
            "\nThat was all; everything is stopped. `make demo ARGS=--keep` leaves it running to play with."
        );
    }
    shown
}

/// The cluster with Copyrator installed, and its processes.
fn set_up(copyrator: &std::path::Path) -> Result<(Testbed, [Operator; 2]), Failure> {
    let say = |what: &str| println!("  {what}");
    stage::heading("A cluster with Copyrator");
    say("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and two simulated nodes");
    let cluster = DevCluster::start(Options::default())?;
    let logs = cluster.dir().join("logs");
    say("helm install copyrator charts/copyrator");
    let testbed = Testbed::on(cluster, copyrator, &logs)?;
    say("starting the operator: a webhook and a reconciler, each as its own ServiceAccount of the chart");
    let mut crew = [testbed.operator(Role::Webhook, 0, &[])?, testbed.operator(Role::Reconciler, 0, &[])?];
    for process in &mut crew {
        process.wait_ready()?;
    }
    testbed.wait_hooked()?;
    Ok((testbed, crew))
}

/// Lets everything run on, and says how to use and how to end it.
fn explain(testbed: Testbed, crew: [Operator; 2]) {
    stage::heading("It runs on");
    println!("  export KUBECONFIG={}", testbed.cluster().admin_kubeconfig().display());
    println!("  alias kubectl={}", testbed.cluster().kubectl().get_program().to_string_lossy());
    println!("  the operator's logs: {}", testbed.logs().display());
    crew.into_iter().for_each(Operator::keep);
    println!("  to end it: cargo run -p devcluster -- stop {}", testbed.into_cluster().keep().display());
}
