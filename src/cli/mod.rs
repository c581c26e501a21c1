//! The command line: one file a command.

mod check;
mod columns;
mod copies;
mod crds;
mod digests;
mod doctor;
mod foreign;
mod hooks;
mod import;
mod installed;
mod manifests;
mod plan;
mod restarts;
mod serve;
mod standing;
mod status;
mod survey;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::run::client::{ClientError, Target, client};

/// Keeps ConfigMaps and Secrets right across a Kubernetes cluster: they appear, they are valid, they stay fresh.
#[derive(Debug, Parser)]
#[command(name = "copyrator", version, about, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str =
    "Exit codes: 0 done, nothing to report; 1 findings or refused; 2 usage; 3 cluster unreachable.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the webhook, the reconciler, or both.
    Serve(Box<serve::Args>),
    /// Print the CustomResourceDefinitions and admission policies as YAML.
    Crds(crds::Args),
    /// Show the webhook configurations that the reconciler applies, in their widest form.
    Hooks(hooks::Args),
    /// Show what would be made, changed, removed, restarted and refused, and why. Touches nothing.
    Plan(plan::Args),
    /// Judge manifests as the webhook would, offline.
    Check(check::Args),
    /// Show rules with every copy, monitors with every workload, and policies, and how they stand, worst first.
    Status(status::Args),
    /// Turn what other tools are told into rules and monitors of ours, suspended, with every difference named.
    Import(import::Args),
    /// Say what is wrong with this install, on which object, and the command that fixes it.
    Doctor(doctor::Args),
}

/// Which cluster, as whom: kubectl's own flags.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// A kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// A context of the kubeconfig; else its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl From<ClusterArgs> for Target {
    fn from(args: ClusterArgs) -> Self {
        Self { kubeconfig: args.kubeconfig, context: args.context }
    }
}

/// Where we live.
#[derive(Clone, Debug, clap::Args)]
struct Home {
    /// Where Copyrator's own objects live: lease, CA, digest key [default: copyrator-system].
    #[arg(long, env = "COPYRATOR_NAMESPACE", value_name = "NS")]
    namespace: Option<String>,
    /// Its name in the environment of the first Copyrator.
    #[arg(long, env = "NAMESPACE", default_value = "copyrator-system", hide = true)]
    seed_namespace: String,
}

impl Home {
    fn namespace(self) -> String {
        self.namespace.filter(|name| !name.is_empty()).unwrap_or(self.seed_namespace)
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, nothing to report.
    Done,
    /// Findings, or something failed.
    Findings,
    /// The words of the command line are wrong.
    Usage,
    /// The cluster could not be reached.
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

impl Cli {
    /// Carries out the command.
    pub fn run(self) -> Exit {
        match self.command {
            Command::Serve(args) => args.run(),
            Command::Crds(args) => args.run(),
            Command::Hooks(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Doctor(args) => args.run(),
        }
    }
}

/// A client for a command: what it asks for is little, and waits for nobody.
async fn connect(target: &Target) -> Result<kube::Client, ClientError> {
    client(target, &std::sync::Arc::default()).await
}

/// Runs a command's future. Commands for people need one thread only.
fn block_on(threads: Threads, future: impl Future<Output = Exit>) -> Exit {
    let built = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    match built {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => fail(&error, Exit::Findings),
    }
}

enum Threads {
    One,
    Many,
}

/// Says what went wrong on standard error, with its causes.
fn fail(error: &dyn std::error::Error, exit: Exit) -> Exit {
    note(&with_causes(error));
    exit
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Says on standard error what whoever reads the output should know.
fn note(text: &str) {
    use std::io::Write as _;
    // Nobody is left to be told where standard error is closed.
    let _ = writeln!(std::io::stderr(), "copyrator: {text}");
}

/// Writes data to standard output. A closed pipe is the reader's choice, no failure.
fn print(text: &str) -> Exit {
    use std::io::Write as _;
    let written = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error, Exit::Findings),
        _ => Exit::Done,
    }
}
