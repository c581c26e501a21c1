//! Why a rule or template writes nothing at present.

use super::templates::{not_granted_objects, not_read_kind, unknown_kind};
use crate::{
    model::{Authority, Declared, RuleFacts, TemplateFacts, World},
    names::Declarer,
    validate::CompiledRule,
};

/// Why a rule writes nothing at present. The rule's existing copies stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inert {
    /// The rule's spec is invalid.
    Invalid,
    /// The installation is not granted the rule's kind, or the kind of the template's instances.
    NotGranted,
    /// Objects that the template is rendered for, declares or copies are not known: their kind is not served,
    /// or the list failed.
    NotListed,
    /// The rule has `suspend: true`.
    Suspended,
    /// A namespace of the rule's sources cannot be read, so the sources are not known.
    Unseen,
    /// The rule's identity lacks a right that the rule declares, or the API server has not been asked yet.
    Unauthorized,
}

/// Why a rule writes nothing at present; `None` for a rule that may write.
pub fn inert(world: &World, rule: &Declarer, facts: &RuleFacts) -> Option<Inert> {
    match &facts.compiled {
        Err(_) => Some(Inert::Invalid),
        Ok(compiled) if !world.settings().copies(compiled.kind) => Some(Inert::NotGranted),
        Ok(compiled) if compiled.suspend => Some(Inert::Suspended),
        Ok(compiled) if unseen_source(world, rule, compiled).is_some() => Some(Inert::Unseen),
        Ok(compiled) if !world.granted_read(compiled.kind).is_known() => Some(Inert::NotListed),
        Ok(_) => {
            let may = authority(world, rule, facts).is_some_and(|authority| authority.answer.is_ok());
            (!may).then_some(Inert::Unauthorized)
        }
    }
}

/// Why a template writes nothing at present; `None` for a template that may write.
pub fn inert_template(world: &World, template: &Declarer, facts: &TemplateFacts) -> Option<Inert> {
    match &facts.compiled {
        Err(_) => Some(Inert::Invalid),
        Ok(compiled)
            if not_granted_objects(world, compiled).next().is_some()
                || not_read_kind(world, compiled).is_some() =>
        {
            Some(Inert::NotGranted)
        }
        Ok(compiled) if compiled.suspend => Some(Inert::Suspended),
        Ok(compiled) if unknown_kind(world, compiled).is_some() => Some(Inert::NotListed),
        Ok(_) if authority(world, template, facts).is_none_or(|authority| authority.answer.is_err()) => {
            Some(Inert::Unauthorized)
        }
        Ok(_) => None,
    }
}

/// The first namespace of a rule's sources that cannot be read.
pub fn unseen_source<'w>(world: &World, rule: &'w Declarer, compiled: &'w CompiledRule) -> Option<&'w str> {
    world.namespace_scope()?;
    source_namespaces(rule, compiled).find(|namespace| !world.sees(namespace))
}

/// The API server's answer about this exact generation of a rule; `None` if the API server has not been
/// asked.
pub fn authority<'w, S, C, T>(
    world: &'w World,
    rule: &Declarer,
    facts: &Declared<S, C, T>,
) -> Option<&'w Authority> {
    let authority = world.rule_authority(rule)?;
    (authority.uid == facts.uid && authority.generation == facts.generation).then_some(authority)
}

/// The namespaces in which a rule looks for sources, in order and each once.
pub(crate) fn source_namespaces<'w>(
    rule: &'w Declarer,
    compiled: &'w CompiledRule,
) -> impl Iterator<Item = &'w str> {
    let own = compiled.source_namespaces.is_empty().then_some(&**rule.namespace());
    own.into_iter().chain(compiled.source_namespaces.iter().map(String::as_str))
}
