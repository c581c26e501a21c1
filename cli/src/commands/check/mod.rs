//! `copyrator check`: files in, the webhook's verdicts out, without a cluster.

mod cluster;
mod input;
mod instances;
mod judge;
mod junit;
mod report;
mod sarif;
mod table;

use std::path::PathBuf;

pub use self::report::{Level, Report};
use self::{input::Input, instances::Given, judge::judge};
use crate::{
    arguments::{UsageError, output},
    files::{self, Document},
    terminal::{Console, Exit, fail, print},
};

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// What was found, object by object, for people.
    #[default]
    Table,
    /// The same, and the objects about which nothing was found.
    Wide,
    /// Every object with its findings, for machines.
    Json,
    /// The same as YAML.
    Yaml,
    /// A line an object that something was found about, KIND/NAME as kubectl has it.
    Name,
    /// A test report: one test case an object.
    Junit,
    /// SARIF 2.1.0, as code scanners write it.
    Sarif,
}

/// Judge manifests as the webhook would, offline: ConfigMaps, Secrets and Namespaces by the policies given, rules, monitors and
/// policies by what they say. Asks no cluster.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Signs: ! refused, ~ warned, . noted for the audit log, ? a policy that cannot be judged offline\n\n\
    Examples:\n  copyrator check -f manifests/ --policy policies/\n  kustomize build . | copyrator check -f - --policy policies/\n  \
    helm template my-chart | copyrator check -f - -n shop --policy policies/ -o junit > report.xml\n  \
    copyrator check -f policies/ --strict\n  copyrator check -f . -o sarif > copyrator.sarif\n  \
    copyrator check -f template.yaml --object nginx.yaml     # also shows what the template renders for it\n\n\
    Each object is judged as newly written, with what policies add when missing. Labels of namespaces are those of the Namespaces \
    among the files. Not known are what is there already (immutable keys, oldObject), who writes (request.userInfo is empty) and \
    with which rights. Objects of other kinds are left out and counted, and refused where apiVersion or kind looks like a misspelt one \
    of those; values of Secrets are never printed.\n\n\
    Exit codes: 0 nothing would be refused; 1 something would; 2 usage, or a file that cannot be read."
)]
pub struct Args {
    /// What to judge: files, directories (their .yaml, .yml and .json), or - for standard input. Policies among them apply, too.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// More policies, and Namespaces for their labels: files, directories, or -. Nothing else in them is judged.
    #[arg(long = "policy", value_name = "FILE")]
    policies: Vec<PathBuf>,
    /// Objects, and Namespaces, that templates among the files are rendered for: files, directories, or -. They are not judged.
    #[arg(long = "object", value_name = "FILE")]
    objects: Vec<PathBuf>,
    /// Where objects go that name no namespace.
    #[arg(short, long, value_name = "NS", default_value = "default")]
    namespace: String,
    /// Warnings, audit notes and what cannot be judged offline count as findings, too.
    #[arg(long)]
    strict: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Where Copyrator's own objects live: what is written there is not judged.
    #[arg(
        long,
        alias = "install-namespace",
        env = "COPYRATOR_NAMESPACE",
        value_name = "NS",
        default_value = "copyrator-system"
    )]
    copyrator_namespace: String,
    #[command(flatten)]
    console: Console,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let all = |paths: &[PathBuf]| files::read(paths);
        let read = all(&self.files).and_then(|files| Ok((files, all(&self.policies)?, all(&self.objects)?)));
        let (files, policies, objects) = match read {
            Ok(read) => read,
            Err(error) => return fail(&error, Exit::Usage),
        };
        if files.is_empty() {
            let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
            let message = format!("there is no object in {}: nothing would be judged", names.join(", "));
            return fail(&UsageError::Value { flag: "filename", message }, Exit::Usage);
        }
        let given = match Given::new(objects, &self.namespace) {
            Ok(given) => given,
            Err(error) => return fail(&error, Exit::Usage),
        };
        let input = Input::new(files, policies, &self.namespace, &self.copyrator_namespace);
        let report = judge(input, &given);
        report.notices.iter().for_each(|said| self.console.note(said));
        let text = match self.output {
            Output::Table => table::table(&report, false),
            Output::Wide => table::table(&report, true),
            Output::Json => output::json("Check", &report),
            Output::Yaml => output::yaml("Check", &report),
            Output::Name => output::names(report.found().map(|object| (&object.kind, &object.name))),
            Output::Junit => junit::junit(&report, self.strict),
            Output::Sarif => sarif::sarif(&report),
        };
        match print(&text) {
            Exit::Done if report.is_failed(self.strict) => Exit::Findings,
            exit => exit,
        }
    }
}

/// Returns the webhook's verdicts on documents, which are judged only by each other. Objects without a
/// namespace belong to `home`.
///
/// # Errors
/// A document cannot be judged.
pub fn verdicts(documents: Vec<Document>, home: &str, own_namespace: &str) -> Result<Report, UsageError> {
    let given = Given::new(Vec::new(), home)?;
    Ok(judge(Input::new(documents, Vec::new(), home, own_namespace), &given))
}
