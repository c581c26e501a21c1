//! The name under which the program was started: its own name, the name of kubectl's plugin, or the name by
//! which kubectl completes words.

use std::{ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _, FromArgMatches as _};
use copyrator_cli::terminal::Exit;

use super::completion::through_kubectl;
use crate::command::Cli;

/// The program that kubectl runs for `kubectl copyrator`.
const PLUGIN: &str = "kubectl-copyrator";
/// The program that kubectl runs to complete a word of `kubectl copyrator`.
const COMPLETER: &str = "kubectl_complete-copyrator";

/// Runs the command line, whose first word is the name of the program. Wrong arguments end the process with
/// exit code 2, `--help` and `--version` with 0.
pub fn called(words: Vec<OsString>) -> Exit {
    let name = words.first().and_then(|name| Path::new(name).file_stem()).unwrap_or_default().to_owned();
    if name == COMPLETER {
        return through_kubectl(Cli::command(), words.into_iter().skip(1).collect());
    }
    let command = if name == PLUGIN { as_plugin() } else { Cli::command() };
    let matches = command.clone().get_matches_from(words);
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli.run(),
        // Prints the error with the usage of the command, as clap's own parse does.
        Err(error) => error.format(&mut command.clone()).exit(),
    }
}

/// The command line with usage and examples for `kubectl copyrator`: people do not type the plugin's file
/// name (multi-tenancy#601).
fn as_plugin() -> Command {
    let names: Vec<String> = Cli::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let renamed = |text: String| {
        names.iter().fold(text, |text, name| {
            text.replace(&format!("copyrator {name}"), &format!("kubectl copyrator {name}"))
        })
    };
    let command = Cli::command().bin_name("kubectl copyrator");
    command.mut_subcommands(|one| match one.get_after_help().map(ToString::to_string) {
        Some(text) => one.after_help(renamed(text)),
        None => one,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_named_as_it_is_typed() {
        let mut command = as_plugin();
        command.build();
        let plan = command.find_subcommand_mut("plan").unwrap().render_long_help().to_string();
        assert!(plan.contains("Usage: kubectl copyrator plan"), "{plan}");
        assert!(plan.contains("| kubectl copyrator plan -f -"), "{plan}");
        let bare = plan.replace("kubectl copyrator plan", "");
        assert!(!bare.contains("copyrator plan"), "{plan}");
        assert!(!plan.contains("kubectl kubectl"), "{plan}");
    }
}
