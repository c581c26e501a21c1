//! The planner alone, in this process and without a cluster: what it costs to know of many copies that are in place, to
//! look at all of them, and to hear of one change. Each world is made of objects as watches bring them.

use std::collections::BTreeSet;
use std::time::Instant;

use copyrator::api::CopyratorRule;
use copyrator::digest::DigestKey;
use copyrator::intake::{AsWritten, object::Slim, watched::Watched};
use copyrator::marks::COPY_MANAGER;
use copyrator::plan::{
    Changed, Key, affected,
    copy::{CopyAction, Intent, plan_slot, rule_status},
    everything, slots_to_check,
};
use copyrator::{
    digest::{Fingerprint, KeyPrint},
    model::{Authority, NamespaceFacts, Refusal, RefusalReason, Store, World},
    names::{Kind, ObjectKey},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, OF_SCALE, named_rule, scale_labels};
use crate::processes::memory;
use crate::sizes::Sizes;

/// What a copy may take, name, marks and indexes, in bytes.
const COPY: f64 = 1200.0;

pub(super) fn run(sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    for _ in 0..sizes.rounds.min(3) {
        many_copies(&mut figures, sizes)?;
        many_sources(&mut figures, sizes);
        one_namespace(&mut figures, sizes);
        refused(&mut figures, sizes);
    }
    Ok(figures)
}

/// Rules with templates of names, each of two fifths of the namespaces, and every copy in place.
fn many_copies(figures: &mut Figures, sizes: &Sizes) -> Outcome<()> {
    let (namespaces, others) = (sizes.scale_namespaces, sizes.scale_namespaces * 2 / 5);
    let mut world = world(namespaces);
    for number in 0..OF_SCALE {
        secret(&mut world, HOME, &format!("app-{number:02}-a"), json!({}));
        rule(&mut world, named_rule(number), true);
    }
    for number in 0..others {
        secret(&mut world, HOME, &format!("other-{number:05}"), json!({}));
    }
    let before = memory(std::process::id())?.resident;
    let slots = timed(figures, "templates of names: keys of everything", "ms", 1e3, || slots(&world));
    let plans = timed(figures, "templates of names: every slot planned, none there", "s", 1.0, || {
        slots.iter().map(|slot| (slot, plan_slot(&world, slot, now()))).collect::<Vec<_>>()
    });
    let copies: Vec<(ObjectKey, Value)> = plans
        .into_iter()
        .filter_map(|(slot, plan)| match plan.action {
            Some(CopyAction::Write(write)) => Some((slot.clone(), metadata(&write.intent))),
            _ => None,
        })
        .collect();
    figures.add("templates of names: copies", "", copies.len() as f64);
    let count = copies.len() as f64;
    let bare = memory(std::process::id())?.resident;
    for (slot, metadata) in copies {
        seen(&mut world, &slot.namespace, &slot.name, metadata);
    }
    drop(slots);
    let after = memory(std::process::id())?.resident;
    figures.add("templates of names: memory beyond the sources, at most", "MB", after - before);
    figures.add_with(
        "templates of names: a copy, at least",
        "B",
        Budget::median(COPY),
        (after - bare).max(0.0) * 1e6 / count,
    );
    let all = timed(figures, "templates of names: keys of everything, all there", "ms", 1e3, || {
        self::slots(&world)
    });
    timed(figures, "templates of names: every slot planned, all there", "s", 1.0, || {
        assert!(
            all.iter().all(|slot| plan_slot(&world, slot, now()).action.is_none()),
            "a copy is not in order"
        );
    });
    let rules: Vec<_> = world.rules().keys().cloned().collect();
    timed(figures, "templates of names: every status", "s", 1.0, || {
        for rule in &rules {
            let status = rule_status(&world, rule, now());
            assert!(status.is_some_and(|status| status.current == status.desired), "{rule} is not in order");
        }
    });
    event(figures, "templates of names: keys of a source", &world, secret_key("app-00-a"));
    event(figures, "templates of names: keys of another object", &world, secret_key("other-00000"));
    let rule = rules.first().cloned().ok_or("there is no rule")?;
    timed(figures, "templates of names: keys of a rule", "ms", 1e3, || slots_to_check(&world, &rule));
    Ok(())
}

