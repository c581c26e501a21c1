//! Patterns of policies, which match whole values.

use copyrator_cel::{Pattern, PatternError};

use crate::{api::Problem, validate::invalid};

/// Compiles a pattern to match whole texts only, or reports its problem at `field`.
pub(super) fn whole(field: &str, pattern: &str, problems: &mut Vec<Problem>) -> Option<Pattern> {
    let report = |error| {
        let message = match error {
            PatternError::Invalid => format!("{pattern:?} {error}"),
            _ => error.to_string(),
        };
        problems.push(invalid(field, message));
    };
    Pattern::whole(pattern).map_err(report).ok()
}
