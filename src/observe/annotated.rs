//! Rules declared by annotations of their source. They are kept among the rules, under names of their own, and go the
//! rules' way from there: one planner, one validator, one way to ask for authority.

use std::{collections::BTreeMap, sync::Arc};

use super::object::Asks;
use crate::{
    api::CopyratorRuleStatus,
    marks::{AUTHOR, AUTHOR_GROUPS, AUTHORIZED, COPY_TO, COPY_TO_SELECTOR},
    model::{ObjectKey, RuleFacts, World},
    validate::annotated_rule,
};

/// Takes in what an object asks for, or that it asks for nothing (any more).
pub(super) fn put(world: &mut World, source: &ObjectKey, uid: &str, asks: Option<Box<Asks>>) {
    let rule = source.annotation_rule();
    let counts = world.annotations && world.only_rule.is_none();
    let declared = asks.filter(|_| counts).and_then(|asks| declare(source, uid, *asks));
    match declared {
        Some(mut facts) => {
            let known = world.rules.get(&rule).filter(|known| known.uid == facts.uid);
            // The status of such a rule is in memory alone. What was proven is read from the object each time.
            if let Some(status) = known.and_then(|known| known.status.clone()) {
                let authorized_proof = facts.status.and_then(|status| status.authorized_proof);
                facts.status = Some(CopyratorRuleStatus { authorized_proof, ..status });
            }
            world.rules.insert(rule, facts);
        }
        None if world.rules.remove(&rule).is_some() => {
            world.rule_authority.remove(&rule);
        }
        None => {}
    }
}

fn declare(source: &ObjectKey, uid: &str, asks: Asks) -> Option<RuleFacts> {
    let Asks { annotations, created } = asks;
    let annotation = |key: &str| annotations.get(key).map(String::as_str);
    let (spec, compiled) = match annotated_rule(source.kind, &source.name, annotation)? {
        Ok((spec, compiled)) => (spec, Ok(Arc::new(compiled))),
        Err(problems) => (Default::default(), Err(problems)),
    };
    let authorized_proof = annotations.get(AUTHORIZED).cloned();
    Some(RuleFacts {
        uid: uid.into(),
        resource_version: "".into(),
        generation: generation(&annotations),
        created,
        spec,
        compiled,
        status: Some(CopyratorRuleStatus { authorized_proof, ..CopyratorRuleStatus::default() }),
        annotations,
    })
}

/// Stands for what the annotations say and for who says it, as a generation does for a spec: equal as long as they are.
/// It is part of what a proof speaks of, so it must be the same in every build.
fn generation(annotations: &BTreeMap<String, String>) -> i64 {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for key in [COPY_TO, COPY_TO_SELECTOR, AUTHOR, AUTHOR_GROUPS] {
        let value = annotations.get(key);
        let length = value.map_or(u64::MAX, |value| value.len() as u64);
        context.update(&length.to_be_bytes());
        context.update(value.map_or(&[], |value| value.as_bytes()));
    }
    let digest = context.finish();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.as_ref()[..8]);
    i64::from_be_bytes(bytes) & i64::MAX
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::{Kind, NamespacedName};

    fn asks(annotations: &[(&str, &str)]) -> Option<Box<Asks>> {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(Box::new(Asks { annotations: annotations.collect(), created: Timestamp::UNIX_EPOCH }))
    }

    #[test]
    fn annotations_declare_a_rule_until_they_go() {
        let mut world = World::default();
        world.annotations = true;
        let source = ObjectKey::new(Kind::Secret, "shop", "registry");
        let rule = NamespacedName::new("shop", "secret:registry");
        assert_eq!(rule.annotated().as_ref(), Some(&source));
        put(&mut world, &source, "u", asks(&[(COPY_TO, "web"), (AUTHORIZED, "proof")]));
        let first = world.rules[&rule].clone();
        assert!(first.compiled.is_ok());
        assert_eq!(first.status.unwrap().authorized_proof.as_deref(), Some("proof"));

        // A status is kept for as long as it is the same object, a proof for as long as it stands there.
        world.rules.get_mut(&rule).unwrap().status.as_mut().unwrap().current = 3;
        put(&mut world, &source, "u", asks(&[(COPY_TO, "web,shop")]));
        let second = world.rules[&rule].clone();
        assert_ne!(second.generation, first.generation);
        let status = second.status.unwrap();
        assert_eq!((status.current, status.authorized_proof), (3, None));
        put(&mut world, &source, "other", asks(&[(COPY_TO, "web")]));
        assert_eq!(world.rules[&rule].status.as_ref().unwrap().current, 0);
        assert_eq!(world.rules[&rule].generation, first.generation);

        put(&mut world, &source, "other", asks(&[(COPY_TO, "")]));
        assert!(world.rules[&rule].compiled.is_err());
        put(&mut world, &source, "other", None);
        assert!(world.rules.is_empty());
    }

    #[test]
    fn annotations_that_do_not_count_declare_nothing() {
        let source = ObjectKey::new(Kind::ConfigMap, "shop", "a");
        let mut off = World::default();
        put(&mut off, &source, "u", asks(&[(COPY_TO, "web")]));
        let mut one = World::default();
        one.annotations = true;
        one.only_rule = Some(NamespacedName::new("shop", "main"));
        put(&mut one, &source, "u", asks(&[(COPY_TO, "web")]));
        assert!(off.rules.is_empty() && one.rules.is_empty());
    }
}
