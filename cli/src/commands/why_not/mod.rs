//! `copyrator why-not`: says why a namespace gets no copies.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use super::command;
use crate::{
    arguments::{ClusterArgs, LabelArgs, Output, UsageError, output},
    explain::{Brings, brings},
    installed::InstalledArgs,
    names::Declarer,
    survey::{Survey, SurveyMode, take_survey},
    terminal::{Console, Exit, aligned},
};

/// Show why a namespace gets no copies: the first reason for each rule.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator why-not shop\n  copyrator why-not shop --rule platform/registry\n  copyrator why-not shop -o json\n\n\
    Reasons in this order: the namespace may not have copies; the rule is invalid, excludes the namespace, does not select it, or has no source; the rule is suspended or lacks rights; another object or another rule's copy is in the way. -o wide also shows the rules that have all their copies. An annotated source counts as a rule named NAMESPACE/configmap:NAME or NAMESPACE/secret:NAME. -l selects rules by label.\n\n\
    Exit codes: 0 every rule has its copies; 1 some rule does not; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    /// The namespace to check.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// Only about this rule.
    #[arg(long, value_name = "NS/NAME")]
    rule: Option<String>,
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

/// The body of machine-readable output.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WhyNot")]
pub struct Answer {
    /// The namespace that was asked about.
    pub namespace: String,
    /// A row for each rule.
    pub items: Vec<Row>,
    /// Why nothing is known of the namespace, if no rule says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
}

impl Answer {
    /// Whether a copy is missing, or its state is unknown.
    fn is_lacking(&self) -> bool {
        self.unseen.is_some() || self.items.iter().any(|row| !row.brings)
    }
}

/// A row of a rule: what it copies into the namespace, or why nothing.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WhyNotRow")]
pub struct Row {
    /// `namespace/name` of the rule.
    pub rule: String,
    /// Whether all of its copies are there.
    pub brings: bool,
    /// How many copies are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<usize>,
    /// The reason, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The reason, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let words = || Ok((self.rule()?, self.labels.clone().check()?, self.installed.clone().check()?));
        command::run(&self.cluster, words, async |client, (rule, labels, installed)| {
            let about = Some(&*self.namespace);
            let seen = take_survey(&client, &installed, SurveyMode::Current(None), about, labels).await?;
            Ok(self.show(&seen, rule.as_ref()))
        })
    }

    fn rule(&self) -> Result<Option<Declarer>, UsageError> {
        let Some(text) = &self.rule else { return Ok(None) };
        let message = format!("{text:?} is not NAMESPACE/NAME");
        Declarer::parse(text).map(Some).ok_or(UsageError::Value { flag: "rule", message })
    }

    fn show(&self, seen: &Survey, rule: Option<&Declarer>) -> Exit {
        seen.notes.iter().for_each(|said| self.console.note(said));
        let found = answer(seen, rule, &self.namespace);
        if found.items.is_empty() {
            self.console.note("there are no rules");
        }
        let text = self.output.text("WhyNot", &found, |wide| table(&found, wide), || names(&found.items));
        command::answer(&text, found.is_lacking())
    }
}

/// Why a namespace gets no copies: of every rule, or of one rule.
pub fn answer(survey: &Survey, only: Option<&Declarer>, namespace: &str) -> Answer {
    let items = rows(survey, only, namespace);
    let unseen = survey.world.unseen(namespace).filter(|_| items.is_empty());
    Answer { namespace: namespace.to_owned(), items, unseen: unseen.map(|(_, message)| message) }
}

fn rows(survey: &Survey, only: Option<&Declarer>, namespace: &str) -> Vec<Row> {
    let all = survey.world.rules().keys().filter(|rule| survey.selects_rule(rule));
    let all = all.filter(|rule| only.is_none_or(|only| only == *rule));
    // A rule that the user named and that does not exist gets an answer, too.
    let absent = only.filter(|rule| !survey.world.rules().contains_key(rule));
    let row = |rule: &Declarer| row(rule, brings(&survey.world, &survey.outlooks, rule, namespace));
    all.chain(absent).map(row).collect()
}

fn row(rule: &Declarer, brings: Brings) -> Row {
    let rule = rule.to_string();
    match brings {
        Brings::Copies(count) => {
            Row { rule, brings: true, copies: Some(count), reason: String::new(), message: String::new() }
        }
        Brings::Lacks { reason, message } => {
            Row { rule, brings: false, copies: None, reason: reason.as_str().to_owned(), message }
        }
    }
}

fn table(answer: &Answer, wide: bool) -> String {
    let lacking = answer.items.iter().filter(|row| wide || !row.brings);
    let cells = lacking.map(|row| match row.copies {
        Some(copies) => [row.rule.clone(), "-".into(), format!("{copies} of its copies are there, in order")],
        None => [row.rule.clone(), row.reason.clone(), row.message.clone()],
    });
    let header = ["RULE", "REASON", "MESSAGE"].map(str::to_owned);
    let lines: Vec<[String; 3]> = std::iter::once(header).chain(cells).collect();
    if let Some(why) = &answer.unseen {
        return format!("{why}\n");
    }
    if lines.len() == 1 {
        let brings = answer.items.iter().filter(|row| row.brings).count();
        return format!("Nothing is missing in {}: {brings} rules bring their copies.\n", answer.namespace);
    }
    aligned(&lines).join("\n") + "\n"
}

/// The rules with missing copies; an annotated source has the name of its rule.
fn names(rows: &[Row]) -> String {
    let lacking = rows.iter().filter(|row| !row.brings).filter_map(|row| Declarer::parse(&row.rule));
    output::names(lacking.map(|rule| match rule {
        Declarer::Annotated(source) => (source.kind.to_string(), source.name.clone()),
        rule => ("CopyratorRule".to_owned(), rule.named().name),
    }))
}
