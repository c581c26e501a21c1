//! What the API server's published schemas say of a template's text.

use crate::api::Problem;

/// What holding a template against published schemas has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeReport {
    /// UID and generation of the template.
    pub template: (Box<str>, i64),
    /// Stands for the schemas: they have changed when this has.
    pub schemas: u64,
    /// What the API server would refuse, whatever the template is rendered for.
    pub faults: Vec<Problem>,
    /// Whether the schemas of all of its kinds were known.
    pub is_whole: bool,
}
