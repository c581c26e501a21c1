//! Whatever happens to templates, namespaces, rights and the objects of others: it converges, and then it is silent.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use serde_json::{Value, json};

use super::tests::{answer, at, namespace, plans, template, world};
use crate::{
    explain::carry_out,
    intake::{object::Slim, watched::Watched},
    model::{DeletionAnswer, ObjectFacts, World},
    names::{Kind, NamespacedName, ObjectKey},
    observe::content::decode,
    plan::{
        Need,
        copy::{
            CopyAction,
            claims::{claims_on, inert_template},
        },
    },
    reconcile::rendering::render_all,
};

const PLACES: [&str; 3] = ["one", "two", "three"];
const TEMPLATES: [&str; 3] = ["first", "second", "third"];

#[derive(Clone, Debug)]
enum Event {
    /// A namespace is labelled: of the team or not, with a number of pods or without.
    Label {
        place: usize,
        is_blue: bool,
        has_pods: bool,
    },
    /// A template is written: which of the objects it has.
    Write {
        template: usize,
        has: [bool; 3],
    },
    Delete {
        template: usize,
    },
    /// The author of a template gains or loses rights.
    Rights {
        template: usize,
        may: bool,
    },
    /// Somebody creates an object in the place of a rendered one, where none is.
    Occupy {
        place: usize,
    },
    /// The operator renders, and carries out so many actions before it is killed.
    Run {
        actions: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let (place, template) = (0..PLACES.len(), 0..TEMPLATES.len());
    prop_oneof![
        (place.clone(), any::<bool>(), any::<bool>()).prop_map(|(place, is_blue, has_pods)| Event::Label {
            place,
            is_blue,
            has_pods
        }),
        (template.clone(), any::<[bool; 3]>()).prop_map(|(template, has)| Event::Write { template, has }),
        template.clone().prop_map(|template| Event::Delete { template }),
        (template, any::<bool>()).prop_map(|(template, may)| Event::Rights { template, may }),
        place.prop_map(|place| Event::Occupy { place }),
        (0..4_usize).prop_map(|actions| Event::Run { actions }),
    ]
}

/// The objects that a template can have: one for each namespace, one whose expression needs a label, and one that others may
/// have made. Each says whose it is: the simulation passes by a write that changes nothing but marks.
fn objects(template: usize, has: [bool; 3]) -> Value {
    let of = |id: &str, kind: &str, name: &str, (field, value): (&str, Value)| json!({"id": id, "template": {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: value}});
    let whose = TEMPLATES[template];
    let hard =
        json!({"pods": "${namespaceObject.metadata.labels['pods']}", "services": template.to_string()});
    let all = [
        of("own", "ConfigMap", "own-${namespaceObject.metadata.name}", ("data", json!({"of": whose}))),
        of("quota", "ResourceQuota", "q", ("spec", json!({"hard": hard}))),
        of(
            "shared",
            "ConfigMap",
            "shared",
            ("data", json!({"of": whose, "in": "${namespaceObject.metadata.name}"})),
        ),
    ];
    let chosen: Vec<&Value> = all.iter().zip(has).filter(|(_, has)| *has).map(|(object, _)| object).collect();
    // A template has one object at least.
    if chosen.is_empty() { json!([all[0]]) } else { json!(chosen) }
}

struct Story {
    world: World,
    generation: i64,
}

impl Story {
    fn happen(&mut self, event: &Event) {
        let name = |template: usize| NamespacedName::of_template("platform", TEMPLATES[template]);
        match *event {
            Event::Label { place, is_blue, has_pods } => {
                let mut labels = json!({"team": if is_blue { "blue" } else { "red" }});
                if has_pods {
                    labels["pods"] = "10".into();
                }
                namespace(&mut self.world, PLACES[place], labels);
            }
            Event::Write { template: at, has } => {
                self.generation += 1;
                let version = (TEMPLATES[at], at as i64, self.generation);
                template(&mut self.world, version, objects(at, has));
            }
            Event::Delete { template } => self.world.forget_template(&name(template)),
            Event::Rights { template, may } => {
                if self.world.templates().contains_key(&name(template)) {
                    answer(&mut self.world, &name(template), may);
                }
            }
            Event::Occupy { place } => occupy(&mut self.world, PLACES[place]),
            Event::Run { actions } => {
                render_all(&mut self.world);
                self.act(actions);
            }
        }
    }

