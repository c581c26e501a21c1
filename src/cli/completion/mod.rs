//! `copyrator completion`, and the words that kubectl completes.

mod kubectl;
mod words;

use clap::CommandFactory as _;
use clap_complete::aot::{Shell, generate};

pub(super) use kubectl::through_kubectl;

use super::{
    Cli,
    terminal::{Exit, print},
};

/// Shells that there are words for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

/// Print what completes these commands in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  source <(copyrator completion bash)\n  \
    copyrator completion zsh > \"${fpath[1]}/_copyrator\"\n  copyrator completion fish > ~/.config/fish/completions/copyrator.fish\n\n\
    `kubectl copyrator` is completed by kubectl itself, namespaces too, where this program is also found as \
    kubectl_complete-copyrator: ln -s copyrator kubectl_complete-copyrator, in a directory of $PATH.\n\n\
    Exit codes: 0 done; 2 usage.")]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Known,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let shell = match self.shell {
            Known::Bash => Shell::Bash,
            Known::Zsh => Shell::Zsh,
            Known::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut Cli::command(), "copyrator", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
