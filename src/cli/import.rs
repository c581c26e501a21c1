//! `copyrator import`

use std::path::PathBuf;

use super::{ClusterArgs, Exit, Threads, block_on, connect, fail, foreign, manifests, note, print};
use crate::{
    import::{Found, Imported, Level, Options, import, json, yaml},
    run::client::Target,
};

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people, and for kubectl apply: rules and monitors, with comments above them.
    #[default]
    Yaml,
    /// For machines: rules, monitors, findings, next.
    Json,
}

/// Turn what other tools are told into rules and monitors of ours, suspended, with every difference named. Reads the manifests that
/// are given, or the cluster; touches nothing.
///
/// Understood are the annotations of kubernetes-reflector, kubernetes-replicator, config-syncer (kubed), Reloader and wave,
/// ClusterSecrets, and the rules and monitors of the first Copyrator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator import > rules.yaml\n  copyrator import -n platform\n  \
    copyrator import -f manifests/ -n platform\n  helm template my-chart | copyrator import -f - -n shop\n  \
    copyrator import -f csec.yaml --source-namespace platform\n  \
    copyrator import -o json | jq '.findings[] | select(.level == \"no-equivalent\")'\n\n\
    Then kubectl apply -f rules.yaml, and the steps at its top. From the cluster it lists workloads, and the metadata of ConfigMaps \
    and Secrets, never their data; values in a ClusterSecret or a pod template are not printed either.\n\n\
    Exit codes: 0 everything has an equivalent; 1 something has none, and is named, or may not be read; 2 usage, or something \
    cannot be parsed; 3 cluster unreachable.")]
pub struct Args {
    /// Manifests: a file, a folder (its .yaml, .yml and .json), or - for standard input. Without it, the cluster.
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// One namespace of the cluster instead of all; with -f, where an object belongs that does not say.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// All namespaces (the default).
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Where you will put the source Secret of a ClusterSecret that holds its data itself.
    #[arg(long, value_name = "NS")]
    source_namespace: Option<String>,
    /// How the output looks.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let options = Options { source_namespace: self.source_namespace };
        if !self.filename.is_empty() {
            let documents = match manifests::read(&self.filename) {
                Ok(documents) => documents,
                Err(error) => return fail(&error, Exit::Usage),
            };
            let mut found = Found::default();
            documents.into_iter().for_each(|document| found.take(document.value, self.namespace.as_deref()));
            return show(&found, &options, self.output);
        }
        block_on(Threads::One, async move {
            let client = match connect(&Target::from(self.cluster)).await {
                Ok(client) => client,
                Err(error) => return fail(&error, Exit::Unreachable),
            };
            match foreign::read(&client, self.namespace.as_deref()).await {
                Ok(found) => show(&found, &options, self.output),
                Err(error @ foreign::ReadError::Refused { .. }) => fail(&error, Exit::Findings),
                Err(error @ foreign::ReadError::Unreachable(_)) => fail(&error, Exit::Unreachable),
            }
        })
    }
}

fn show(found: &Found, options: &Options, output: Output) -> Exit {
    let imported = import(found, options);
    let text = match output {
        Output::Yaml => yaml(&imported),
        Output::Json => Ok(serde_json::to_string_pretty(&json(&imported)).unwrap_or_default() + "\n"),
    };
    let printed = match text {
        Ok(text) => print(&text),
        Err(error) => fail(&error, Exit::Findings),
    };
    note(&summary(found, &imported));
    match printed {
        Exit::Done if imported.lacks_something() => Exit::Findings,
        exit => exit,
    }
}

fn summary(found: &Found, imported: &Imported) -> String {
    let looked = found.looked_at;
    if imported.proposals.is_empty() {
        return format!("looked at {looked} objects: none asks another tool for copies or restarts");
    }
    let (rules, monitors) = (imported.rules(), imported.monitors());
    let made = match (rules, monitors) {
        (rules, 0) => format!("{rules} rules"),
        (0, monitors) => format!("{monitors} monitors"),
        (rules, monitors) => format!("{rules} rules and {monitors} monitors"),
    };
    let none = imported.count(Level::NoEquivalent);
    let next = match (none, rules + monitors) {
        (0, 0) => "nothing to apply",
        (0, _) => "apply them and follow the steps at their top",
        _ => "look for NO EQUIVALENT",
    };
    let differences = imported.count(Level::Difference);
    format!(
        "looked at {looked} objects: {made}, suspended; {differences} differences, {none} without equivalent: {next}"
    )
}
