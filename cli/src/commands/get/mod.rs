//! `copyrator get`: lists nodes, namespaces, Deployments or Services.

mod fetch;

use clap::ArgAction;
use kube::Client;

use self::fetch::Sought;
pub use self::fetch::{FetchError, Listed, fetch};
use super::command;
use crate::{
    arguments::{ClusterArgs, LabelArgs, Labels, Output, output},
    terminal::{Console, Exit, fail},
};

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "clap would print docstrings of variants in the help")]
pub enum What {
    #[value(alias = "node", alias = "no")]
    Nodes,
    #[value(alias = "namespace", alias = "ns")]
    Namespaces,
    #[value(alias = "deployment", alias = "deploy")]
    Deployments,
    #[value(alias = "service", alias = "svc")]
    Services,
}

impl What {
    /// Returns the kind to list.
    pub fn sought(self) -> Sought {
        let core = |kind, plural, in_namespaces| Sought { api_version: "v1", kind, plural, in_namespaces };
        match self {
            Self::Nodes => core("Node", "nodes", false),
            Self::Namespaces => core("Namespace", "namespaces", false),
            Self::Deployments => Sought { api_version: "apps/v1", ..core("Deployment", "deployments", true) },
            Self::Services => core("Service", "services", true),
        }
    }
}

/// List nodes, namespaces, deployments or services, with the columns that the API server returns.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator get nodes\n  copyrator get namespaces -l team=blue\n  \
    copyrator get deployments -n shop -o wide\n  copyrator get services -A -o json\n\n\
    Columns are those that kubectl shows; nodes and namespaces are cluster-scoped.\n\n\
    Exit codes: 0 listed; 1 refused; 2 usage; 3 cluster unreachable.")]
pub struct Args {
    /// The resource to list.
    #[arg(value_enum)]
    what: What,
    /// The namespace to show; default: the context's.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace", value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    all_namespaces: bool,
    #[command(flatten)]
    labels: LabelArgs,
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
        let words = || self.labels.clone().check();
        command::run(&self.cluster, words, async |client, labels| self.show(&client, labels).await)
    }

    async fn show(&self, client: &Client, labels: Option<Labels>) -> Result<Exit, Exit> {
        let sought = self.what.sought();
        let namespace = (sought.in_namespaces && !self.all_namespaces)
            .then(|| self.namespace.as_deref().unwrap_or(client.default_namespace()));
        let labels = labels.as_ref().map(|labels| labels.text.as_str());
        let listed = fetch(client, sought, namespace, labels, self.is_table()).await;
        let listed = listed.map_err(|error| fail(&error, error.exit()))?;
        if listed.is_empty() {
            let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
            self.console.note(&format!("no {} found{place}", sought.plural));
        }
        listed.unread().for_each(|said| self.console.note(&said));
        Ok(command::answer(&self.text(sought, &listed, namespace.is_none()), false))
    }

    fn is_table(&self) -> bool {
        matches!(self.output, Output::Table | Output::Wide)
    }

    fn text(&self, sought: Sought, listed: &Listed, with_namespace: bool) -> String {
        match self.output {
            Output::Table => listed.table(false, with_namespace && sought.in_namespaces),
            Output::Wide => listed.table(true, with_namespace && sought.in_namespaces),
            Output::Json => serde_json::to_string_pretty(&listed.list()).unwrap_or_default() + "\n",
            Output::Yaml => serde_saphyr::to_string(&listed.list()).unwrap_or_default(),
            Output::Name => output::names(listed.names().map(|name| (sought.kind, name))),
        }
    }
}
