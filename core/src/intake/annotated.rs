//! Rules and monitors that an object's annotations declare. The world has them among the other rules and
//! monitors, under their own form of name, so the same planner, validator and questions about rights apply to
//! them.

use std::{collections::BTreeMap, sync::Arc};

use super::object::Asks;
use crate::{
    api::{ConfigMonitorStatus, CopyratorRuleStatus, Problem},
    marks::{AUTHOR, AUTHOR_GROUPS, AUTHORIZED, COPY_TO, COPY_TO_SELECTOR, PODS_APPLIED, RESTART_PODS},
    model::{Declared, Labels, MonitorFacts, Remark, RuleFacts, World},
    names::{Declarer, ObjectKey},
    validate::{annotated_monitor, annotated_rule, not_declared},
};

/// The annotations that determine the generation of a rule: the rule's spec, and its author.
const OF_RULES: [&str; 4] = [COPY_TO, COPY_TO_SELECTOR, AUTHOR, AUTHOR_GROUPS];
/// The annotations that determine the generation of a monitor.
const OF_MONITORS: [&str; 3] = [RESTART_PODS, AUTHOR, AUTHOR_GROUPS];

/// Stores the rule and the monitor that an object's annotations declare, and removes a rule or monitor that
/// they no longer declare.
pub(super) fn put(world: &mut World, object: &ObjectKey, uid: &str, asks: Option<Box<Asks>>) {
    let counts = world.settings().annotations && world.settings().only_rule.is_none();
    let asks = asks.as_deref().filter(|_| counts);
    put_rule(world, object, asks.and_then(|asks| rule(object, uid, asks)));
    put_monitor(world, object, asks.and_then(|asks| monitor(object, uid, asks)), asks);
    world.withdraw_recalled(&Declarer::annotated(object.clone()));
}

/// The maximum number of reported objects of one kind and namespace: each report costs memory and an Event.
const MOST_REMARKS: usize = 64;

/// Sets the remark about an object: its annotations that look like ours but are wrong, or else that it has
/// more labels than are kept. Clears the remark if the object has neither problem.
pub(super) fn put_remark(world: &mut World, object: &ObjectKey, misspelt: Option<String>, labels: &Labels) {
    let counts = world.settings().annotations && world.settings().only_rule.is_none();
    let misspelt = misspelt.filter(|_| counts);
    let misspelt = misspelt.map(|text| Remark { reason: Remark::MALFORMED_ANNOTATION, text });
    let partly_read = labels.is_cut().then(|| Remark {
        reason: Remark::PARTLY_READ,
        text: format!(
            "{}: selectors ignore this object, and Copyrator does not copy its labels; remove some labels",
            Labels::TOO_MANY
        ),
    });
    let has_room = world.remarks_beside(object, MOST_REMARKS) < MOST_REMARKS;
    world.set_remark(object, misspelt.or(partly_read).filter(|_| has_room));
}

fn put_rule(world: &mut World, source: &ObjectKey, declared: Option<RuleFacts>) {
    let rule = Declarer::annotated(source.clone());
    match declared {
        Some(mut facts) => {
            let known = world.rules().get(&rule).filter(|known| known.uid == facts.uid);
            // The status of a rule from annotations exists in memory only. The proof of the rule's grant is
            // read from the object each time.
            if let Some(status) = known.and_then(|known| known.status.clone()) {
                let authorized_proof = facts.status.and_then(|status| status.authorized_proof);
                facts.status = Some(CopyratorRuleStatus { authorized_proof, ..status });
            }
            if facts.compiled.is_err() {
                world.forget_rule_authority(&rule, |_| true);
            }
            world.set_rule(rule, facts);
        }
        None => world.forget_rule(&rule),
    }
}

fn put_monitor(world: &mut World, object: &ObjectKey, declared: Option<MonitorFacts>, asks: Option<&Asks>) {
    let name = Declarer::annotated(object.clone());
    let Some(mut facts) = declared else {
        world.forget_monitor(&name);
        return;
    };
    let written = facts.status.take().unwrap_or_default();
    let known = world.monitors().get(&name).filter(|known| known.uid == facts.uid);
    let before = known.and_then(|known| known.status.clone()).unwrap_or_default();
    // A user who replaces the whole object (`kubectl replace`) removes the record together with the content
    // that it describes. This process has seen the recorded content, so the new content counts as a change.
    if written.pods_applied.is_some() || known.is_none() {
        world.set_pods_recorded(&name, asks.and_then(|asks| asks.pods_recorded));
    }
    facts.status = Some(ConfigMonitorStatus {
        authorized_proof: written.authorized_proof,
        pods_applied: written.pods_applied.or(before.pods_applied),
        ..before
    });
    if facts.compiled.is_err() {
        world.forget_monitor_authority(&name, |_| true);
    }
    world.set_monitor(name, facts);
}

