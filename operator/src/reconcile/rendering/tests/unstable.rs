//! Templates that write what others read of one status: what comes to rest is left alone, what does not is braked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    at,
    instances::{put, template_for_each, world_with_kind},
};
use crate::{
    marks::status_manager,
    model::World,
    names::{Declarer, GrantedKinds, InstanceName, Kind, ObjectKey, TemplateKind},
    plan::copy::{template_report, unstable::StatusTurn},
    render::{all::render_with, inputs::Inputs},
};

fn of_a() -> InstanceName {
    InstanceName { namespace: "shop".into(), object: Some("a".into()) }
}

/// An object, and the templates that write its status.
struct Story {
    world: World,
    templates: Vec<Declarer>,
    version: i64,
    spec: Value,
    status: Value,
    given: BTreeMap<ObjectKey, Value>,
    /// The fields of the status that each manager has applied.
    managed: BTreeMap<String, Value>,
    /// The seconds of all writes.
    writes: Vec<i64>,
}

impl Story {
    fn new(statuses: &[Value]) -> Self {
        let mut world = world_with_kind();
        let granted = "cache.example.com/v1/Memcached/memcacheds/forEach+status";
        let granted = TemplateKind::read(granted, &GrantedKinds::default()).unwrap();
        world.settings_mut().template_kinds = [granted].into();
        let mut story = Self {
            world,
            templates: Vec::new(),
            version: 0,
            spec: json!({"size": 1}),
            status: json!({}),
            given: BTreeMap::new(),
            managed: BTreeMap::new(),
            writes: Vec::new(),
        };
        for (index, status) in statuses.iter().enumerate() {
            let name = story.template(index, 1, status);
            story.templates.push(name);
        }
        story.put();
        story
    }

    fn template(&mut self, index: usize, generation: i64, status: &Value) -> Declarer {
        let (name, made) = (["first", "second", "third"][index], ["one", "two", "three"][index]);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made}});
        let more = json!({"objects": [{"id": "made", "template": object}], "writeStatus": status});
        template_for_each(&mut self.world, (name, index as i64, generation), more)
    }

    fn put(&mut self) {
        self.version += 1;
        let entry = |(manager, fields): (&String, &Value)| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:status": fields}});
        let managed: Vec<Value> = self.managed.iter().map(entry).collect();
        let more = json!({"spec": self.spec, "status": self.status, "metadata": {"managedFields": managed}});
        put(&mut self.world, ("shop", "a"), self.version, more);
    }

    /// Everybody looks once, as the reconciler does. Returns how many wrote.
    fn look(&mut self, second: i64) -> usize {
        let (before, now, mut faults) = (self.writes.len(), at(second), Vec::new());
        for template in self.templates.clone() {
            render_with(&mut self.world, &self.given);
            let set = self.world.rendered(&template, &of_a()).unwrap();
            let seen = json!({"spec": self.spec, "status": self.status});
            let (is_written, wanted) = (set.is_written(&seen), set.status.clone());
            let turn = StatusTurn::of(&self.world, &template, &of_a(), &seen);
            if !is_written && turn.as_ref().is_none_or(|turn| turn.braked(&self.world, now).is_none()) {
                let wanted: Value = serde_json::from_str(wanted.unwrap().expose()).unwrap();
                let fields = wanted.as_object().unwrap();
                self.status.as_object_mut().unwrap().extend(fields.clone());
                let fields = fields.keys().map(|field| (format!("f:{field}"), json!({}))).collect();
                self.managed.insert(status_manager(&template), Value::Object(fields));
                self.put();
                self.writes.push(second);
                turn.iter().for_each(|turn| turn.remember(&mut self.world, true, now));
            } else if is_written {
                turn.iter().for_each(|turn| turn.remember(&mut self.world, false, now));
            }
            faults.push((template, turn.and_then(|turn| turn.fault(&self.world, now))));
        }
        render_with(&mut self.world, &self.given);
        for (template, fault) in faults {
            self.world.set_status_fault(&template, &of_a(), fault.map(|(fault, _)| fault));
        }
        self.writes.len() - before
    }

    fn degraded(&self, index: usize) -> (String, String) {
        let report = template_report(&self.world, &self.templates[index], Timestamp::UNIX_EPOCH).unwrap();
        let found = report.status.conditions.into_iter().find(|one| one.type_ == "Degraded");
        found.map(|one| (one.reason, one.message)).unwrap_or_default()
    }
}

fn chase() -> [Value; 2] {
    [json!({"a": "${object.?status.?b.orValue(0) + 1}"}), json!({"b": "${object.status.?a.orValue(0) + 1}"})]
}

