//! Which kinds are granted to templates, by a flag of commands and of `serve`.

use std::collections::BTreeSet;

use super::{UsageError, non_empty};
use crate::{
    names::{GrantedKinds, TemplateKind},
    validate::grant_fault,
};

/// The kinds that are granted to templates.
#[derive(Clone, Debug, clap::Args)]
pub struct TemplateKinds {
    /// Kinds that templates may declare (render), that rules may also copy (render+copy), or that templates
    /// may select (forEach, status, statusField): APIVERSION/KIND/PLURAL/USE, such as
    /// cert-manager.io/v1/Certificate/certificates/render.
    #[arg(long, env = "COPYRATOR_TEMPLATE_KINDS", value_delimiter = ',', value_name = "KIND,…")]
    template_kinds: Vec<String>,
}

impl TemplateKinds {
    /// Wraps the values of a flag that a different struct declares.
    pub(crate) fn of(template_kinds: Vec<String>) -> Self {
        Self { template_kinds }
    }

    /// Returns the kinds; adds kinds without a built-in type to the registry `kinds`.
    pub fn kinds(self, kinds: &GrantedKinds) -> Result<BTreeSet<TemplateKind>, UsageError> {
        let words: Vec<String> = non_empty(self.template_kinds).collect();
        let fault = |message| UsageError::Value { flag: "template-kinds", message };
        let read = TemplateKind::read_all(words.iter().map(String::as_str), kinds);
        let read = read.map_err(|error| fault(error.to_string()))?;
        match read.iter().find_map(grant_fault) {
            None => Ok(read),
            Some(message) => Err(fault(message)),
        }
    }
}
