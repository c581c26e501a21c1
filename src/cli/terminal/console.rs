//! Prints for the user of a command: data on standard output, everything else on standard error.

use std::io::{IsTerminal as _, Write as _};

use super::exit::Exit;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// What to print beside data, and whether in colours.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "What is said")]
pub(crate) struct Console {
    /// When to use colours: auto is on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Colour,
    /// Print no notes on standard error, only data and errors.
    #[arg(short, long)]
    quiet: bool,
}

impl Console {
    /// A console that prints no notes, as with `--quiet`.
    pub(crate) fn silent() -> Self {
        Self { quiet: true, ..Self::default() }
    }

    /// Prints a note for a reader of the output on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Whether to use colours. A colour alone never means anything.
    pub(crate) fn is_coloured(&self) -> bool {
        // https://no-color.org: set, and not empty.
        let declined = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        is_coloured(self.color, std::io::stdout().is_terminal(), declined())
    }
}

fn is_coloured(wish: Colour, is_terminal: bool, is_declined: bool) -> bool {
    match wish {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => is_terminal && !is_declined,
    }
}

/// Prints a line on standard error.
pub(crate) fn say(text: &str) {
    // If standard error is closed, there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "copyrator: {text}");
}

/// Prints an error with its causes.
pub(crate) fn fail(error: &dyn std::error::Error, exit: Exit) -> Exit {
    say(&with_distinct_causes(error));
    exit
}

/// An error with those of its causes that the text before does not contain already.
pub(crate) fn with_distinct_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Writes data to standard output. A closed pipe is the reader's choice, and no failure.
pub(crate) fn print(text: &str) -> Exit {
    let written = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error, Exit::Findings),
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        for (wish, is_terminal, is_declined, expected) in [
            (Colour::Auto, true, false, true),
            (Colour::Auto, true, true, false),
            (Colour::Auto, false, false, false),
            (Colour::Always, false, true, true),
            (Colour::Never, true, false, false),
        ] {
            assert_eq!(
                is_coloured(wish, is_terminal, is_declined),
                expected,
                "{wish:?} {is_terminal} {is_declined}"
            );
        }
    }
}
