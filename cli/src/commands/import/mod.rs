//! `copyrator import`: converts other tools' annotations and manifests.

mod foreign;

use std::path::PathBuf;

use copyrator_import::{ImportInput, Imported, Level, Made, Options, import, json, yaml};

use super::command;
use crate::{
    arguments::{ClusterArgs, LabelArgs, Labels, Scope, output},
    files,
    terminal::{Console, Exit, fail},
};

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people, and for kubectl apply: rules, templates and monitors, with comments above them.
    #[default]
    Yaml,
    /// For machines: rules, templates, monitors, findings, next.
    Json,
    /// One line for each rule, template or monitor: KIND/NAME as in kubectl.
    Name,
}

/// Convert other tools' annotations and manifests to suspended rules, templates and monitors, with every difference
/// named. Reads the given manifests, or the cluster; changes nothing.
///
/// It understands the annotations of kubernetes-reflector, kubernetes-replicator, config-syncer (kubed),
/// Reloader and wave, ClusterSecrets, the generate rules of Kyverno's ClusterPolicies and Policies, NamespaceConfigs, and the rules and
/// monitors of the first Copyrator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator import > rules.yaml\n  copyrator import -n platform\n  \
    copyrator import -f manifests/ -n platform\n  helm template my-chart | copyrator import -f - -n shop\n  \
    copyrator import -f csec.yaml --source-namespace platform\n  \
    copyrator import -f clusterpolicies.yaml -n platform\n  \
    copyrator import -o json | jq '.findings[] | select(.level == \"no-equivalent\")'\n\n\
    Then run kubectl apply -f rules.yaml, and follow the steps at the top of the file. With -f, -n sets the namespace of objects without one; -l applies only to the cluster. Templates for cluster-wide policies go to the namespace of --source-namespace, or else of -n. From the cluster, import lists workloads, and the metadata of ConfigMaps and Secrets, never their data; it prints no values of a ClusterSecret or a pod template.\n\n\
    Exit codes: 0 everything has an equivalent; 1 something has no equivalent (the output names it) or you may not read it; 2 usage, or a file that cannot be parsed; 3 cluster unreachable.")]
pub struct Args {
    /// Manifests: a file, a folder (its .yaml, .yml and .json), or - for standard input. Without it, the cluster.
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    labels: LabelArgs,
    /// The namespace for objects that replace cluster-wide ones: the source Secret of a ClusterSecret with
    /// its own data, and the templates for Kyverno's policies and NamespaceConfigs.
    #[arg(long, value_name = "NS")]
    source_namespace: Option<String>,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let home = self.source_namespace.clone().or_else(|| self.scope.one().map(str::to_owned));
        let options = Options { source_namespace: self.source_namespace.clone(), home };
        if !self.filename.is_empty() {
            let documents = match files::read(&self.filename) {
                Ok(documents) => documents,
                Err(error) => return fail(&error, Exit::Usage),
            };
            let mut found = ImportInput::default();
            documents.into_iter().for_each(|document| found.take(document.value, self.scope.one()));
            return self.show(&found, &options);
        }
        let words = || self.labels.clone().check();
        command::run(&self.cluster, words, async |client, labels| {
            let labels = labels.as_ref().map(|Labels { text, .. }| text.as_str());
            let found = foreign::read(&client, self.scope.one(), labels).await;
            let found = found.map_err(|error| fail(&error, error.exit()))?;
            let exit = self.show(&found.input, &options);
            found.unreadable.iter().for_each(|unreadable| self.console.note(unreadable));
            Ok(if found.unreadable.is_empty() { exit } else { Exit::Findings })
        })
    }

    fn show(&self, found: &ImportInput, options: &Options) -> Exit {
        let imported = import(found, options);
        let text = match self.output {
            Output::Yaml => yaml(&imported),
            Output::Json => Ok(output::json("Import", &json(&imported))),
            Output::Name => Ok(names(&imported)),
        };
        let exit = match text {
            Ok(text) => command::answer(&text, imported.lacks_something()),
            Err(error) => fail(&error, Exit::Findings),
        };
        self.console.note(&summary(found, &imported));
        exit
    }
}

fn names(imported: &Imported) -> String {
    let name = |made: &Made| match made {
        Made::Rule(_) => ("CopyratorRule", made.place().1.to_owned()),
        Made::Template(_) => ("CopyratorTemplate", made.place().1.to_owned()),
        Made::Monitor(_) => ("ConfigMonitor", made.place().1.to_owned()),
    };
    output::names(imported.made().map(name))
}

fn summary(found: &ImportInput, imported: &Imported) -> String {
    let looked = found.looked_at;
    if imported.proposals.is_empty() {
        return format!("read {looked} objects: none of them asks another tool for copies or restarts");
    }
    let (rules, templates, monitors) = (imported.rules(), imported.templates(), imported.monitors());
    let made = [(rules, "rules"), (templates, "templates"), (monitors, "monitors")];
    let counted = made.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let counted: Vec<String> = counted.collect();
    let made = if counted.is_empty() { "0 rules".to_owned() } else { counted.join(" and ") };
    let none = imported.count(Level::NoEquivalent);
    let next = match (none, rules + templates + monitors) {
        (0, 0) => "nothing to apply",
        (0, _) => "apply them and follow the steps at their top",
        _ => "look for NO EQUIVALENT",
    };
    let differences = imported.count(Level::Difference);
    format!(
        "read {looked} objects: {made}, suspended; {differences} differences, {none} without equivalent: {next}"
    )
}
