//! A `ConfigPolicy`, understood.

use crate::api::{ConfigPolicySpec, Problem};

/// A `ConfigPolicy`, understood.
#[derive(Debug)]
pub struct CompiledPolicy {}

impl CompiledPolicy {
    /// Understands a spec, or says everything that is wrong with it.
    ///
    /// # Errors
    /// At least one problem, each naming its field and the fix.
    pub fn compile(_spec: &ConfigPolicySpec) -> Result<Self, Vec<Problem>> {
        Ok(Self {})
    }
}
