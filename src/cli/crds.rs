//! `copyrator crds`

use super::{Exit, print};
use crate::crds::{KubeVersion, yaml};

/// Print the CustomResourceDefinitions and admission policies as YAML.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator crds | kubectl apply --server-side -f -\n  \
    copyrator crds --kube-version 1.34 | kubectl apply --server-side -f -")]
pub struct Args {
    /// Leave out what a server of this version does not know: before 1.36 the policy that stamps authors, which a hook
    /// does there.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<KubeVersion>,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        print(&yaml(self.kube_version))
    }
}
