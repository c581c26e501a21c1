//! `-l`: labels, as kubectl takes them.

use super::usage::UsageError;
use crate::validate::{Selector, parse_selector};

/// Of which labels.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LabelArgs {
    /// Only what has these labels, as kubectl takes them: team=blue,tier!=db.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
}

impl LabelArgs {
    /// The same, checked.
    pub(crate) fn check(self) -> Result<Option<Labels>, UsageError> {
        let wrong = |message: String| UsageError::Value { flag: "selector", message };
        let Some(text) = self.selector else { return Ok(None) };
        let mut problems = Vec::new();
        let selector = parse_selector(&text).map_err(wrong)?;
        let selector = Selector::compile("--selector", &selector, &mut problems);
        match problems.first() {
            Some(problem) => Err(wrong(problem.message.clone())),
            None => Ok(Some(Labels { text, selector })),
        }
    }
}

/// Labels asked for.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// As written.
    pub text: String,
    /// As understood.
    pub selector: Selector,
}