    /// Carries out some of what is planned; returns whether anything was.
    fn act(&mut self, most: usize) -> bool {
        let mut plans = plans(&self.world);
        for need in plans.values().flat_map(|plan| plan.needs.clone()).collect::<Vec<_>>() {
            if let Need::Deletion(rule, kind, place) = need {
                let (uid, generation) =
                    self.world.declaration(&rule).map(|it| it.version()).unwrap_or_default();
                let (uid, yes) = (uid.to_owned(), DeletionAnswer { answer: Ok(()), asked: at(100) });
                self.world.note_deletion(&rule, (&uid, generation), (kind, place), yes);
            }
        }
        let needed = plans.values().any(|plan| !plan.needs.is_empty());
        let acting: Vec<ObjectKey> =
            plans.iter().filter(|(_, plan)| plan.action.is_some()).map(|(slot, _)| slot.clone()).collect();
        plans.retain(|slot, _| acting.iter().take(most).any(|acting| acting == slot));
        for (slot, plan) in &plans {
            if let Some(CopyAction::Write(write)) = &plan.action {
                let is_ours = |facts: &ObjectFacts| facts.marks.is_some();
                assert!(self.world.object(slot).is_none_or(is_ours), "{slot} is not ours");
                assert!(write.rendered.is_some());
            }
        }
        carry_out(&mut self.world, &plans, at(100));
        needed || !acting.is_empty()
    }
}

/// Somebody's own object.
fn occupy(world: &mut World, place: &str) {
    let key = ObjectKey::new(Kind::ConfigMap, place, "shared");
    if world.object(&key).is_some() || !world.namespaces().contains_key(place) {
        return;
    }
    let object = json!({"metadata": {"namespace": place, "name": "shared", "uid": "foreign", "resourceVersion": "1",
        "creationTimestamp": Timestamp::UNIX_EPOCH.to_string()}, "data": {"mine": "yes"}});
    let digest_key = world.key().cloned().unwrap();
    let print = decode(Kind::ConfigMap, &object.to_string()).unwrap().fingerprint(&digest_key);
    serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().put(world, at(0));
    world.assume_fingerprint(&key, print);
}

/// What must be there in the end.
fn check(world: &World) {
    for (slot, facts) in world.objects() {
        let Some(marks) = facts.marks.as_deref() else {
            assert_eq!(&*facts.uid, "foreign");
            continue;
        };
        let template = world.templates().get(&marks.rule);
        let is_declared = claims_on(world, slot).iter().any(|claim| *claim.rule == marks.rule);
        let is_kept = template.is_some_and(|facts| {
            let set = world.rendered(&marks.rule, &slot.namespace);
            inert_template(world, &marks.rule, facts).is_some()
                || set.is_some_and(|set| !set.faults.is_empty())
        });
        assert!(is_declared || is_kept, "{slot} of {} stays, and nothing declares it", marks.rule);
    }
    for slot in world.rendered_slots().filter(|slot| !claims_on(world, slot).is_empty()) {
        assert!(world.object(slot).is_some(), "{slot} is declared, and not there");
    }
}

#[test]
fn whatever_happens_it_converges_and_is_silent_then() {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config = ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), ..config };
    }
    let story = vec(event(), 1..24);
    let held = TestRunner::new(config).run(&story, |events| {
        let mut story = Story { world: world(), generation: 0 };
        // What is not wanted goes at once: marks are not simulated.
        story.world.settings_mut().default_grace = Duration::ZERO;
        for place in PLACES {
            namespace(&mut story.world, place, json!({"team": "blue", "pods": "10"}));
        }
        events.iter().for_each(|event| story.happen(event));
        let mut rounds = 0;
        loop {
            render_all(&mut story.world);
            if !story.act(usize::MAX) {
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 8, "it does not come to rest: {:?}", plans(&story.world));
        }
        check(&story.world);
        Ok(())
    });
    held.unwrap_or_else(|fault| panic!("{fault}"));
}
