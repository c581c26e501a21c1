//! Patterns of policies.

use copyrator_cel::{Pattern, PatternError};

use crate::{api::Problem, validate::invalid};

/// Compiles a pattern so that it matches whole texts only, or reports what is wrong with it at `field`.
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
