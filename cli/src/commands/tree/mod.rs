//! `copyrator tree`: shows sources, their copies, and the workloads that use them.

mod draw;
mod grow;
#[cfg(test)]
mod tests;

use kube::Client;

pub use self::grow::{Forest, Node, NodeState, Origin, Seen, origin_of};
use self::{
    draw::draw,
    grow::{grow, of_object, of_rule},
};
use super::command;
use crate::{
    arguments::{ClusterArgs, LabelArgs, Labels, Named, Output, Scope, Sort, UsageError, output},
    installed::{Installed, InstalledArgs},
    model::World,
    names::{Kind, ObjectKey},
    survey::{Survey, SurveyMode, take_survey},
    terminal::{Console, Exit, fail},
};

/// Show each source with its copies, and the workloads that use the copies.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator tree\n  copyrator tree -n shop\n  copyrator tree secret/registry -n platform\n  \
    copyrator tree copyratorrule/registry -n platform\n\n\
    Numbers in parentheses refer to the notes below the tree: why a copy is not in order, or why a workload does not restart. For a copy, tree shows its own branch; for a rule, the branches of its copies. Without -n, the object is in the context's namespace. -l selects rules by label.\n\n\
    Exit codes: 0 shown; 1 object not found, or you may not read it; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    /// A ConfigMap, Secret or CopyratorRule, as KIND/NAME; without it, every source.
    #[arg(value_name = "KIND/NAME")]
    object: Option<Named>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    labels: LabelArgs,
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
        command::run(
            &self.cluster,
            || self.words(),
            async |client, (labels, installed)| self.show(&client, labels, &installed).await,
        )
    }

    fn words(&self) -> Result<(Option<Labels>, Installed), UsageError> {
        if let Some(named) = self.object.as_ref().filter(|named| matches!(named.sort, Sort::Workload(_))) {
            let message = format!(
                "trees have ConfigMaps, Secrets, rules and templates at their roots; of a {} ask: copyrator why",
                named.sort
            );
            return Err(UsageError::Argument { name: "KIND/NAME", message });
        }
        Ok((self.labels.clone().check()?, self.installed.clone().check()?))
    }

    async fn show(
        &self,
        client: &Client,
        labels: Option<Labels>,
        installed: &Installed,
    ) -> Result<Exit, Exit> {
        let home = self.home(client.default_namespace());
        let about = self.object.as_ref().map(|_| &*home).or(self.scope.one());
        let seen = take_survey(client, installed, SurveyMode::Current(None), about, labels).await?;
        let seen = seen.about(self.object.is_none().then(|| self.scope.one()).flatten());
        seen.notes.iter().for_each(|said| self.console.note(said));
        let about = self.object.is_none().then(|| self.scope.one()).flatten();
        let Some(forest) = forest(&seen, self.object.as_ref(), &home, about) else {
            return Err(fail(&NotFound::of(self.object.as_ref(), &home, &seen.world), Exit::Findings));
        };
        if forest.roots.is_empty() {
            self.console.note("nothing is copied here");
        }
        let drawn = |wide| draw(&forest, wide, self.console.is_coloured());
        let names = || output::names(forest.kinds_and_names());
        Ok(command::answer(&self.output.text("Tree", &forest, drawn, names), false))
    }

    /// The namespace of an object that is named without one.
    fn home(&self, default: &str) -> String {
        self.scope.one().unwrap_or(default).to_owned()
    }
}

/// The trees of an object in namespace `home`. Without an object, the trees that concern namespace `about`,
/// or all trees. `None` if the object does not exist.
pub fn forest(survey: &Survey, object: Option<&Named>, home: &str, about: Option<&str>) -> Option<Forest> {
    let seen = Seen::of(survey, about);
    let Some(named) = object else { return Some(grow(&seen)) };
    match named.known_in(seen.world).sort {
        Sort::Object(kind) => of_object(&seen, &ObjectKey::new(kind, home, named.name.as_str())),
        Sort::Rule | Sort::Template => of_rule(&seen, &named.declared_in(home)?),
        Sort::Workload(_) | Sort::Further => None,
    }
}

/// The object that the user named does not exist, or Copyrator does not read its namespace.
#[derive(Debug, thiserror::Error)]
#[error("there is no {kind} {namespace}/{name}{why}")]
pub struct NotFound {
    kind: String,
    namespace: String,
    name: String,
    why: String,
}

impl NotFound {
    /// Describes the object that was not found; `None` for a whole namespace.
    pub fn of(named: Option<&Named>, namespace: &str, world: &World) -> Self {
        let sort = named.map(|named| named.known_in(world).sort);
        let is_seen_if_declared = matches!(sort, Some(Sort::Object(kind)) if !kind.is_copied());
        Self {
            kind: named.map(|named| named.known_in(world).kind()).unwrap_or_default(),
            namespace: namespace.to_owned(),
            name: named.map(|named| named.name.clone()).unwrap_or_default(),
            why: match world.unseen(namespace) {
                None if is_seen_if_declared => {
                    " that a template declares: of others Copyrator knows nothing; -n names another namespace"
                        .to_owned()
                }
                None if sort == Some(Sort::Further) => {
                    " to be seen: neither do rules copy objects of that kind here, nor are templates granted it (chart value templates.kinds)"
                        .to_owned()
                }
                None if matches!(sort, Some(Sort::Object(Kind::Secret))) => {
                    ", or its type is that of a Helm release or of a token, which Copyrator never copies: -n names another namespace"
                        .to_owned()
                }
                None => ": -n names another namespace".to_owned(),
                Some((_, message)) => format!(" to be seen: {message}"),
            },
        }
    }
}
