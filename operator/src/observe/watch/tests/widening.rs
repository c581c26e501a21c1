//! A change that needs ConfigMaps or Secrets of further namespaces.

use std::sync::{
    Mutex, RwLock,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::runtime::watcher::Event::{Apply, Init, InitApply, InitDone};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};

use super::super::*;
use crate::{
    api::{CopyratorRule, DataKind},
    intake::{
        AsWritten,
        object::Slim,
        selection::{OfCopies, OfDeclaring},
    },
    model::{DataNeed, DataScope, World},
    names::{Kind, ObjectKey},
    observe::observer::{Listed, Requests},
    plan::{Key, needed},
};

#[derive(Default)]
struct Heard {
    keys: Mutex<BTreeSet<Key>>,
    complete: Mutex<Vec<Option<Listed>>>,
    widened: AtomicUsize,
}

impl Requests for Heard {
    fn request(&self, _: &Changed, keys: BTreeSet<Key>) {
        self.keys.lock().unwrap().extend(keys);
    }

    fn complete(&self, listed: Option<Listed>) {
        self.complete.lock().unwrap().push(listed);
    }

    fn widened(&self) {
        self.widened.fetch_add(1, Ordering::Relaxed);
    }
}

fn list<W: Watched>(observer: &Observer, place: Option<&str>, objects: &[Value]) {
    let mut intake = Intake::<W>::within(observer.clone(), place.map(Arc::from));
    intake.take(Init);
    objects.iter().for_each(|object| intake.take(InitApply(serde_json::from_value(object.clone()).unwrap())));
    intake.take(InitDone);
}

fn labelled(observer: &Observer) {
    list::<Slim<ConfigMap, OfCopies>>(observer, None, &[]);
    list::<Slim<ConfigMap, OfDeclaring>>(observer, None, &[]);
    list::<Slim<Secret, OfCopies>>(observer, None, &[]);
    list::<Slim<Secret, OfDeclaring>>(observer, None, &[]);
}

/// Between the rule and the lists, its source and its copies would seem to be missing.
#[test]
fn what_a_change_needs_is_unknown_from_that_very_change_until_it_is_listed() {
    let mut world = World::default();
    world.settings_mut().stores =
        [Store::Namespaces, Store::CopyratorRules, Store::ConfigMaps, Store::Secrets].into();
    world.settings_mut().own_namespace = "ours".into();
    world.set_data_scope(Some(DataScope::new(DataNeed::in_namespace("ours"))));
    let (world, heard) = (Arc::new(RwLock::new(world)), Arc::new(Heard::default()));
    let observer = Observer {
        world: world.clone(),
        requests: heard.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let state = || {
        let world = world.read().unwrap();
        (world.is_complete(), !world.is_listing_any())
    };
    let completed = || std::mem::take(&mut *heard.complete.lock().unwrap());

    labelled(&observer);
    list::<Slim<ConfigMap>>(&observer, Some("ours"), &[]);
    list::<Slim<Secret>>(&observer, Some("ours"), &[]);
    list::<AsWritten<CopyratorRule>>(&observer, None, &[]);
    assert_eq!((state(), completed()), ((false, true), vec![]));
    let place = |name: &str| json!({"metadata": {"name": name}});
    list::<Namespace>(&observer, None, &[place("home"), place("shop"), place("web")]);
    assert_eq!((state(), completed(), heard.widened.load(Ordering::Relaxed)), ((true, true), vec![None], 0));

    let rule = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
        "metadata": {"namespace": "home", "name": "app", "uid": "r", "resourceVersion": "1"},
        "spec": {"source": {"kind": "Secret", "names": ["app"], "namespaces": ["home", "shop"]}, "targets": [{"names": ["web"]}]}});
    Intake::<AsWritten<CopyratorRule>>::new(observer.clone())
        .take(Apply(serde_json::from_value(rule).unwrap()));
    assert_eq!((state(), heard.widened.load(Ordering::Relaxed)), ((true, false), 1));
    assert!(!heard.keys.lock().unwrap().is_empty(), "what it affects is looked at once that is known");

    let object =
        json!({"metadata": {"namespace": "home", "name": "app", "uid": "u", "resourceVersion": "1"}});
    list::<Slim<Secret>>(&observer, Some("home"), &[object]);
    list::<Slim<Secret>>(&observer, Some("ours"), &[]);
    let again = |place: Option<&str>| Some(Listed { store: Store::Secrets, place: place.map(Arc::from) });
    let waiting = vec![None, again(Some("ours"))];
    assert_eq!(
        (state(), completed()),
        ((true, false), waiting),
        "the other namespace of its sources is to come"
    );
    assert!(world.read().unwrap().is_listing(Kind::Secret, "shop"));
    list::<Slim<Secret>>(&observer, Some("shop"), &[]);
    assert_eq!((state(), completed()), ((true, true), vec![None]));
    let known = |kind, name| world.read().unwrap().knows(kind, name);
    assert!(known(Kind::Secret, "home") && !known(Kind::Secret, "web") && !known(Kind::ConfigMap, "home"));

    // A list of one namespace says nothing of another, and later ones have only what is there looked at.
    list::<Slim<Secret>>(&observer, Some("shop"), &[]);
    assert!(world.read().unwrap().object(&ObjectKey::new(Kind::Secret, "home", "app")).is_some());
    assert_eq!(completed(), [again(Some("shop"))]);
    list::<Slim<Secret, OfCopies>>(&observer, None, &[]);
    assert_eq!(completed(), [again(None)]);

    // Something needs a namespace that is never listed, and then it does not.
    let mut more = DataNeed::default();
    more.add(DataKind::Secret, &"web".into());
    assert!(world.write().unwrap().widen_data(&more));
    let superfluous = {
        let world = world.read().unwrap();
        world.data_scope().unwrap().superfluous(&needed(&world))
    };
    assert_eq!((state(), superfluous.len()), ((true, false), 1));
    observer.leave(&superfluous);
    assert_eq!((state(), completed()), ((true, true), vec![None]));
}
