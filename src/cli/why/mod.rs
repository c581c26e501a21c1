//! `copyrator why`

mod answer;
mod rule;
#[cfg(test)]
mod tests;
mod words;

use self::{
    answer::{Why, why},
    rule::why_rule,
};
use super::{
    arguments::{ClusterArgs, Named, Output, Sort, UsageError, connect, output},
    operator::{Installed, InstalledArgs},
    survey::{Look, look},
    terminal::{Console, Exit, Threads, block_on, fail, print},
    tree::{NotFound, Seen},
};
use crate::{cluster::Target, names::NamespacedName};

/// Say why an object is there and what hangs on it: which rule made it, of what, whose rights stand behind that, who may edit
/// it, and what restarts when it changes. Of a workload: what it restarts for, and by whose wish.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator why secret/registry -n shop\n  copyrator why cm/app-settings -n shop -o json\n  \
    copyrator why deploy/web -n shop\n  copyrator why copyr/registry -n platform\n\n\
    Kinds are configmap (cm), secret, deployment (deploy), statefulset (sts), daemonset (ds) and copyratorrule (copyr). The digest is keyed: it tells \
    contents apart, and says nothing about them. -o name prints the workloads that restart when the object changes.\n\n\
    Exit codes: 0 answered; 1 no such object, or it may not be read; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    /// The object, as KIND/NAME.
    #[arg(value_name = "KIND/NAME")]
    object: Named,
    /// Its namespace; without it, the context's.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// How the output looks.
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
    pub(super) fn run(self) -> Exit {
        match self.asked() {
            Ok((target, installed)) => block_on(Threads::One, self.show(target, installed)),
            Err(error) => fail(&error, Exit::Usage),
        }
    }

    fn asked(&self) -> Result<(Target, Installed), UsageError> {
        Ok((self.cluster.clone().check()?, self.installed.clone().check()?))
    }

    async fn show(&self, target: Target, installed: Installed) -> Exit {
        let client = match connect(&target).await {
            Ok(client) => client,
            Err(error) => return fail(&error, Exit::Unreachable),
        };
        let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let seen = match look(&client, &installed, (Look::AsItIs(None), Some(&*namespace)), None).await {
            Ok(seen) => seen,
            Err(exit) => return exit,
        };
        seen.notes.iter().for_each(|said| self.console.note(said));
        if self.object.sort == Sort::Rule {
            let name = NamespacedName::new(&*namespace, self.object.name.as_str());
            return match why_rule(&seen, &name) {
                Some(answer) => print(&match self.output {
                    Output::Table | Output::Wide => rule::told(&answer),
                    Output::Json => output::json("Why", &answer),
                    Output::Yaml => output::yaml("Why", &answer),
                    Output::Name => output::names([("CopyratorRule", &*name.name)]),
                }),
                None => fail(&NotFound::of(Some(&self.object), &namespace, &seen.world), Exit::Findings),
            };
        }
        match why(&Seen::of(&seen, None), &self.object, &namespace) {
            Some(answer) => print(&self.text(&answer)),
            None => fail(&NotFound::of(Some(&self.object), &namespace, &seen.world), Exit::Findings),
        }
    }

    fn text(&self, answer: &Why) -> String {
        match self.output {
            Output::Table => words::told(answer, false),
            Output::Wide => words::told(answer, true),
            Output::Json => output::json("Why", answer),
            Output::Yaml => output::yaml("Why", answer),
            Output::Name => output::names(answer.restarting()),
        }
    }
}
