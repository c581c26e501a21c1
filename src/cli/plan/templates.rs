//! The rows of templates in a plan.

use super::report::{RuleRow, from_file, standing};
use crate::{
    api::Problem,
    cli::survey::{OurKind, Survey},
    explain::Course,
    names::NamespacedName,
    plan::copy::{ProblemReason, status_of},
};

/// The row of a template, which is `template` among rules.
pub(super) fn template_row(survey: &Survey, template: &NamespacedName) -> RuleRow {
    let world = &survey.world;
    let plain = NamespacedName::new(template.namespace.clone(), template.template().unwrap_or_default());
    let row = from_file(survey, OurKind::Template, &plain);
    let Some(facts) = world.templates().get(template) else { return row };
    let asked = survey.asked.get(template);
    let (row, is_settled) = standing(row, facts, world.rule_authority(template), asked);
    if is_settled {
        return row;
    }
    let status = status_of(world, template, survey.now).unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let action = match ready.map(|ready| &*ready.reason) {
        Some("KindNotGranted") => Course::Refuse,
        Some("NoInstance" | "Suspended") => Course::Wait,
        _ => {
            let fault = status.problems.iter().find(|one| one.reason == ProblemReason::RenderFailed.as_str());
            return fault.map_or(row.clone(), |fault| unrendered(row, fault));
        }
    };
    let (reason, message) =
        ready.map(|ready| (ready.reason.clone(), ready.message.clone())).unwrap_or_default();
    RuleRow { action: Some(action), reason, message, ..row }
}

/// The row of a template that cannot be rendered in some namespace.
fn unrendered(row: RuleRow, fault: &Problem) -> RuleRow {
    let Problem { namespace, name, reason, message } = fault;
    let message = format!("{name} in namespace {namespace}: {message}");
    RuleRow { action: Some(Course::Refuse), reason: reason.clone(), message, ..row }
}
