//! The command line: every command, with the arguments of each.

use clap::{CommandFactory as _, Parser, Subcommand};
use copyrator_cli::{
    commands::{check, crds, doctor, get, hooks, import, plan, status, tree, why, why_not},
    terminal::Exit,
};

use crate::{completion, man, serve};

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
    /// Show what Copyrator would create, change, delete, restart and refuse, and why. Changes nothing.
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
    /// Show it all in a browser and over HTTP, on this machine and with your own rights.
    Console(Box<copyrator_console::Args>),
    /// Convert other tools' annotations and manifests to suspended rules and monitors, with every difference
    /// named.
    Import(import::Args),
    /// Say what is wrong with this install, on which object, and the command that fixes it.
    Doctor(doctor::Args),
    /// Print a completion script for bash, zsh or fish.
    Completion(completion::Args),
    /// Print the manual pages, or write them to a directory.
    Man(man::Args),
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
            Command::Console(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Doctor(args) => args.run(),
            Command::Completion(args) => args.run(Self::command()),
            Command::Man(args) => args.run(Self::command()),
        }
    }
}
