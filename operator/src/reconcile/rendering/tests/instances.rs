//! What is rendered for each object of a kind.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{actions, answer, at, namespace, plans, settle, world};
use crate::{
    api::CopyratorTemplate,
    intake::{AsWritten, instance::Instance, object::Slim, watched::Watched},
    marks::{MARK, OBJECT},
    model::{InstancesRead, Owner, World},
    names::{
        Declarer, GrantedKinds, InstanceKind, InstanceName, Kind, NamespacedName, ObjectKey, TemplateKind,
    },
    plan::{
        Changed, Key, affected,
        copy::{CopyAction, SlotState, hindrances, template_report, templates::made},
    },
    render::all::render_all,
};

pub(super) fn kind() -> InstanceKind {
    InstanceKind::new("cache.example.com/v1", "Memcached")
}

/// A world in which the objects of the kind may be read, and are known: there is none.
pub(super) fn world_with_kind() -> World {
    let mut world = world();
    let granted =
        TemplateKind::read("cache.example.com/v1/Memcached/memcacheds/forEach", &GrantedKinds::default())
            .unwrap();
    world.settings_mut().template_kinds = [granted].into();
    world.set_instances_read(&kind(), InstancesRead::Listed);
    world
}

/// Takes in an object of the kind in this version; returns whether it is news.
pub(super) fn put(world: &mut World, (place, name): (&str, &str), version: i64, more: Value) -> bool {
    let mut object = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"namespace": place, "name": name, "uid": format!("{place}-{name}"), "resourceVersion": version.to_string(),
            "generation": version, "creationTimestamp": Timestamp::UNIX_EPOCH.to_string()},
    });
    merge(&mut object, more);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Instance::new(&kind(), object).put(&kind(), world)
}

fn merge(object: &mut Value, more: Value) {
    match (object, more) {
        (Value::Object(fields), Value::Object(more)) => {
            more.into_iter()
                .for_each(|(name, value)| merge(fields.entry(name).or_insert(Value::Null), value));
        }
        (object, more) => *object = more,
    }
}

/// Takes in a template of namespace platform that is rendered for each object of the kind in namespaces of team blue.
pub(super) fn template_for_each(
    world: &mut World,
    (name, created, generation): (&str, i64, i64),
    more: Value,
) -> Declarer {
    let blue = json!([{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]);
    let each = json!({"apiVersion": "cache.example.com/v1", "kind": "Memcached", "namespaces": blue});
    let mut object = json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": {"namespace": "platform", "name": name, "uid": name, "generation": generation, "resourceVersion": "1",
            "creationTimestamp": at(created).to_string()},
        "spec": {"forEach": {"objects": each}, "objects": [cache()]},
    });
    merge(&mut object["spec"], more);
    serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(world, at(0));
    let name = Declarer::template("platform", name);
    answer(world, &name, true);
    name
}

fn cache() -> Value {
    let data = json!({"size": "${string(object.spec.size)}"});
    json!({"id": "cache", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cache-${object.metadata.name}"},
        "data": data}})
}

fn literal() -> Value {
    let data = json!({"of": "${object.metadata.name}"});
    json!({"id": "one", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data}})
}

fn slot(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, "shop", name)
}

pub(super) fn ready(world: &World, template: &Declarer) -> (String, String, String) {
    let report = template_report(world, template, at(100)).unwrap();
    let ready = report.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().clone();
    (ready.status, ready.reason, ready.message)
}

