//! The message about a rule or template that writes nothing at present, for statuses and commands.

use super::{
    granted::{not_granted, not_granted_to, not_listed, not_listed_sources},
    inert::{Inert, authority, unseen_source},
};
use crate::{
    api::Problem,
    authority::NOT_ASKED,
    model::{Unseen, World},
    names::Declarer,
    plan::Reason,
    validate::SpecFault,
};

/// Returns reason and message for a rule or template that writes nothing at present.
pub fn why_inert(world: &World, of: &Declarer, why: Inert) -> (Reason, String) {
    let rule = world.rules().get(of);
    let template = world.templates().get(of);
    let compiled_rule = rule.and_then(|facts| facts.compiled.as_deref().ok());
    let compiled_template = template.and_then(|facts| facts.compiled.as_deref().ok());
    match why {
        Inert::Invalid => {
            let of_rule = rule.and_then(|facts| facts.compiled.as_ref().err());
            let problems = of_rule.or_else(|| template?.compiled.as_ref().err());
            let problems: &[Problem] = problems.map(Vec::as_slice).unwrap_or_default();
            let message = problems.first().map(|problem| problem.message.clone());
            (SpecFault::first(problems).into(), message.unwrap_or_default())
        }
        Inert::NotGranted => {
            let of_rule = compiled_rule.map(|compiled| not_granted(compiled.kind));
            let why = of_rule.or_else(|| not_granted_to(world, compiled_template?));
            (Reason::KindNotGranted, why.unwrap_or_default())
        }
        Inert::NotListed => {
            let of_rule = compiled_rule.map(|compiled| not_listed_sources(world, compiled.kind));
            let why = of_rule.or_else(|| not_listed(world, compiled_template?));
            why.unwrap_or((Reason::KindUnread, String::new()))
        }
        Inert::Suspended => {
            (Reason::Suspended, "spec.suspend is true: Copyrator writes and removes nothing".into())
        }
        Inert::Unseen => {
            let unseen = compiled_rule.and_then(|compiled| world.unseen(unseen_source(world, of, compiled)?));
            let (reason, message) = unseen.unwrap_or((Unseen::OutOfSight, String::new()));
            (reason.into(), format!("namespace of the sources: {message}"))
        }
        Inert::Unauthorized => {
            let of_rule = rule.and_then(|facts| authority(world, of, facts));
            let known = of_rule.or_else(|| authority(world, of, template?));
            match known.and_then(|known| known.answer.as_ref().err()) {
                Some(refusal) => (Reason::Refused(refusal.reason), refusal.message.clone()),
                None => (Reason::AuthorityUnknown, NOT_ASKED.into()),
            }
        }
    }
}
