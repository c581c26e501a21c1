//! The API server's last answers about the rights of an identity.

use std::time::Duration;

use jiff::Timestamp;

use super::{hold::AGAIN, inert::authority};
use crate::{
    authority::{Subject, template_questions},
    model::{Authority, Declaration, RefusalReason, Right, World},
    names::Declarer,
    plan::is_younger,
};

/// Maximum age that the API server's yes may have at a write.
const YES_FOR: Duration = Duration::from_secs(30);

/// The API server's answer about a right, while the answer is valid.
pub(super) enum Heard<'w> {
    /// The identity has the right.
    Yes,
    /// The identity does not have the right, and why.
    No { refusal: &'w str, asked: Timestamp },
    /// The API server has to be asked, or asked again.
    Nothing,
}

/// Whether the identity of a rule has a right in a namespace.
pub(super) fn heard<'w>(
    world: &'w World,
    rule: &Declarer,
    right: &Right,
    namespace: &str,
    now: Timestamp,
) -> Heard<'w> {
    let Some(known) = world.may(rule, right, namespace) else { return Heard::Nothing };
    match &known.answer {
        Ok(()) if is_younger(known.asked, YES_FOR, now) => Heard::Yes,
        Err(refusal) if is_younger(known.asked, AGAIN, now) => Heard::No { refusal, asked: known.asked },
        _ => Heard::Nothing,
    }
}

/// Whether the API server answered that the identity of a rule or template lacks a declared right. A
/// suspended or invalid rule can be refused, too: its author could otherwise keep a place, or protect an
/// object, by writing `suspend: true`. A question that was not asked is no refusal.
pub(super) fn is_refused(world: &World, rule: &Declarer) -> bool {
    let authority = match world.declaration(rule) {
        Some(Declaration::Rule(facts)) => authority(world, rule, facts),
        Some(Declaration::Template(facts)) => authority(world, rule, facts),
        None => return false,
    };
    let refusal = authority.and_then(|authority| authority.answer.as_ref().err());
    refusal.is_some_and(|refusal| refusal.reason != RefusalReason::TooManyQuestions)
}

/// Whether rights of a rule or template can be withdrawn: all rights of a ServiceAccount, and an author's
/// rights to read in namespaces other than the rule's or template's own.
pub fn can_be_withdrawn(world: &World, of: &Declarer, declared: Declaration<'_>) -> bool {
    declared.account().is_some()
        || match declared {
            Declaration::Rule(facts) => {
                facts.spec.source.namespaces.iter().any(|name| **name != **of.namespace())
            }
            Declaration::Template(facts) => {
                let (compiled, kinds) = (facts.compiled.as_deref().ok(), &world.settings().template_kinds);
                template_questions(of.namespace(), &facts.spec, compiled, &Subject::default(), kinds)
                    .iter()
                    .any(|question| question.reads_elsewhere(of.namespace()))
            }
        }
}

/// Whether an answer about rights that can be withdrawn is too old to act by.
pub fn is_too_old(known: &Authority, now: Timestamp) -> bool {
    !is_younger(known.asked, YES_FOR, now)
}
