//! Kinds that no release of Copyrator knows by name: the chart's value `templates.kinds` grants them to templates, and to rules.

use super::ResourceType;

/// A kind that is known at run time only, by its names in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantedKind {
    resource: &'static ResourceType,
    is_copied: bool,
}

impl GrantedKind {
    /// The kind of these names, which rules may copy, too, if `is_copied` says so.
    pub(crate) const fn new(resource: &'static ResourceType, is_copied: bool) -> Self {
        Self { resource, is_copied }
    }

    /// The names of the kind in the API.
    pub const fn resource(self) -> ResourceType {
        *self.resource
    }

    /// Whether rules copy objects of the kind. Then they are kept whole, and the metadata of all of them is in memory.
    pub const fn is_copied(self) -> bool {
        self.is_copied
    }
}