#[test]
fn each_object_gets_its_own_which_kubernetes_removes_with_it() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    assert_eq!(ready(&world, &each).1, "NoInstance");
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    put(&mut world, ("shop", "b"), 1, json!({"spec": {"size": 1}}));
    put(&mut world, ("bank", "c"), 1, json!({"spec": {"size": 1}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a", "ConfigMap shop/cache-b"]);
    assert_eq!(actions(&world), []);
    let facts = world.object(&slot("cache-a")).unwrap();
    let owner = Owner {
        api_version: "cache.example.com/v1".into(),
        kind: "Memcached".into(),
        name: "a".into(),
        uid: "shop-a".into(),
        controller: false,
        block_owner_deletion: false,
    };
    assert_eq!(facts.owners, Owner::hash([&owner]));
    assert_eq!(facts.marks.as_ref().unwrap().source, NamespacedName::new("shop", "a"));
    let report = template_report(&world, &each, at(100)).unwrap();
    assert_eq!((report.status.sources, report.status.desired, report.status.current), (2, 2, 2));
    assert_eq!(ready(&world, &each).2, "2 of 2 objects are in order, for 2 Memcached");

    // The object is made anew under its name: what is there belongs to the one before it.
    put(&mut world, ("shop", "a"), 2, json!({"spec": {"size": 3}, "metadata": {"uid": "new"}}));
    render_all(&mut world);
    let changed = actions(&world);
    let [CopyAction::Write(write)] = &changed[..] else { panic!("{changed:?}") };
    assert!(write.disown && write.intent.owner.as_ref().is_some_and(|owner| owner.uid == "new"));

    // Objects that are to stay have no owner, and neither do those that somebody else may have made.
    for (generation, more) in [
        (2, json!({"deletionPolicy": "Retain"})),
        (3, json!({"conflictPolicy": "Adopt", "objects": [literal()]})),
    ] {
        template_for_each(&mut world, ("each", 1, generation), more);
        render_all(&mut world);
        for action in actions(&world) {
            if let CopyAction::Write(write) = action {
                assert_eq!(write.intent.owner, None);
                assert_eq!(write.disown, write.replaces.is_some());
            }
        }
    }
}

/// A controller may have copied labels and annotations of another object onto it. Without the note, the proof alone tells.
#[test]
fn an_object_whose_marks_name_another_one_is_not_ours_whatever_they_prove() {
    for (named, is_ours) in [
        (Some("configmaps/shop/cache-a"), true),
        (None, true),
        (Some("configmaps/shop/cache-b"), false),
        (Some("configmaps/bank/cache-a"), false),
        (Some("services/shop/cache-a"), false),
        (Some(""), false),
    ] {
        let mut world = world_with_kind();
        let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
        put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
        render_all(&mut world);
        let planned = actions(&world);
        let [CopyAction::Write(write)] = &planned[..] else { panic!("{planned:?}") };
        let mut annotations = write.intent.annotations.clone();
        assert_eq!(annotations.remove(OBJECT).as_deref(), Some("configmaps/shop/cache-a"));
        annotations.extend(named.map(|named| (OBJECT.to_owned(), named.to_owned())));
        let object = json!({"metadata": {"namespace": "shop", "name": "cache-a", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": Timestamp::UNIX_EPOCH.to_string(), "labels": write.intent.labels, "annotations": annotations}});
        serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().put(&mut world, at(0));
        let is_in_the_way =
            |world: &World| matches!(plans(world)[&slot("cache-a")].state, SlotState::Blocked(_));
        assert_eq!(is_in_the_way(&world), !is_ours, "{named:?}");
        let of_a = InstanceName { namespace: "shop".into(), object: Some("a".into()) };
        assert_eq!(made(&world, &each, &of_a, &slot("cache-a")).is_some(), is_ours, "{named:?}");

        // Nothing wants the place any more.
        template_for_each(&mut world, ("each", 1, 2), json!({"objects": [literal()]}));
        render_all(&mut world);
        let removes = actions(&world).iter().any(|action| matches!(action, CopyAction::MarkRemoval(..)));
        assert_eq!(removes, is_ours, "{named:?}");
    }
}

/// A template of the very kind that it renders would never come to an end.
#[test]
fn what_a_template_made_is_no_instance_of_any() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    let marked = json!({"spec": {"size": 3}, "metadata": {"annotations": {MARK: "x"}}});
    put(&mut world, ("shop", "a"), 1, marked);
    assert_eq!(settle(&mut world), [""; 0]);
    assert_eq!(ready(&world, &each).1, "NoInstance");
    put(&mut world, ("shop", "b"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-b"]);
}

#[test]
fn a_change_asks_for_just_what_reads_it() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    assert!(put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}})));
    assert!(put(&mut world, ("shop", "b"), 1, json!({"spec": {"size": 3}})));
    settle(&mut world);
    let changed = Changed::Instance(kind(), NamespacedName::new("shop", "a"));
    let is_rendering = |key: &&Key| matches!(key, Key::Rendering(..));
    let keys = affected(&world, &changed);
    let of_a = InstanceName { namespace: "shop".into(), object: Some("a".into()) };
    assert_eq!(
        keys.iter().filter(is_rendering).collect::<Vec<_>>(),
        [&Key::Rendering(each.clone(), of_a.clone())]
    );

    // Nothing reads its status, and so a new one is no news, and what was rendered still counts.
    assert!(!put(&mut world, ("shop", "a"), 2, json!({"spec": {"size": 3}, "status": {"ready": 1}})));
    assert_eq!(actions(&world), []);
    assert_eq!(template_report(&world, &each, at(100)).unwrap().status.current, 2);
    assert!(put(&mut world, ("shop", "a"), 3, json!({"spec": {"size": 4}})));
    assert_eq!(actions(&world), [], "it is not rendered yet");
    render_all(&mut world);
    assert!(matches!(&actions(&world)[..], [CopyAction::Write(write)] if write.replaces.is_some()));
    settle(&mut world);
    // A selector may read labels.
    assert!(put(
        &mut world,
        ("shop", "a"),
        4,
        json!({"spec": {"size": 4}, "metadata": {"labels": {"a": "b"}}})
    ));

    let keys = affected(&world, &Changed::Namespace("shop".into()));
    assert_eq!(keys.iter().filter(is_rendering).count(), 2);
    assert_eq!(affected(&world, &Changed::Template(each)).iter().filter(is_rendering).count(), 2);
}

#[test]
fn what_goes_is_removed_and_what_is_going_or_unknown_keeps_everything() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    let name = NamespacedName::new("shop", "a");
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    put(&mut world, ("shop", "broken"), 1, json!({}));
    settle(&mut world);
    let report = template_report(&world, &each, at(100)).unwrap();
    assert!(report.status.problems[0].message.contains("for Memcached broken"), "{report:?}");

    // While it is being deleted, its finalizers may need what was made for it.
    put(
        &mut world,
        ("shop", "a"),
        2,
        json!({"spec": {"size": 4}, "metadata": {"deletionTimestamp": at(1).to_string()}}),
    );
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    for (read, reason) in [
        (InstancesRead::NotServed, "KindNotServed"),
        (InstancesRead::Failed("no right".into()), "KindUnread"),
        (InstancesRead::NotYet, "KindUnread"),
    ] {
        world.set_instances_read(&kind(), read);
        world.forget_instance(&kind(), &name);
        render_all(&mut world);
        assert_eq!(actions(&world), [], "{reason}");
        let (status, said, _) = ready(&world, &each);
        assert_eq!((&*status, &*said), ("False", reason));
    }
    let granted = std::mem::take(&mut world.settings_mut().template_kinds);
    world.set_instances_read(&kind(), InstancesRead::Listed);
    let (status, said, message) = ready(&world, &each);
    assert_eq!((&*status, &*said), ("False", "KindNotGranted"));
    assert!(message.contains("templates.kinds"), "{message}");
    assert_eq!(actions(&world), []);
    world.settings_mut().template_kinds = granted;
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(..)]), "{:?}", actions(&world));

    // A fault of one keeps back nothing of another.
    put(&mut world, ("shop", "a"), 3, json!({"spec": {"size": 3}}));
    settle(&mut world);
    assert_eq!(actions(&world), []);
    // No object of ours is an instance.
    put(
        &mut world,
        ("shop", "a"),
        4,
        json!({"spec": {"size": 3}, "metadata": {"annotations": {crate::marks::MARK: "x"}}}),
    );
    render_all(&mut world);
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(..)]), "{:?}", actions(&world));
}

