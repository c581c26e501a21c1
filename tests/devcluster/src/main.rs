//! `devcluster`: a Kubernetes to try things on, without a container engine.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line tool")]

use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use clap::{Parser, Subcommand};
use devcluster::{DevCluster, Error, Options};

/// A real Kubernetes control plane on loopback with simulated nodes. Needs neither containers nor root;
/// needs Go once, to build Kubernetes.
#[derive(Parser)]
#[command(after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

const EXAMPLES: &str = "\
Examples:
  devcluster up                        a cluster with two nodes, until Ctrl-C
  devcluster up --nodes 50 --audit     a bigger one that logs each request
  devcluster up --keep                 one that runs on until `devcluster stop DIR`
  devcluster build                     build everything now, not at first use
  devcluster helm -- list --all-namespaces

Environment:
  XDG_CACHE_HOME              where built programs are kept (default ~/.cache)
  KUBEBUILDER_ASSETS          a folder with etcd, kube-apiserver and kubectl to use
  COPYRATOR_TEST_KUBECONFIG   a cluster to use instead of starting one";

#[derive(Subcommand)]
enum Task {
    /// Build every program that is missing, and say where it is.
    Build {
        /// Only what the demo needs.
        #[arg(long)]
        for_demo: bool,
    },
    /// Start a cluster, say how to use it, and end it on Ctrl-C.
    Up {
        /// How many simulated nodes there are.
        #[arg(long, default_value_t = 2)]
        nodes: u32,
        /// Write an audit log.
        #[arg(long)]
        audit: bool,
        /// Return at once and leave the cluster running until `devcluster stop DIR`.
        #[arg(long)]
        keep: bool,
    },
    /// End a kept cluster and remove its folder.
    Stop {
        /// The folder that `devcluster up --keep` named.
        dir: PathBuf,
    },
    /// Run the kubectl that clusters use.
    Kubectl {
        /// kubectl's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the helm that clusters use.
    Helm {
        /// helm's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("devcluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<(), Error> {
    match task {
        Task::Build { for_demo: true } => devcluster::build_for_demo(),
        Task::Build { for_demo: false } => build(),
        Task::Up { nodes, audit, keep } => up(Options::default().nodes(nodes).audit(audit), keep),
        Task::Stop { dir } => devcluster::stop(&dir),
        Task::Kubectl { arguments } => become_program(devcluster::kubectl()?, &arguments),
        Task::Helm { arguments } => become_program(devcluster::helm()?, &arguments),
    }
}

fn build() -> Result<(), Error> {
    for folder in devcluster::build_everything()? {
        println!("{}", folder.display());
    }
    Ok(())
}

fn up(options: Options, keep: bool) -> Result<(), Error> {
    let shell = parent_id();
    let cluster = DevCluster::start(options)?;
    explain(&cluster)?;
    if keep {
        println!("# It runs until: devcluster stop {}", cluster.keep().display());
        return Ok(());
    }
    println!("# It runs until Ctrl-C.");
    // Ctrl-C needs no handling: the cluster ends with this process, whatever ends that.
    while parent_id() == shell && cluster.dir().exists() {
        cluster.check()?;
        thread::sleep(Duration::from_millis(250));
    }
    Ok(())
}

fn explain(cluster: &DevCluster) -> Result<(), Error> {
    let dir = cluster.dir();
    println!("export KUBECONFIG={}", cluster.admin_kubeconfig().display());
    println!("export KUBECACHEDIR={}", dir.join("kubectl-cache").display());
    println!("# The server is {}, the logs are in {}.", cluster.server_url(), dir.join("logs").display());
    if let Some(log) = cluster.audit_log() {
        println!("# Each request is logged in {}.", log.display());
    }
    println!("# As a user without rights: kubectl --kubeconfig {} …", cluster.user("alice")?.display());
    println!("# kubectl: {}", PathBuf::from(cluster.kubectl().get_program()).display());
    Ok(())
}

/// Replaces this process by another program.
fn become_program(program: PathBuf, arguments: &[String]) -> Result<(), Error> {
    let source = Command::new(&program).args(arguments).exec();
    Err(Error::Run { program, source })
}
