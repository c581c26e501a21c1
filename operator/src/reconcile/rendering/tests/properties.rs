//! Whatever happens to templates, namespaces, rights and the objects of others: it converges, and then it is silent.

mod restarts;
mod texts;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use serde_json::{Value, json};

use self::texts::{EACH, IDS, TEMPLATES, Text, objects, read_by, status, text};
use super::{
    answer, at,
    instances::{kind, put, template_for_each, world_with_kind},
    namespace, plans, template,
};
use crate::{
    explain::carry_out,
    intake::{object::Slim, watched::Watched},
    model::{InstancesRead, ObjectFacts, RenderedObject, RightAnswer, SpecVersion, World},
    names::{Declarer, GrantedKinds, InstanceName, Kind, NamespacedName, ObjectKey, TemplateKind},
    plan::{
        Need,
        copy::{CopyAction, SlotPlan, claims::claims_on, inert::inert_template, templates::selects},
    },
    read::content::decode,
    render::all::render_with,
};

const PLACES: [&str; 3] = ["one", "two", "three"];
const INSTANCES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Event {
    /// A namespace is labelled: of the team or not, with a number of pods or without.
    Label {
        place: usize,
        is_blue: bool,
        has_pods: bool,
    },
    /// A template is written.
    Write {
        template: usize,
        text: Text,
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
    /// The operator renders, and carries out so many actions.
    Run {
        actions: usize,
    },
    /// It is killed and started again.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let (place, template) = (0..PLACES.len(), 0..TEMPLATES.len());
    prop_oneof![
        (place.clone(), any::<bool>(), any::<bool>()).prop_map(|(place, is_blue, has_pods)| Event::Label {
            place,
            is_blue,
            has_pods
        }),
        (template.clone(), text()).prop_map(|(template, text)| Event::Write { template, text }),
        template.clone().prop_map(|template| Event::Delete { template }),
        (template, any::<bool>()).prop_map(|(template, may)| Event::Rights { template, may }),
        place.clone().prop_map(|place| Event::Occupy { place }),
        (place.clone(), 0..INSTANCES.len(), proptest::option::of(0..3_u8), proptest::bool::weighted(0.2))
            .prop_map(|(place, instance, size, is_going)| Event::Object { place, instance, size, is_going }),
        (place, 0..INSTANCES.len()).prop_map(|(place, instance)| Event::Gone { place, instance }),
        any::<bool>().prop_map(|is_served| Event::Served { is_served }),
        any::<bool>().prop_map(|is_served| Event::Defined { is_served }),
        (0..4_usize).prop_map(|actions| Event::Run { actions }),
        Just(Event::Restart),
    ]
}

struct Story {
    world: World,
    /// A kind that templates are granted to declare.
    certificate: Kind,
    generation: i64,
    /// How many objects were made.
    made: usize,
    /// What the templates say that are there.
    texts: BTreeMap<usize, Text>,
    /// The objects that templates are rendered for, as they were last written, by place and number.
    instances: BTreeMap<(usize, usize), Value>,
}

fn template_name(template: usize) -> Declarer {
    Declarer::template("platform", TEMPLATES[template])
}

impl Story {
    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Label { place, is_blue, has_pods } => {
                let mut labels = json!({"team": if is_blue { "blue" } else { "red" }});
                if has_pods {
                    labels["pods"] = "10".into();
                }
                namespace(&mut self.world, PLACES[place], labels);
            }
            Event::Write { template: at, text } => self.write(at, text),
            Event::Delete { template } => {
                self.texts.remove(&template);
                self.world.forget_template(&template_name(template));
            }
            Event::Rights { template, may } => {
                if self.texts.contains_key(&template) {
                    answer(&mut self.world, &template_name(template), may);
                }
            }
            Event::Occupy { place } => occupy(&mut self.world, PLACES[place]),
            Event::Object { place, instance, size, is_going } => {
                let mut more = json!({"spec": {}});
                if let Some(size) = size {
                    more["spec"]["size"] = size.into();
                }
                if is_going {
                    more["metadata"] = json!({"deletionTimestamp": at(1).to_string()});
                }
                self.put((place, instance), more);
            }
            Event::Gone { place, instance } => {
                self.instances.remove(&(place, instance));
                self.world.forget_instance(&kind(), &NamespacedName::new(PLACES[place], INSTANCES[instance]));
            }
            Event::Served { is_served } => {
                let read = if is_served { InstancesRead::Listed } else { InstancesRead::NotServed };
                self.world.set_instances_read(&kind(), read);
            }
            Event::Defined { is_served } => self.define(is_served),
            Event::Run { actions } => {
                self.render();
                self.act(actions);
            }
            Event::Restart => self.forget(),
        }
    }

    fn write(&mut self, at: usize, text: Text) {
        self.generation += 1;
        self.texts.insert(at, text);
        let version = (TEMPLATES[at], at as i64, self.generation);
        let objects = objects(at, &text);
        match at {
            EACH => {
                let more = json!({"objects": objects, "writeStatus": status(&text)});
                drop(template_for_each(&mut self.world, version, more));
            }
            _ => drop(template(&mut self.world, version, objects)),
        }
    }

    fn put(&mut self, (place, instance): (usize, usize), more: Value) {
        self.generation += 1;
        self.instances.insert((place, instance), more.clone());
        put(&mut self.world, (PLACES[place], INSTANCES[instance]), self.generation, more);
    }

    /// Renders everything from what is there.
    fn render(&mut self) {
        let objects = self.world.objects();
        let there = objects.map(|(slot, facts)| {
            (slot.clone(), json!({"metadata": {"name": &*slot.name, "uid": &*facts.uid}}))
        });
        let there: BTreeMap<ObjectKey, Value> = there.collect();
        render_with(&mut self.world, &there);
    }

    /// The statuses that objects do not have yet.
    fn lacking_statuses(&self) -> Vec<((usize, usize), Value)> {
        let lacking = |(of, more): (&(usize, usize), &Value)| {
            let name = InstanceName { namespace: PLACES[of.0].into(), object: Some(INSTANCES[of.1].into()) };
            let set = self.world.rendered(&template_name(EACH), &name).filter(|set| !set.is_written(more))?;
            let mut more = more.clone();
            more["status"] = serde_json::from_str(set.status.as_ref()?.expose()).ok()?;
            Some((*of, more))
        };
        self.instances.iter().filter_map(lacking).collect()
    }

    /// Writes them; returns whether there were any.
    fn write_statuses(&mut self) -> bool {
        let lacking = self.lacking_statuses();
        let is_any = !lacking.is_empty();
        lacking.into_iter().for_each(|(of, more)| self.put(of, more));
        is_any
    }

    /// Works until nothing is left to do, or fails.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..16 {
            self.render();
            if !self.act(usize::MAX) && !self.write_statuses() {
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!("it does not come to rest: {:?}", plans(&self.world))))
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

    /// Answers what these plans ask; returns whether they ask anything.
    fn answer(&mut self, plans: &BTreeMap<ObjectKey, SlotPlan>) -> bool {
        for need in plans.values().flat_map(|plan| plan.needs.clone()).collect::<Vec<_>>() {
            if let Need::Right(rule, right, place) = need {
                let Some(version) = self.world.declaration(&rule).map(|it| it.version()) else { continue };
                let (uid, generation) = (version.uid.to_owned(), version.generation);
                let version = SpecVersion { uid: &uid, generation };
                let yes = RightAnswer { answer: Ok(()), asked: at(100) };
                self.world.note_right(&rule, version, (right, place), yes, at(100));
            }
        }
        plans.values().any(|plan| !plan.needs.is_empty())
    }

    /// Carries out some of what is planned; returns whether anything was.
    fn act(&mut self, most: usize) -> bool {
        let mut plans = plans(&self.world);
        let needed = self.answer(&plans);
        let acting: Vec<ObjectKey> =
            plans.iter().filter(|(_, plan)| plan.action.is_some()).map(|(slot, _)| slot.clone()).collect();
        plans.retain(|slot, _| acting.iter().take(most).any(|acting| acting == slot));
        for (slot, plan) in &plans {
            let is_ours = |facts: &ObjectFacts| facts.marks.is_some();
            assert!(self.world.object(slot).is_none_or(is_ours), "{slot} is not ours: {:?}", plan.action);
            if let Some(CopyAction::Write(write)) = &plan.action {
                assert!(write.rendered.is_some());
            }
        }
        let is_made = |slot: &ObjectKey, plan: &SlotPlan| match &plan.action {
            Some(CopyAction::Write(write)) => write.anew || self.world.object(slot).is_none(),
            _ => false,
        };
        let made: Vec<ObjectKey> =
            plans.iter().filter(|(slot, plan)| is_made(slot, plan)).map(|(slot, _)| slot.clone()).collect();
        carry_out(&mut self.world, &plans, at(100));
        made.iter().for_each(|slot| self.give_uid(slot));
        needed || !acting.is_empty()
    }

    /// Each object that is made is another one.
    fn give_uid(&mut self, slot: &ObjectKey) {
        let (Some(facts), Some(print)) = (self.world.object(slot), self.world.fingerprint(slot)) else {
            return;
        };
        let (mut facts, mut print) = (facts.clone(), print.clone());
        self.made += 1;
        facts.uid = format!("made-{}", self.made).into();
        print.uid = facts.uid.clone();
        self.world.set_object(slot.clone(), Some(facts));
        self.world.assume_fingerprint(slot, print);
    }

    /// A template loses an object that it does not read itself, if there is one that may act: that object goes, and what else is declared
    /// stays the very object that it was. Returns how many stayed.
    fn lose_one(&mut self, dice: usize) -> Result<usize, TestCaseError> {
        let is_active = |at: &usize| {
            let name = template_name(*at);
            self.world
                .templates()
                .get(&name)
                .is_some_and(|facts| inert_template(&self.world, &name, facts).is_none())
        };
        let some = self.texts.iter().filter(|(at, _)| is_active(at)).flat_map(|(at, text)| {
            let is_unread = |id: &usize| {
                (0..IDS.len())
                    .all(|by| !text[by].is_there || read_by(text, by).is_none_or(|(of, _)| of != *id))
            };
            let ids = (0..IDS.len()).filter(|id| text[*id].is_there);
            let is_last = ids.clone().count() < 2;
            ids.filter(is_unread).filter(move |_| !is_last).map(|id| (*at, id)).collect::<Vec<_>>()
        });
        let some: Vec<(usize, usize)> = some.collect();
        let Some(&(at, id)) = dice.checked_rem(some.len()).and_then(|nth| some.get(nth)) else {
            return Ok(0);
        };
        let mut text = self.texts[&at];
        let is_lost = |slot: &ObjectKey| match id {
            0 => slot.name.starts_with("own-"),
            1 => slot.kind == Kind::ResourceQuota || slot.kind == self.certificate,
            2 => &*slot.name == "shared",
            _ => slot.name.starts_with("more-"),
        };
        let declared = self.world.objects().filter_map(|(slot, facts)| {
            let rule = &facts.marks.as_deref()?.rule;
            let is_declared = claims_on(&self.world, slot).iter().any(|claim| claim.rule == rule);
            let stays = is_declared && (*rule != template_name(at) || !is_lost(slot));
            stays.then(|| (slot.clone(), facts.uid.clone()))
        });
        let declared: Vec<_> = declared.collect();
        text[id].is_there = false;
        self.write(at, text);
        self.settle()?;
        for (slot, uid) in &declared {
            let now = self.world.object(slot).map(|facts| &facts.uid);
            prop_assert_eq!(
                now,
                Some(uid),
                "{} is another one, since {} lost {}",
                slot,
                TEMPLATES[at],
                IDS[id]
            );
        }
        Ok(declared.len())
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
        // The object that comes in this one's place may be barred by an object of somebody else, or of another declaration.
        let is_its = |facts: &ObjectFacts| facts.marks.as_deref().is_some_and(|it| it.rule == marks.rule);
        let is_barred = |object: &RenderedObject| {
            object.slot.kind == slot.kind && world.object(&object.slot).is_some_and(|it| !is_its(it))
        };
        let is_kept = template.is_some_and(|facts| {
            let mut sets = world.rendered_in(&marks.rule, &slot.namespace);
            let going = world.instance(&kind(), &marks.source).is_some_and(|object| object.terminating);
            going
                || inert_template(world, &marks.rule, facts).is_some()
                || sets.any(|(_, set)| !set.faults.is_empty() || set.objects.iter().any(is_barred))
        });
        assert!(is_declared || is_kept, "{slot} of {} stays, and nothing declares it", marks.rule);
    }
    for slot in world.rendered_slots().filter(|slot| !claims_on(world, slot).is_empty()) {
        assert!(world.object(slot).is_some(), "{slot} is declared, and not there");
    }
    // What one object says of another is so.
    let uids: BTreeSet<&str> = world.objects().map(|(_, facts)| &*facts.uid).collect();
    let sets = world.templates().iter().flat_map(|(template, facts)| {
        let compiled =
            facts.compiled.as_ref().ok().filter(|_| inert_template(world, template, facts).is_none());
        let is_current = move |instance: &InstanceName| {
            compiled.is_some_and(|compiled| selects(world, template, compiled, instance))
        };
        world.rendered_of(template).filter(move |(instance, _)| is_current(instance))
    });
    let texts = sets.flat_map(|(_, set)| set.objects.iter().map(|object| &object.body).chain(&set.status));
    for text in texts {
        let text: Value = serde_json::from_str(text.expose()).unwrap();
        for seen in [&text["data"]["seen"], &text["seen"]].into_iter().filter_map(Value::as_str) {
            assert!(seen != "foreign" && uids.contains(seen), "{text} has seen what is not there");
        }
    }
}

