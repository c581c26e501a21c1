//! Kinds that no release of Copyrator knows by name: the chart's value `templates.kinds` grants them to templates.

use super::ResourceType;

/// A kind that is known at run time only, by its names in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantedKind(&'static ResourceType);

impl GrantedKind {
    /// The kind of these names.
    pub(crate) const fn new(resource: &'static ResourceType) -> Self {
        Self(resource)
    }

    /// The names of the kind in the API.
    pub const fn resource(self) -> ResourceType {
        *self.0
    }
}