/// Sources that ask for copies themselves, each one rule, and each in one namespace.
fn many_sources(figures: &mut Figures, sizes: &Sizes) {
    let count = sizes.scale_sources;
    let mut world = world(100);
    world.settings_mut().annotations = true;
    for number in 0..count {
        let metadata = json!({"labels": {"copyrator.dev/declares": "true"}, "annotations": {"copyrator.dev/copy-to": format!("team-{:05}", number % 100),
            "copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]"}});
        secret(&mut world, HOME, &format!("source-{number:05}"), metadata);
    }
    let rules: Vec<_> = world.rules().keys().cloned().collect();
    rules.iter().for_each(|rule| grant(&mut world, rule, true));
    let all = timed(figures, "annotated sources: keys of everything", "ms", 1e3, || slots(&world));
    figures.add("annotated sources: copies", "", all.len() as f64);
    timed(figures, "annotated sources: every slot planned", "s", 1.0, || {
        all.iter().for_each(|slot| drop(plan_slot(&world, slot, now())));
    });
    timed(figures, "annotated sources: every status", "s", 1.0, || {
        rules.iter().for_each(|rule| drop(rule_status(&world, rule, now())));
    });
    event(figures, "annotated sources: keys of one", &world, secret_key("source-00000"));
    event(figures, "annotated sources: keys of another object", &world, secret_key("other"));
}

/// One namespace with very many objects, of which a rule selects a few by their labels.
fn one_namespace(figures: &mut Figures, sizes: &Sizes) {
    let mut world = world(100);
    for number in 0..sizes.scale_objects {
        let labels = json!({"labels": {"copied": if number.is_multiple_of(1000) { "yes" } else { "no" }}});
        secret(&mut world, HOME, &format!("object-{number:05}"), labels);
    }
    let mut selecting = named_rule(0);
    selecting["spec"]["source"] =
        json!({"kind": "Secret", "objectSelector": {"matchLabels": {"copied": "yes"}}});
    rule(&mut world, selecting, true);
    let all = timed(figures, "one namespace: keys of everything", "ms", 1e3, || slots(&world));
    figures.add("one namespace: copies", "", all.len() as f64);
    timed(figures, "one namespace: every slot planned", "s", 1.0, || {
        all.iter().for_each(|slot| drop(plan_slot(&world, slot, now())));
    });
    event(figures, "one namespace: keys of a source", &world, secret_key("object-00000"));
    event(figures, "one namespace: keys of another object", &world, secret_key("object-00001"));
    let into = Changed::Namespace("team-00000".into());
    timed(figures, "one namespace: keys of another namespace", "ms", 1e3, || affected(&world, &into));
}

/// A rule that may do nothing: the planner yields no slot for it.
fn refused(figures: &mut Figures, sizes: &Sizes) {
    let mut world = world(sizes.scale_namespaces);
    for number in 0..1000 {
        secret(&mut world, HOME, &format!("object-{number:05}"), json!({}));
    }
    let mut greedy = named_rule(0);
    greedy["spec"]["source"] = json!({"kind": "Secret", "objectSelector": {}});
    greedy["spec"]["targets"] = json!([{"namespaceSelector": {}}]);
    rule(&mut world, greedy, false);
    let all = timed(figures, "a rule that may do nothing: keys of everything", "ms", 1e3, || slots(&world));
    figures.add_with("a rule that may do nothing: its slots", "", Budget::every(0.0), all.len() as f64);
    event(figures, "a rule that may do nothing: keys of a source", &world, secret_key("object-00000"));
}

fn slots(world: &World) -> BTreeSet<ObjectKey> {
    let slot = |key| match key {
        Key::Slot(slot) => Some(slot),
        _ => None,
    };
    everything(world).into_iter().filter_map(slot).collect()
}

