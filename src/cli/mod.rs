//! The command line: one file a command.

mod called;
mod check;
mod cluster;
mod columns;
mod completion;
mod console;
mod copies;
mod crds;
mod digests;
mod doctor;
mod foreign;
mod get;
mod hooks;
#[cfg(test)]
mod imagined;
mod import;
mod installed;
mod man;
mod manifests;
mod named;
mod output;
mod plan;
mod refused;
mod restarts;
mod selected;
mod serve;
mod sight;
mod standing;
mod status;
mod survey;
mod tree;
mod why;
mod why_not;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use called::called;

use self::{
    cluster::{ClusterArgs, Scope, connect},
    console::{Console, fail, print, with_causes},
    output::Output,
    selected::LabelArgs,
    serve::UsageError,
};

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
    /// Show where copies come from and what uses them: source, copies, workloads.
    Tree(tree::Args),
    /// Say why an object is there: by which rule, of what, and what restarts when it changes.
    Why(why::Args),
    /// Say why a namespace gets no copies, rule by rule.
    WhyNot(why_not::Args),
    /// List nodes, namespaces, deployments or services.
    Get(get::Args),
    /// Turn what other tools are told into rules and monitors of ours, suspended, with every difference named.
    Import(import::Args),
    /// Say what is wrong with this install, on which object, and the command that fixes it.
    Doctor(doctor::Args),
    /// Print what completes these commands in a shell.
    Completion(completion::Args),
    /// Print the manual pages, or write them to a directory.
    Man(man::Args),
}

/// Where we live.
#[derive(Clone, Debug, clap::Args)]
struct Home {
    /// Where Copyrator's own objects live: lease, CA, digest key [default: copyrator-system].
    #[arg(long, visible_alias = "copyrator-namespace", env = "COPYRATOR_NAMESPACE", value_name = "NS")]
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
            Command::Tree(args) => args.run(),
            Command::Why(args) => args.run(),
            Command::WhyNot(args) => args.run(),
            Command::Get(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Completion(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
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
