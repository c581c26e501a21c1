//! `copyrator why`: which rule made an object, with whose rights, and what restarts when it changes.

mod answer;
mod rule;
#[cfg(test)]
mod tests;
mod words;

use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use self::{answer::why, rule::why_rule};
pub use self::{
    answer::{Made, User, Why},
    rule::RuleWhy,
};
use super::{
    command,
    tree::{NotFound, Seen},
};
use crate::{
    arguments::{ClusterArgs, Named, Output, output},
    installed::{Installed, InstalledArgs},
    survey::{Survey, SurveyMode, take_survey},
    terminal::{Console, Exit, fail},
};

/// Show why an object exists and what depends on it: its rule, source and author, who may edit it, and which
/// workloads restart when it changes. For a workload: what it restarts for, and which monitor or annotation
/// requests it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator why secret/registry -n shop\n  copyrator why cm/app-settings -n shop -o json\n  \
    copyrator why deploy/web -n shop\n  copyrator why copyr/registry -n platform\n\n\
    Kinds are configmap (cm), secret, deployment (deploy), statefulset (sts), daemonset (ds) and copyratorrule (copyr). The digest is keyed: it shows whether two contents are equal, but not the content. -o name prints the workloads that restart when the object changes.\n\n\
    Exit codes: 0 answered; 1 object not found, or you may not read it; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    /// The object, as KIND/NAME.
    #[arg(value_name = "KIND/NAME")]
    object: Named,
    /// The namespace of the object; default: the context's.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
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
        let words = || self.installed.clone().check();
        command::run(&self.cluster, words, async |client, installed| self.show(&client, &installed).await)
    }

    async fn show(&self, client: &Client, installed: &Installed) -> Result<Exit, Exit> {
        let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace());
        let seen = take_survey(client, installed, SurveyMode::Current(None), Some(namespace), None).await?;
        seen.notes.iter().for_each(|said| self.console.note(said));
        let text = answer(&seen, &self.object, namespace).map(|answer| {
            let told = |wide| match &answer {
                Answer::Rule(of) => rule::told(of),
                Answer::Object(of) => words::told(of, wide),
            };
            self.output.text("Why", &answer, told, || answer.names(&self.object))
        });
        let not_found = || fail(&NotFound::of(Some(&self.object), namespace, &seen.world), Exit::Findings);
        Ok(command::answer(&text.ok_or_else(not_found)?, false))
    }
}

/// What is known of the named object.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Why")]
pub enum Answer {
    /// The answer about a rule.
    Rule(RuleWhy),
    /// The answer about an object or a workload.
    Object(Box<Why>),
}

impl Answer {
    /// The names for `-o name`: the rule, or what restarts when the object changes.
    fn names(&self, named: &Named) -> String {
        match self {
            Self::Rule(_) => output::names([(named.sort.to_string(), &*named.name)]),
            Self::Object(why) => output::names(why.restarting()),
        }
    }
}

/// The answer about an object of this namespace; `None` if the object does not exist and is not planned.
pub fn answer(survey: &Survey, named: &Named, namespace: &str) -> Option<Answer> {
    match named.declared_in(namespace) {
        Some(rule) => why_rule(survey, &rule).map(Answer::Rule),
        None => why(&Seen::of(survey, None), named, namespace).map(|why| Answer::Object(Box::new(why))),
    }
}
