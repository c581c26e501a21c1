//! `copyrator plan`: shows what would happen.

mod declared;
mod report;
mod restarts;
mod table;
mod words;

use std::path::PathBuf;

use kube::Client;

pub use self::report::Report;
use self::table::table;
use super::command;
use crate::{
    api::{GROUP, VERSION},
    arguments::{ClusterArgs, LabelArgs, Labels, Output, Scope},
    files::{self, Document, FileKind, Item, item, meant_kind},
    installed::{Installed, InstalledArgs},
    survey::{SurveyMode, take_survey},
    terminal::{Console, Exit, fail},
};

/// Show what Copyrator would create, change, delete, restart and refuse, and why. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Signs: + made, ~ changed, - removed, * restarted, ! refused, ? not known, . waiting, = in order or not affected\n\n\
    Examples:\n  copyrator plan\n  copyrator plan -f rule.yaml\n  copyrator plan -f app-settings.yaml\n  \
    kustomize build . | copyrator plan -f -\n  copyrator plan -n shop -o json\n\n\
    With -f, plan treats the rules, monitors, policies, ConfigMaps and Secrets in the files as if you applied them now: it shows the copies, and then the workloads that restart. It checks copies, and ConfigMaps and Secrets in files, against the ConfigPolicies in the cluster and in the files. It does not know what quotas and other webhooks will refuse. With -n: the rules of that namespace, the copies and workloads in it, and the workloads that restart for copies of its rules; objects in files without a namespace belong there, too.\n\n\
    Exit codes: 0 nothing to do; 1 something would change, would be refused, or is unknown; 2 usage, or a file that \
    cannot be read; 3 cluster unreachable."
)]
pub struct Args {
    /// Rules, monitors, policies, ConfigMaps and Secrets that are not applied yet: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    labels: LabelArgs,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Whether changes give exit code 1; with false, only refused or unknown entries do.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    exit_code: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
    #[command(flatten)]
    installed: InstalledArgs,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let documents = match files::read(&self.files) {
            Ok(documents) => documents,
            Err(error) => return fail(&error, Exit::Usage),
        };
        let words = || Ok((self.labels.clone().check()?, self.installed.clone().check()?));
        command::run(&self.cluster, words, async |client, (labels, installed)| {
            self.plan(&client, documents, labels, &installed).await
        })
    }

    async fn plan(
        &self,
        client: &Client,
        documents: Vec<Document>,
        labels: Option<Labels>,
        installed: &Installed,
    ) -> Result<Exit, Exit> {
        let namespace = self.scope.one();
        let home = namespace.unwrap_or(client.default_namespace()).to_owned();
        let (files, others) = files(documents, &home);
        others.iter().for_each(|other| self.console.note(other));
        let ahead = SurveyMode::WithFiles(files, namespace);
        let seen = take_survey(client, installed, ahead, namespace, labels).await?.about(namespace);
        seen.notes.iter().for_each(|said| self.console.note(said));
        let report = Report::new(&seen, namespace, self.output == Output::Wide);
        let drawn = |_| table(&report, self.console.is_coloured());
        let text = self.output.text("Plan", &report, drawn, || report.names());
        // An empty output could be mistaken for a failure (argo-cd#27705). All other formats say that the
        // plan is empty.
        if self.output == Output::Name && text.is_empty() {
            self.console.note("nothing to do");
        }
        Ok(command::answer(&text, self.is_found(&report)))
    }

    fn is_found(&self, report: &Report) -> bool {
        if self.exit_code { report.has_findings() } else { report.has_refusals() }
    }
}

/// Splits documents into objects to plan with, and notes about what is left out. Objects without a namespace
/// belong to `home`.
pub fn files(documents: Vec<Document>, home: &str) -> (Vec<Item>, Vec<String>) {
    let (mut items, mut others) = (Vec::new(), Vec::new());
    for document in documents {
        match item(document, home) {
            Ok(item) if item.of.kind != FileKind::Namespace => items.push(item),
            Ok(Item { place, value, .. }) => others.push(left_out(&Document { place, value })),
            Err(other) => others.push(left_out(&other)),
        }
    }
    (items, others)
}

fn left_out(document: &Document) -> String {
    let [version, kind, name] = ["/apiVersion", "/kind", "/metadata/name"].map(|part| document.text(part));
    let what = [version, kind, name].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let what = if what.is_empty() { "a document without a kind".to_owned() } else { what.join(" ") };
    let hint = meant_kind(version, kind).map(|hint| format!("; {hint}")).unwrap_or_default();
    format!(
        "{}: {what}: left out, only {GROUP}/{VERSION} CopyratorRules, CopyratorTemplates, ConfigMonitors and ConfigPolicies, \
         ConfigMaps and Secrets are planned with{hint}",
        document.place
    )
}