fn rule(source: &ObjectKey, uid: &str, asks: &Asks) -> Option<RuleFacts> {
    let annotation = |key: &str| asks.annotations.get(key).map(String::as_str);
    let declared = counting(source, asks, annotated_rule(source.kind.data()?, &source.name, annotation)?);
    let authorized_proof = asks.annotations.get(AUTHORIZED).cloned();
    let status = CopyratorRuleStatus { authorized_proof, ..CopyratorRuleStatus::default() };
    Some(facts(uid, asks, &OF_RULES, declared, status))
}

fn monitor(object: &ObjectKey, uid: &str, asks: &Asks) -> Option<MonitorFacts> {
    let annotation = |key: &str| asks.annotations.get(key).map(String::as_str);
    let declared = counting(object, asks, annotated_monitor(object.kind.data()?, &object.name, annotation)?);
    let written = |key: &str| asks.annotations.get(key).cloned();
    // A record that was pasted from elsewhere, or restored from a backup, does not describe these pods.
    let pods_applied = written(PODS_APPLIED).filter(|_| asks.pods_recorded.is_some());
    let authorized_proof = written(AUTHORIZED);
    let status = ConfigMonitorStatus { authorized_proof, pods_applied, ..ConfigMonitorStatus::default() };
    Some(facts(uid, asks, &OF_MONITORS, declared, status))
}

/// Annotations without the label beside them have no effect: existing copies stay, and Copyrator makes no new
/// copies. An object that loses the label, or never had the label, loses no copies.
fn counting<T>(
    object: &ObjectKey,
    asks: &Asks,
    declared: Result<T, Vec<Problem>>,
) -> Result<T, Vec<Problem>> {
    if asks.declares { declared } else { Err(vec![not_declared(object)]) }
}

fn facts<Spec: Default, Compiled, Status>(
    uid: &str,
    asks: &Asks,
    of: &[&str],
    declared: Result<(Spec, Compiled), Vec<Problem>>,
    status: Status,
) -> Declared<Spec, Compiled, Status> {
    let (spec, compiled) = match declared {
        Ok((spec, compiled)) => (spec, Ok(Arc::new(compiled))),
        Err(problems) => (Spec::default(), Err(problems)),
    };
    Declared {
        uid: uid.into(),
        resource_version: "".into(),
        generation: generation(&asks.annotations, of),
        created: asks.created,
        spec,
        compiled,
        status: Some(status),
        annotations: asks.annotations.clone(),
    }
}

