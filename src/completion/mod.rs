//! `copyrator completion`, and the words that kubectl completes.

mod kubectl;
mod words;

use clap::Command;
use clap_complete::aot::{Shell, generate};

pub(super) use kubectl::through_kubectl;

use copyrator_cli::terminal::{Exit, print};

/// The shells that have a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
}

/// Print a completion script for bash, zsh or fish.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  source <(copyrator completion bash)\n  \
    copyrator completion zsh > \"${fpath[1]}/_copyrator\"\n  copyrator completion fish > ~/.config/fish/completions/copyrator.fish\n\n\
    `kubectl copyrator` gets its completion, also of namespaces, from kubectl if this program is also named kubectl_complete-copyrator: ln -s copyrator kubectl_complete-copyrator, in a directory of $PATH.\n\n\
    Exit codes: 0 done; 2 usage.")]
pub(crate) struct Args {
    /// The shell to complete in.
    #[arg(value_enum)]
    shell: SupportedShell,
}

impl Args {
    /// Prints the completion script of the program, which `program` describes.
    pub(super) fn run(self, mut program: Command) -> Exit {
        let shell = match self.shell {
            SupportedShell::Bash => Shell::Bash,
            SupportedShell::Zsh => Shell::Zsh,
            SupportedShell::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut program, "copyrator", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
