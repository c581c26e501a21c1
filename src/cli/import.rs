//! `copyrator import`

use std::{
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{ClusterArgs, Exit, Threads, block_on, fail, foreign, print};
use crate::{
    import::{Found, Imported, Level, Options, import, json, yaml},
    run::client::{Target, client},
};

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people, and for kubectl apply: rules, with comments above them.
    #[default]
    Yaml,
    /// For machines: rules, findings, next.
    Json,
}

/// Turn what other tools are told into rules of ours, suspended, with every difference named. Reads the manifests that
/// are given, or the cluster; touches nothing.
///
/// Understood are the annotations of kubernetes-reflector, kubernetes-replicator and config-syncer (kubed), ClusterSecrets,
/// and the rules of the first Copyrator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator import > rules.yaml\n  copyrator import -n platform\n  \
    copyrator import -f manifests/ -n platform\n  helm template my-chart | copyrator import -f - -n shop\n  \
    copyrator import -f csec.yaml --source-namespace platform\n  \
    copyrator import -o json | jq '.findings[] | select(.level == \"no-equivalent\")'\n\n\
    Then kubectl apply -f rules.yaml, and the steps at its top. From the cluster it lists the metadata of ConfigMaps and Secrets, \
    never their data; values in a ClusterSecret are not printed either.\n\n\
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

/// Why a manifest cannot be used. Never quotes it: it may be a Secret.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is no folder with .yaml, .yml or .json files", path.display())]
    Empty { path: PathBuf },
    #[error("{}{place}: is no valid YAML or JSON; a chart's templates must be rendered first (helm template)", path.display())]
    Parse { path: PathBuf, place: String },
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let options = Options { source_namespace: self.source_namespace };
        if !self.filename.is_empty() {
            let mut found = Found::default();
            for path in &self.filename {
                if let Err(error) = read(path, self.namespace.as_deref(), &mut found) {
                    return fail(&error, Exit::Usage);
                }
            }
            return show(&found, &options, self.output);
        }
        block_on(Threads::One, async move {
            let client = match client(&Target::from(self.cluster)).await {
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
    // Nobody is left to be told where standard error is closed.
    let _ = writeln!(std::io::stderr(), "copyrator: {}", summary(found, &imported));
    match printed {
        Exit::Done if imported.lacks_something() => Exit::Findings,
        exit => exit,
    }
}

fn summary(found: &Found, imported: &Imported) -> String {
    let looked = found.looked_at;
    if imported.proposals.is_empty() {
        return format!("looked at {looked} objects: none asks another tool for copies");
    }
    let (rules, none) = (imported.rules(), imported.count(Level::NoEquivalent));
    let next = match (none, rules) {
        (0, 0) => "nothing to apply",
        (0, _) => "apply them and follow the steps at their top",
        _ => "look for NO EQUIVALENT",
    };
    let differences = imported.count(Level::Difference);
    format!(
        "looked at {looked} objects: {rules} rules, suspended; {differences} differences, {none} without equivalent: {next}"
    )
}

fn read(path: &Path, namespace: Option<&str>, found: &mut Found) -> Result<(), FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return parse(path, &text, namespace, found);
    }
    if !path.is_dir() {
        return parse(path, &std::fs::read_to_string(path).map_err(failed)?, namespace, found);
    }
    let entries: Result<Vec<_>, _> =
        std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = entries.map_err(failed)?;
    files.retain(|file| {
        file.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json")
    });
    files.sort();
    if files.is_empty() {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    files.iter().try_for_each(|file| read(file, namespace, found))
}

fn parse(path: &Path, text: &str, namespace: Option<&str>, found: &mut Found) -> Result<(), FileError> {
    let documents = serde_saphyr::from_multiple::<Value>(text).map_err(|error| {
        let place = error.location().map(|at| format!(":{}:{}", at.line(), at.column()));
        FileError::Parse { path: path.to_owned(), place: place.unwrap_or_default() }
    })?;
    for document in documents {
        if document.is_object() {
            found.take(document, namespace);
        } else if !document.is_null() {
            return Err(FileError::Parse {
                path: path.to_owned(),
                place: " holds a document that is no object".into(),
            });
        }
    }
    Ok(())
}
