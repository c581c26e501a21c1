//! The flag `-l` with a label selector, as in kubectl.

use super::usage::UsageError;
use crate::validate::{Selector, parse_selector};

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LabelArgs {
    /// Only objects with these labels, as in kubectl: team=blue,tier!=db.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
}

impl LabelArgs {
    /// The parsed selector; `None` without the flag.
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

/// A label selector, as text and parsed.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The text that the user wrote.
    pub text: String,
    /// The parsed selector, for matching.
    pub selector: Selector,
}