/// A number for the annotations and their author, as `metadata.generation` is for a spec. Proofs contain this
/// number, so every build must compute the same number.
fn generation(annotations: &BTreeMap<String, String>, of: &[&str]) -> i64 {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for key in of {
        let value = annotations.get(*key);
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
    use crate::{
        model::{Authority, ListedGrant},
        names::Kind,
    };

    fn asks(annotations: &[(&str, &str)]) -> Option<Box<Asks>> {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let (annotations, created) = (annotations.collect(), Timestamp::UNIX_EPOCH);
        Some(Box::new(Asks { declares: true, annotations, created, pods_recorded: None }))
    }

    #[test]
    fn annotations_declare_a_rule_until_they_go() {
        let mut world = World::default();
        world.settings_mut().annotations = true;
        let source = ObjectKey::new(Kind::Secret, "shop", "registry");
        let rule = Declarer::annotated(source.clone());
        put(&mut world, &source, "u", asks(&[(COPY_TO, "web"), (AUTHORIZED, "proof")]));
        let first = world.rules()[&rule].clone();
        assert!(first.compiled.is_ok());
        assert_eq!(first.status.unwrap().authorized_proof.as_deref(), Some("proof"));

        // The status stays as long as the object exists, the proof as long as its annotation exists.
        let told = CopyratorRuleStatus { current: 3, ..world.rules()[&rule].status.clone().unwrap() };
        world.set_rule_status(&rule, told);
        put(&mut world, &source, "u", asks(&[(COPY_TO, "web,shop")]));
        let second = world.rules()[&rule].clone();
        assert_ne!(second.generation, first.generation);
        let status = second.status.unwrap();
        assert_eq!((status.current, status.authorized_proof), (3, None));
        put(&mut world, &source, "other", asks(&[(COPY_TO, "web")]));
        assert_eq!(world.rules()[&rule].status.as_ref().unwrap().current, 0);
        assert_eq!(world.rules()[&rule].generation, first.generation);

        put(&mut world, &source, "other", asks(&[(COPY_TO, "")]));
        assert!(world.rules()[&rule].compiled.is_err());
        put(&mut world, &source, "other", None);
        assert!(world.rules().is_empty());
    }

    /// An edit by another user makes that user the author of both declarations; an edit by the same author
    /// only changes the edited declaration.
    #[test]
    fn a_monitor_beside_a_rule_is_a_declaration_of_its_own() {
        let mut world = World::default();
        world.settings_mut().annotations = true;
        let object = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let name = Declarer::annotated(object.clone());
        put(&mut world, &object, "u", asks(&[(COPY_TO, "web"), (AUTHOR, "alice")]));
        let rule = world.rules()[&name].generation;
        assert!(world.monitors().is_empty());
        put(
            &mut world,
            &object,
            "u",
            asks(&[(COPY_TO, "web"), (AUTHOR, "alice"), (RESTART_PODS, "app=web")]),
        );
        let monitor = world.monitors()[&name].generation;
        assert_eq!(world.rules()[&name].generation, rule);
        put(&mut world, &object, "u", asks(&[(COPY_TO, "web"), (AUTHOR, "bob"), (RESTART_PODS, "app=web")]));
        assert!(world.rules()[&name].generation != rule && world.monitors()[&name].generation != monitor);
        put(&mut world, &object, "u", asks(&[(RESTART_PODS, ""), (AUTHOR, "bob")]));
        assert!(world.rules().is_empty() && world.monitors()[&name].compiled.is_err());
        put(&mut world, &object, "u", None);
        assert!(world.monitors().is_empty());
    }

    /// `kubectl replace` writes new content and removes our annotation. The process has seen the object
    /// before.
    #[test]
    fn a_record_that_was_seen_is_remembered_for_as_long_as_it_is_the_same_object() {
        let mut world = World::default();
        world.settings_mut().annotations = true;
        let object = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let name = Declarer::annotated(object.clone());
        let mut recorded = asks(&[(RESTART_PODS, "app=web"), (PODS_APPLIED, "k.d.s")]);
        recorded.as_mut().unwrap().pods_recorded = Some(Timestamp::UNIX_EPOCH);
        put(&mut world, &object, "u", recorded);
        let applied = |world: &World| world.monitors()[&name].status.as_ref().unwrap().pods_applied.clone();
        put(&mut world, &object, "u", asks(&[(RESTART_PODS, "app=web")]));
        assert_eq!(applied(&world).as_deref(), Some("k.d.s"));
        assert_eq!(world.pods_recorded(&name), Some(Timestamp::UNIX_EPOCH));
        let pasted = asks(&[(RESTART_PODS, "app=web"), (PODS_APPLIED, "k.d.s")]);
        put(&mut world, &object, "other", pasted);
        assert_eq!((applied(&world), world.pods_recorded(&name)), (None, None));
    }

    /// No policy guards the author annotations of an object without the label.
    #[test]
    fn without_the_label_nothing_is_declared_and_nothing_is_let_go() {
        let mut world = World::default();
        world.settings_mut().annotations = true;
        let object = ObjectKey::new(Kind::Secret, "shop", "app");
        let name = Declarer::annotated(object.clone());
        let mut unlabelled = asks(&[(COPY_TO, "web"), (RESTART_PODS, "app=web")]);
        put(&mut world, &object, "u", unlabelled.clone());
        assert!(world.rules()[&name].compiled.is_ok() && world.monitors()[&name].compiled.is_ok());
        unlabelled.as_mut().unwrap().declares = false;
        put(&mut world, &object, "u", unlabelled);
        let problems = [
            world.rules()[&name].compiled.as_ref().err().unwrap(),
            world.monitors()[&name].compiled.as_ref().err().unwrap(),
        ];
        for problem in problems.map(|all| &all[0]) {
            assert_eq!(problem.reason, "LabelMissing");
            let fix = "kubectl -n shop label secret app copyrator.dev/declares=true";
            assert!(problem.message.contains(fix), "{}", problem.message);
        }
    }

    /// A tenant keeps the proof, an administrator removes the rights and the annotations, and the tenant
    /// writes annotations and proof again.
    #[test]
    fn a_proof_counts_only_while_what_it_proves_has_been_there_ever_since() {
        let mut world = World::default();
        world.settings_mut().annotations = true;
        let source = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let rule = Declarer::annotated(source.clone());
        let asking = || asks(&[(COPY_TO, "web"), (RESTART_PODS, "app=web"), (AUTHORIZED, "proof")]);
        put(&mut world, &source, "u", asking());
        let generations = [world.rules()[&rule].generation, world.monitors()[&rule].generation];
        let recalls = |world: &World| {
            let of_monitor = world.recalls(&rule, &world.monitors()[&rule]);
            (world.recalls(&rule, &world.rules()[&rule]), of_monitor)
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(recalls(&world), (yes, yes), "who does not lead decides nothing");
        world.begin_recall();
        assert_eq!(recalls(&world), (None, None));
        let listed = || ListedGrant { uid: "u".into(), generations: generations.into() };
        let recall = |world: &mut World, listed: Option<ListedGrant>| {
            world.recall_grants(listed.map(|listed| (rule.clone(), listed)));
        };
        recall(&mut world, Some(listed()));
        put(&mut world, &source, "u", asking());
        assert_eq!(recalls(&world), (yes, yes));
        recall(
            &mut world,
            Some(ListedGrant { generations: generations[..1].iter().copied().collect(), ..listed() }),
        );
        assert_eq!(recalls(&world), (yes, no), "each has a grant of its own");
        recall(&mut world, Some(ListedGrant::default()));
        assert_eq!(recalls(&world), (yes, yes), "an index of an earlier version does not say which");
        recall(&mut world, None);
        assert_eq!(recalls(&world), (no, no), "an earlier leader has seen the object without it");

        let unlabelled = || {
            let mut unlabelled = asking();
            unlabelled.as_mut().unwrap().declares = false;
            unlabelled
        };
        let other = || asks(&[(COPY_TO, "shop"), (RESTART_PODS, "app=shop")]);
        for (uid, without) in [("u", None), ("u", unlabelled()), ("u", other()), ("v", asking())] {
            recall(&mut world, Some(listed()));
            put(&mut world, &source, uid, without.clone());
            put(&mut world, &source, "u", asking());
            assert_eq!(recalls(&world), (no, no), "{uid} {}", without.is_some());
            // A grant is also invalid if the annotations changed while there was no leader.
            put(&mut world, &source, uid, without);
            recall(&mut world, Some(listed()));
            put(&mut world, &source, "u", asking());
            assert_eq!(recalls(&world), (no, no));
        }
        // A grant that this leader checked itself also ends when the label is removed.
        let authority = Authority {
            uid: "u".into(),
            generation: generations[0],
            identity: "user alice".into(),
            answer: Ok(()),
            asked: Timestamp::UNIX_EPOCH,
            questions: 0,
            refusals: 0,
        };
        world.set_rule_authority(&rule, authority);
        put(&mut world, &source, "u", asking());
        assert!(world.rule_authority(&rule).is_some());
        put(&mut world, &source, "u", unlabelled());
        assert!(world.rule_authority(&rule).is_none());
    }

    #[test]
    fn annotations_that_do_not_count_declare_nothing() {
        let source = ObjectKey::new(Kind::ConfigMap, "shop", "a");
        let mut off = World::default();
        put(&mut off, &source, "u", asks(&[(COPY_TO, "web")]));
        let mut one = World::default();
        one.settings_mut().annotations = true;
        one.settings_mut().only_rule = Some(Declarer::rule("shop", "main"));
        put(&mut one, &source, "u", asks(&[(COPY_TO, "web"), (RESTART_PODS, "app=web")]));
        assert!(off.rules().is_empty() && one.rules().is_empty() && one.monitors().is_empty());
    }
}
