//! For objects of which kinds templates are rendered, by a flag of commands and of `serve`.

use std::collections::BTreeSet;

use super::{UsageError, non_empty};
use crate::names::{NoTemplateKind, TemplateKind};

/// The kinds whose objects templates are rendered for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TemplateKinds {
    /// Kinds whose objects templates are rendered for: APIVERSION/KIND/PLURAL/USE, such as
    /// web.example.com/v1/NginxServer/nginxservers/forEach.
    #[arg(long, env = "COPYRATOR_TEMPLATE_KINDS", value_delimiter = ',', value_name = "KIND,…")]
    template_kinds: Vec<String>,
}

impl TemplateKinds {
    /// The kinds.
    pub(crate) fn kinds(self) -> Result<BTreeSet<TemplateKind>, UsageError> {
        let read = non_empty(self.template_kinds).map(|word| word.parse());
        read.collect::<Result<_, NoTemplateKind>>()
            .map_err(|error| UsageError::Value { flag: "template-kinds", message: error.to_string() })
    }
}