/// What is gone by a watch that fails may be there.
#[test]
fn nothing_is_removed_while_the_watch_of_a_kind_is_in_doubt() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a"]);
    world.set_instances_read(&kind(), InstancesRead::Doubtful);
    world.forget_instance(&kind(), &NamespacedName::new("shop", "a"));
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    let recheck = plans(&world)[&slot("cache-a")].recheck;
    assert!(recheck.is_some(), "it is looked at again");
    // What is wanted is made meanwhile.
    put(&mut world, ("shop", "b"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a", "ConfigMap shop/cache-b"]);
    assert_eq!(ready(&world, &each).0, "True");
    world.set_instances_read(&kind(), InstancesRead::Listed);
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(..)]), "{:?}", actions(&world));
}

#[test]
fn of_two_objects_that_want_one_place_the_one_that_has_it_keeps_it() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({"objects": [literal()]}));
    put(&mut world, ("shop", "b"), 1, json!({}));
    settle(&mut world);
    put(&mut world, ("shop", "a"), 1, json!({}));
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    let status = template_report(&world, &each, at(100)).unwrap().status;
    assert_eq!((status.desired, status.current, status.problem_count), (2, 1, 1));
    assert_eq!(&*status.problems[0].reason, "DuplicateName");
    assert!(
        status.problems[0].message.contains("instances b and a both declare this object"),
        "{:?}",
        status.problems
    );
    // The author of each object gets an Event of this, or none.
    let place = slot("one");
    let hindrances = hindrances(&world, &place, at(100)).unwrap();
    let hindered = |object: &str| {
        let is_it = |instance: &InstanceName| instance.object.as_deref() == Some(object);
        let found = hindrances.iter().find(|(_, instance, _)| is_it(instance)).unwrap();
        found.2.as_ref().map(|problem| problem.reason.as_str())
    };
    assert_eq!([hindered("a"), hindered("b")], [Some("DuplicateName"), None]);

    // While it is not known what the one that has it wants, the other does not get it.
    put(&mut world, ("shop", "b"), 2, json!({"metadata": {"labels": {"x": "y"}}}));
    world.set_rendered(&each, &InstanceName { namespace: "shop".into(), object: Some("b".into()) }, None);
    assert_eq!(actions(&world), []);
    world.forget_instance(&kind(), &NamespacedName::new("shop", "b"));
    render_all(&mut world);
    let changed = actions(&world);
    let [CopyAction::Write(write)] = &changed[..] else { panic!("{changed:?}") };
    assert_eq!(write.intent.owner.as_ref().unwrap().name, "a");
}

#[test]
fn what_is_too_large_to_be_kept_is_a_fault() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3, "more": "x".repeat(64 << 10)}}));
    settle(&mut world);
    let report = template_report(&world, &each, at(100)).unwrap();
    assert!(report.status.problems[0].message.contains("larger than 64 KiB"), "{report:?}");
    put(&mut world, ("shop", "a"), 2, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a"]);
    namespace(&mut world, "shop", json!({"team": "red"}));
    render_all(&mut world);
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(..)]), "{:?}", actions(&world));
}
