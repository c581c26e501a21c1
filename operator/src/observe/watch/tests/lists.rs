//! What lists say was deleted, also when they are interrupted.

use std::sync::{Mutex, RwLock};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::runtime::watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
use prometheus_client::metrics::counter::Counter;
use serde_json::json;

use super::super::*;
use crate::{
    intake::object::Slim,
    model::{NamespaceScope, World},
    observe::observer::{Listed, Requests},
    plan::Key,
};

#[derive(Default)]
struct Noted(Mutex<Vec<Changed>>);

impl Requests for Noted {
    fn request(&self, changed: &Changed, _keys: BTreeSet<Key>) {
        self.0.lock().unwrap().push(changed.clone());
    }

    fn complete(&self, _: Option<Listed>) {}
}

fn namespace(name: &str) -> Decoded<Namespace> {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    Decoded::Read(Namespace { metadata, ..Namespace::default() })
}

/// The namespaces known after these events, whether the list of them is complete, and the reported changes.
fn after(events: Vec<watcher::Event<Decoded<Namespace>>>) -> (Vec<String>, bool, Vec<Changed>) {
    let mut world = World::default();
    world.settings_mut().stores.insert(Store::Namespaces);
    let noted = Arc::new(Noted::default());
    let observer = Observer {
        world: Arc::new(RwLock::new(world)),
        requests: noted.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let mut intake = Intake::new(observer.clone());
    events.into_iter().for_each(|event| intake.take(event));
    let world = observer.world.read().unwrap();
    let names = world.namespaces().keys().map(ToString::to_string).collect();
    let told = noted.0.lock().unwrap().clone();
    (names, world.is_complete(), told)
}

#[test]
fn what_a_list_lacks_has_gone_once_the_list_is_through() {
    let [a, b] = ["a", "b"].map(namespace);
    let first = [Init, InitApply(a.clone()), InitApply(b.clone()), InitDone];
    let (names, complete, told) = after(first.to_vec());
    assert_eq!((names, complete, told), (vec!["a".into(), "b".into()], true, vec![]));

    let gone = |name: &str| Changed::Namespace(name.into());
    let again = [Init, InitApply(b.clone()), InitDone];
    let (names, _, told) = after([&first[..], &again].concat());
    assert_eq!((names, told), (vec!["b".to_owned()], vec![gone("a")]));

    // An interrupted list says of nothing that it was deleted, and does not hide that from the next one.
    let interrupted = [Init, InitApply(a)];
    let (names, _, told) = after([&first[..], &interrupted].concat());
    assert_eq!((names.len(), told), (2, vec![]));
    let (names, _, told) = after([&first[..], &interrupted, &again].concat());
    assert_eq!((names, told), (vec!["b".to_owned()], vec![gone("a")]));
}

#[test]
fn a_first_list_that_is_interrupted_leaves_nothing_behind() {
    let [a, b] = ["a", "b"].map(namespace);
    let begun = [Init, InitApply(a.clone())];
    assert!(!after(begun.to_vec()).1, "half a list is none");
    let again = [Init, InitApply(b.clone()), InitDone];
    let (names, complete, _) = after([&begun[..], &again].concat());
    assert_eq!((names, complete), (vec!["b".to_owned()], true));
    let later = [Delete(b), Apply(a)];
    assert_eq!(after([&again[..], &later].concat()).0, ["a"]);
}

/// Otherwise each namespace's list would say that the objects of the others were deleted.
#[test]
fn the_list_of_one_place_says_nothing_of_another() {
    let object = |namespace: &str| -> Decoded<Slim<ConfigMap>> {
        let metadata = json!({"namespace": namespace, "name": "app", "uid": "u", "resourceVersion": "1"});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    let mut world = World::default();
    world.set_namespace_scope(Some(NamespaceScope::new(["a", "b"])));
    let requests = Arc::new(Noted::default());
    let observer = Observer {
        world: Arc::new(RwLock::new(world)),
        requests,
        events: Counter::default(),
        templates: Arc::default(),
    };
    let list = |place: &str, objects: &[&str]| {
        let mut intake = Intake::<Slim<ConfigMap>>::within(observer.clone(), Some(place.into()));
        intake.take(Init);
        objects.iter().for_each(|namespace| intake.take(InitApply(object(namespace))));
        intake.take(InitDone);
        let world = observer.world.read().unwrap();
        world.objects().map(|(key, _)| key.namespace.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list("a", &["a"]), ["a"]);
    assert_eq!(list("b", &["b"]), ["a", "b"]);
    assert_eq!(list("a", &[]), ["b"]);
}
