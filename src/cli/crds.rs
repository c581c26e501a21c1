//! `copyrator crds`

use super::{Exit, print};

/// Print the CustomResourceDefinitions and admission policies as YAML.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  copyrator crds | kubectl apply --server-side -f -")]
pub struct Args {}

impl Args {
    pub(super) fn run(self) -> Exit {
        print(&crate::crds::yaml())
    }
}