#[test]
fn templates_that_drive_each_other_write_more_and_more_slowly_until_one_of_them_or_the_spec_is_changed() {
    let mut story = Story::new(&chase());
    for second in (0..60).step_by(2) {
        story.look(second);
    }
    let told = [story.degraded(0), story.degraded(1)];
    for ((reason, message), other) in told
        .iter()
        .zip(["b, which CopyratorTemplate platform/second", "a, which CopyratorTemplate platform/first"])
    {
        assert_eq!(reason, "Unstable");
        assert!(
            message.contains("for Memcached a: this template reads status.") && message.contains(other),
            "{message}"
        );
    }
    for second in (60..3_600).step_by(2) {
        story.look(second);
    }
    // Without the brake 3,600.
    let early = story.writes.iter().filter(|second| **second < 60).count();
    assert!((20..=32).contains(&early), "{:?}", story.writes);
    assert!(story.writes.len() < 80, "{:?}", story.writes);
    assert!(
        story.writes.iter().rev().take(2).all(|second| *second > 3_000),
        "it goes on: {:?}",
        story.writes
    );
    // One that is braked longer than the others slows all of them down.
    assert!((0..2).any(|index| story.degraded(index).0 == "Unstable"));

    // Another spec, or text, begins anew, and is braked again.
    story.spec = json!({"size": 2});
    story.put();
    let again: usize = (3_600..3_660).step_by(2).map(|second| story.look(second)).sum();
    assert!((20..=32).contains(&again), "{again}");
    let [first, second] = chase();
    story.template(0, 2, &first);
    story.template(1, 2, &second);
    let again: usize = (3_660..3_720).step_by(2).map(|second| story.look(second)).sum();
    assert!((20..=32).contains(&again), "{again}");

    // One that reads something else ends it.
    story.template(0, 3, &json!({"a": "${object.spec.size}"}));
    for second in (3_720..4_100).step_by(2) {
        story.look(second);
    }
    assert_eq!(story.look(4_100), 0);
    assert_eq!((story.degraded(0), story.degraded(1)), Default::default());
    assert_eq!(story.status, json!({"a": 2, "b": 3}));
}

/// Three in a row, one of which reads a spec beside.
#[test]
fn a_longer_circle_is_found_and_one_that_comes_to_rest_is_left_alone() {
    let [first, _] = chase();
    let (second, third) = (
        json!({"c": "${object.status.?a.orValue(0)}"}),
        json!({"b": "${object.status.?c.orValue(0) + object.spec.size}"}),
    );
    let mut story = Story::new(&[first, second, third]);
    for second in (0..600).step_by(2) {
        story.look(second);
    }
    assert!(story.writes.len() < 120, "{:?}", story.writes);
    assert!((0..3).any(|index| story.degraded(index).0 == "Unstable"));

    let (copies, back) = (
        json!({"a": "${object.status.?b.orValue(0) + object.status.?seen.orValue(0)}"}),
        json!({"b": "${object.status.?a.orValue(0) * 0}"}),
    );
    let mut story = Story::new(&[copies, back]);
    for tick in 0..360 {
        // A controller counts; the template takes that over each time.
        story.status["seen"] = tick.into();
        story.put();
        for second in (tick * 10..tick * 10 + 10).step_by(2) {
            story.look(second);
        }
        assert_eq!(story.status["a"], tick);
        assert_eq!((story.degraded(0), story.degraded(1)), Default::default(), "{tick}");
    }
}

/// A rollout of minutes changes a status every two seconds, and the templates beside read each other's words.
#[test]
fn what_changes_by_itself_is_no_circle_however_often_it_changes() {
    let available = json!({"available": "${made.status.?available.orValue(0)}", "named": "${object.status.?ready.orValue('')}"});
    // It changes with each pod, and so does what it comes from: no field comes from itself.
    let ready = json!({"ready": "${string(object.status.?available.orValue(0)) + ' of 300'}"});
    let mut story = Story::new(&[available, ready]);
    let slot = ObjectKey::new(Kind::ConfigMap, "shop", "one");
    for pods in 0..300 {
        let made = json!({"metadata": {"name": "one", "uid": "one"}, "status": {"available": pods}});
        story.given.insert(slot.clone(), made);
        render_with(&mut story.world, &story.given);
        let plans = super::plans(&story.world);
        crate::explain::carry_out(&mut story.world, &plans, at(0));
        story.look(pods * 2);
        assert_eq!((story.degraded(0), story.degraded(1)), Default::default(), "{pods}");
    }
    assert_eq!(story.status["available"], 299);
    // By its text the second would drive the first; somebody else owns its field, so that it never writes.
    let held = Story::new(&chase());
    let seen = json!({"spec": {}, "status": {"b": 7}});
    assert!(StatusTurn::of(&held.world, &held.templates[0], &of_a(), &seen).is_none());
    // Where nobody reads what the template writes, there is none, and nothing to remember.
    let alone = Story::new(&[json!({"a": "${object.status.?seen.orValue(0)}"})]);
    let seen = json!({"spec": {}, "status": {}});
    assert!(StatusTurn::of(&alone.world, &alone.templates[0], &of_a(), &seen).is_none());
}

#[test]
fn fields_that_are_not_given_any_more_are_left_over() {
    let mut story = Story::new(&[json!({"a": "${object.spec.size}", "b": 1})]);
    let template = story.templates[0].clone();
    let left_over = |story: &Story, new: Value| {
        Inputs::of(&story.world, &template, &of_a()).unwrap().leaves_over(Some(&new))
    };
    let entry = |manager: &str| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:status": {"f:a": {}, "f:b": {}}}});
    let managed = json!([entry(&status_manager(&template)), entry("copyrator-status-of-another")]);
    let more = json!({"spec": story.spec, "metadata": {"managedFields": managed}});
    put(&mut story.world, ("shop", "a"), 9, more);
    for (new, is_left_over) in [
        (json!({"a": 3, "b": 1}), false),
        (json!({"a": 3}), true),
        (json!({}), true),
        (json!({"a": 1, "b": null, "c": 1}), false),
    ] {
        assert_eq!(left_over(&story, new.clone()), is_left_over, "{new}");
    }
    let inputs = Inputs::of(&story.world, &template, &of_a()).unwrap();
    assert!(
        !inputs.leaves_over(None),
        "its author was not asked for the right, or an expression has no value"
    );
}