fn event(figures: &mut Figures, what: &str, world: &World, object: ObjectKey) {
    let changed = Changed::Object(object);
    timed(figures, what, "ms", 1e3, || affected(world, &changed));
}

fn timed<T>(
    figures: &mut Figures,
    what: &str,
    unit: &'static str,
    a_second: f64,
    act: impl FnOnce() -> T,
) -> T {
    let begun = Instant::now();
    let result = act();
    figures.add(what, unit, begun.elapsed().as_secs_f64() * a_second);
    result
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn secret_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Secret, HOME, name)
}

fn world(namespaces: usize) -> World {
    let mut world = World::default();
    world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]));
    world.settings_mut().own_namespace = "copyrator-system".into();
    world.settings_mut().stores = [Store::Secrets].into();
    world.set_all_listed();
    world.set_namespace(HOME.into(), NamespaceFacts::default());
    for number in 0..namespaces {
        let labels = scale_labels(number).into_iter().map(|label| (label, "yes".to_owned())).collect();
        let facts = NamespaceFacts { labels, ..NamespaceFacts::default() };
        world.set_namespace(format!("team-{number:05}").into(), facts);
    }
    world
}

fn rule(world: &mut World, mut rule: Value, may: bool) {
    let name = rule["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    rule["metadata"]["uid"] = json!(name);
    rule["metadata"]["resourceVersion"] = json!("1");
    rule["metadata"]["generation"] = json!(1);
    if let Ok(rule) = serde_json::from_value::<AsWritten<CopyratorRule>>(rule) {
        rule.put(world, now());
    }
    grant(world, &copyrator::names::Declarer::rule(HOME, name), may);
}

fn grant(world: &mut World, rule: &copyrator::names::Declarer, may: bool) {
    let Some(facts) = world.rules().get(rule) else { return };
    let answer = may
        .then_some(())
        .ok_or_else(|| Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned() });
    let (uid, generation) = (facts.uid.clone(), facts.generation);
    let authority = Authority {
        uid,
        generation,
        identity: "user alice".into(),
        answer,
        asked: now(),
        questions: 1,
        refusals: 0,
    };
    world.set_rule_authority(rule, authority);
}

/// Takes in a source whose content is known.
fn secret(world: &mut World, namespace: &str, name: &str, metadata: Value) {
    seen(world, namespace, name, metadata);
    let key = KeyPrint { digest: [1; 16], size: 256, binary: false };
    let print = Fingerprint {
        uid: name.into(),
        resource_version: "1".into(),
        type_: Some("Opaque".into()),
        immutable: false,
        keys: ["ca.crt", "password", "url", "user"].map(|name| (name.to_owned(), key.clone())).into(),
        annotations: [].into(),
        role: None,
        keeper: None,
    };
    world.assume_fingerprint(&ObjectKey::new(Kind::Secret, namespace, name), print);
}

fn seen(world: &mut World, namespace: &str, name: &str, mut metadata: Value) {
    metadata["namespace"] = json!(namespace);
    metadata["name"] = json!(name);
    metadata["uid"] = json!(name);
    metadata["resourceVersion"] = json!("1");
    if let Ok(object) = serde_json::from_value::<Slim<Secret>>(json!({"metadata": metadata})) {
        object.put(world, now());
    }
}

/// A copy's metadata as the API server keeps it.
fn metadata(intent: &Intent) -> Value {
    let fields = |names: Vec<&String>| {
        let names = names.into_iter().map(|name| (format!("f:{name}"), json!({})));
        Value::Object(names.collect::<Map<_, _>>())
    };
    json!({
        "labels": intent.labels, "annotations": intent.annotations,
        "managedFields": [{"manager": COPY_MANAGER, "operation": "Apply", "fieldsV1": {
            "f:data": fields(intent.content.keys().collect()),
            "f:metadata": {"f:labels": fields(intent.labels.keys().collect()),
                "f:annotations": fields(intent.annotations.keys().collect())},
            "f:type": {},
        }}],
    })
}
