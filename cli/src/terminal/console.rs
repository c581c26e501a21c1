//! Prints for the user of a command: data on standard output, everything else on standard error.

use std::io::{IsTerminal as _, Write as _};

use super::exit::Exit;
use crate::validate::printable;

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
pub struct Console {
    /// When to use colours: auto is on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Colour,
    /// Print no notes on standard error, only errors.
    #[arg(short, long)]
    quiet: bool,
}

impl Console {
    /// A console that prints no notes, as with `--quiet`.
    pub fn silent() -> Self {
        Self { quiet: true, ..Self::default() }
    }

    /// Prints a note for a reader of the output on standard error.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Whether to use colours. A colour only repeats what the text says.
    pub(crate) fn is_coloured(&self) -> bool {
        // `NO_COLOR` switches colours off if it is set and not empty (https://no-color.org).
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
pub fn say(text: &str) {
    // A closed standard error leaves no place to report this.
    let _ = writeln!(std::io::stderr(), "copyrator: {}", harmless(text));
}

/// The text without control sequences for a terminal, except line ends, tabs and colours: other people may
/// have written parts of the text.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\t', '\u{1b}']) {
        let (plain, kept) = rest.split_at(at);
        let length = if kept.starts_with('\u{1b}') { colour_length(kept) } else { 1 };
        out.push_str(&printable(plain, usize::MAX));
        match length {
            0 => out.push_str("\\u{1b}"),
            length => out.push_str(&kept[..length]),
        }
        rest = &kept[length.max(1)..];
    }
    out + &printable(rest, usize::MAX)
}

/// The length of the colour sequence at the beginning of the text; 0 without a colour sequence.
fn colour_length(text: &str) -> usize {
    let Some((code, _)) = text.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')) else {
        return 0;
    };
    let is_colour = code == "0" || (code.len() == 2 && ("30".."38").contains(&code));
    if is_colour { code.len() + 3 } else { 0 }
}

/// Prints an error with its causes.
pub fn fail(error: &dyn std::error::Error, exit: Exit) -> Exit {
    say(&with_distinct_causes(error));
    exit
}

/// An error with all causes that the text before does not contain already.
pub fn with_distinct_causes(error: &dyn std::error::Error) -> String {
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
pub fn print(text: &str) -> Exit {
    let mut out = std::io::stdout();
    // A program that reads the output gets the data unchanged.
    let shown = out.is_terminal().then(|| harmless(text));
    let written = out.write_all(shown.as_deref().unwrap_or(text).as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&error, Exit::Findings),
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_that_others_have_written() {
        let (plain, coloured) = ("one\n\ttwo\n", "\u{1b}[32m  + Secret\u{1b}[0m\n");
        assert_eq!([plain, coloured].map(harmless), [plain, coloured]);
        for (theirs, shown) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{1b}]0;title\u{7}", "a\\u{1b}]0;title\\u{7}"),
            ("a\u{1b}[8mb\u{9b}2Jc", "a\\u{1b}[8mb\\u{9b}2Jc"),
            ("a\rb\u{202e}", "a\\rb\\u{202e}"),
            ("\u{1b}", "\\u{1b}"),
        ] {
            assert_eq!(harmless(theirs), shown);
        }
    }

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