#[test]
fn whatever_happens_it_converges_and_is_silent_then() {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config = ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), ..config };
    }
    let story = (vec(event(), 1..24), any::<usize>());
    let (stayed, stood, read) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let held = TestRunner::new(config).run(&story, |(events, dice)| {
        let kinds = GrantedKinds::default();
        let each = "cache.example.com/v1/Memcached/memcacheds/forEach+statusField";
        let each = TemplateKind::read(each, &kinds).unwrap();
        let certificate =
            TemplateKind::read("cert-manager.io/v1/Certificate/certificates/render", &kinds).unwrap();
        let kind = certificate.rendered.unwrap();
        let mut story = Story {
            world: world_with_kind(),
            certificate: kind,
            generation: 0,
            made: 0,
            texts: BTreeMap::new(),
            instances: BTreeMap::new(),
        };
        story.world.settings_mut().template_kinds = [each, certificate].into();
        story.world.settings_mut().copy_kinds.insert(kind);
        story.define(true);
        // What is not wanted goes at once: marks are not simulated.
        story.world.settings_mut().default_grace = Duration::ZERO;
        for place in PLACES {
            namespace(&mut story.world, place, json!({"team": "blue", "pods": "10"}));
        }
        events.iter().for_each(|event| story.happen(event));
        story.settle()?;
        check(&story.world);
        stood.set(stood.get() + story.start_again()?);
        check(&story.world);
        let is_reader =
            |text: &Text| (0..IDS.len()).any(|id| text[id].is_there && read_by(text, id).is_some());
        read.set(read.get() + story.texts.values().filter(|text| is_reader(text)).count());
        stayed.set(stayed.get() + story.lose_one(dice)?);
        check(&story.world);
        Ok(())
    });
    held.unwrap_or_else(|fault| panic!("{fault}"));
    let looked = [&stayed, &stood, &read].map(Cell::get);
    assert!(
        !looked.contains(&0),
        "nothing stayed, stood or was read: this test looks at nothing: {looked:?}"
    );
}
