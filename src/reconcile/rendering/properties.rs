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

use super::{
    instances::{kind, put, template_for_each, world_with_kind},
    tests::{answer, at, namespace, plans, template},
};
use crate::{
    explain::carry_out,
    intake::{object::Slim, watched::Watched},
    model::{DeletionAnswer, InstancesRead, ObjectFacts, World},
    names::{GrantedKinds, Kind, NamespacedName, ObjectKey, TemplateKind},
    observe::content::decode,
    plan::{
        Need,
        copy::{
            CopyAction,
            claims::{claims_on, inert_template},
        },
    },
    reconcile::rendering::all::render_all,
};

const PLACES: [&str; 3] = ["one", "two", "three"];
/// The last one is rendered for objects, the others for namespaces.
const TEMPLATES: [&str; 4] = ["first", "second", "third", "each"];
const EACH: usize = 3;
const INSTANCES: [&str; 2] = ["a", "b"];

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
    /// An object that templates are rendered for is written, with or without what they read, or is being deleted.
    Object {
        place: usize,
        instance: usize,
        size: Option<u8>,
        is_going: bool,
    },
    /// Such an object is gone.
    Gone {
        place: usize,
        instance: usize,
    },
    /// The kind of those objects is served, or no more.
    Served {
        is_served: bool,
    },
    /// So is a kind that a template declares, and with its definition its objects go.
    Defined {
        is_served: bool,
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
        place.clone().prop_map(|place| Event::Occupy { place }),
        (place.clone(), 0..INSTANCES.len(), proptest::option::of(0..3_u8), proptest::bool::weighted(0.2))
            .prop_map(|(place, instance, size, is_going)| Event::Object { place, instance, size, is_going }),
        (place, 0..INSTANCES.len()).prop_map(|(place, instance)| Event::Gone { place, instance }),
        any::<bool>().prop_map(|is_served| Event::Served { is_served }),
        any::<bool>().prop_map(|is_served| Event::Defined { is_served }),
        (0..4_usize).prop_map(|actions| Event::Run { actions }),
    ]
}

/// The objects that a template can have: one for each namespace, one whose expression needs a label, and one that others may
/// have made. Each says whose it is: the simulation passes by a write that changes nothing but marks.
fn objects(template: usize, has: [bool; 3]) -> Value {
    if template == EACH {
        return objects_for_each(has);
    }
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

/// The same of the template that is rendered for objects: one for each, one whose expression needs a field, of a kind that is granted,
/// and one for all of them, which others may have made.
fn objects_for_each(has: [bool; 3]) -> Value {
    let of = |id: &str, name: &str, data: Value| json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}});
    let all = [
        of("mine", "of-${object.metadata.name}", json!({"of": "${object.metadata.name}"})),
        json!({"id": "size", "template": {"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": "size-${object.metadata.name}"}, "spec": {"size": "${object.spec.size}"}}}),
        of("shared", "shared", json!({"of": "each", "for": "${object.metadata.name}"})),
    ];
    let chosen: Vec<&Value> = all.iter().zip(has).filter(|(_, has)| *has).map(|(object, _)| object).collect();
    if chosen.is_empty() { json!([all[0]]) } else { json!(chosen) }
}

struct Story {
    world: World,
    /// A kind that templates are granted to declare.
    certificate: Kind,
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
                match at {
                    EACH => drop(template_for_each(
                        &mut self.world,
                        version,
                        json!({"objects": objects(at, has)}),
                    )),
                    _ => drop(template(&mut self.world, version, objects(at, has))),
                }
            }
            Event::Delete { template } => self.world.forget_template(&name(template)),
            Event::Rights { template, may } => {
                if self.world.templates().contains_key(&name(template)) {
                    answer(&mut self.world, &name(template), may);
                }
            }
            Event::Occupy { place } => occupy(&mut self.world, PLACES[place]),
            Event::Object { place, instance, size, is_going } => {
                self.generation += 1;
                let mut more = json!({"spec": {}});
                if let Some(size) = size {
                    more["spec"]["size"] = size.into();
                }
                if is_going {
                    more["metadata"] = json!({"deletionTimestamp": at(1).to_string()});
                }
                put(&mut self.world, (PLACES[place], INSTANCES[instance]), self.generation, more);
            }
            Event::Gone { place, instance } => {
                self.world.forget_instance(&kind(), &NamespacedName::new(PLACES[place], INSTANCES[instance]));
            }
            Event::Served { is_served } => {
                let read = if is_served { InstancesRead::Listed } else { InstancesRead::NotServed };
                self.world.set_instances_read(&kind(), read);
            }
            Event::Defined { is_served } => self.define(is_served),
            Event::Run { actions } => {
                render_all(&mut self.world);
                self.act(actions);
            }
        }
    }

    fn define(&mut self, is_served: bool) {
        let read = if is_served { InstancesRead::Listed } else { InstancesRead::NotServed };
        if !is_served {
            let of_kind = |slot: &&ObjectKey| slot.kind == self.certificate;
            let gone: Vec<ObjectKey> = self.world.copies().filter(of_kind).cloned().collect();
            gone.into_iter().for_each(|slot| self.world.set_object(slot, None));
        }
        self.world.set_granted_read(self.certificate, read);
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

/// Creates somebody's own object where a rendered one would go, if none is there.
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
        assert_eq!(world.granted_read(slot.kind), InstancesRead::Listed, "{slot} was written and cannot be");
        let Some(marks) = facts.marks.as_deref() else {
            assert_eq!(&*facts.uid, "foreign");
            continue;
        };
        let template = world.templates().get(&marks.rule);
        let is_declared = claims_on(world, slot).iter().any(|claim| *claim.rule == marks.rule);
        let is_kept = template.is_some_and(|facts| {
            let mut sets = world.rendered_in(&marks.rule, &slot.namespace);
            let going = world.instance(&kind(), &marks.source).is_some_and(|object| object.terminating);
            going
                || inert_template(world, &marks.rule, facts).is_some()
                || sets.any(|(_, set)| !set.faults.is_empty())
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
        let kinds = GrantedKinds::default();
        let certificate =
            TemplateKind::read("cert-manager.io/v1/Certificate/certificates/render", &kinds).unwrap();
        let kind = certificate.rendered.unwrap();
        let mut story = Story { world: world_with_kind(), certificate: kind, generation: 0 };
        story.world.settings_mut().template_kinds.insert(certificate);
        story.world.settings_mut().copy_kinds.insert(kind);
        story.define(true);
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
