//! The results of checking templates against the API server's published schemas.

use crate::api::Problem;

/// The result of checking a template against published schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeReport {
    /// UID and generation of the template.
    pub template: (Box<str>, i64),
    /// Identifies the schemas: it changes when they do.
    pub schemas: u64,
    /// Problems that make the API server refuse the objects, whatever the template is rendered for.
    pub faults: Vec<Problem>,
    /// Whether the schemas of all of its kinds were known.
    pub is_whole: bool,
}
