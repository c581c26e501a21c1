//! What becomes of an object that its template no longer declares, or whose instance is gone.

use super::*;
use crate::{
    api::CopyratorTemplate,
    marks::{CopyMarks, OnRemoval, SharedMarks},
    model::{
        Body, InstanceFacts, InstancesRead, ObjectFacts, Owner, ReadInstance, RenderedObject, RenderedSet,
        hash_of,
    },
    names::{GrantedKinds, InstanceKind, InstanceName, TemplateKind},
};

/// The objects of one template of namespace home, for one object `web` of namespace shop.
struct Scene {
    world: World,
    template: Declarer,
    instances: InstanceKind,
    claim: Kind,
}

impl Scene {
    fn new() -> Self {
        let (mut world, kinds) = (world(), GrantedKinds::default());
        let granted =
            ["a.b/v1/WebApp/webapps/forEach", "v1/PersistentVolumeClaim/persistentvolumeclaims/render"];
        let granted = granted.map(|kind| TemplateKind::read(kind, &kinds).unwrap());
        let claim = granted[1].rendered.unwrap();
        world.settings_mut().template_kinds = granted.into();
        world.settings_mut().stores.insert(Store::CopyratorTemplates);
        world.set_all_listed();
        world.settings_mut().copy_kinds.insert(claim);
        world.settings_mut().default_grace = std::time::Duration::from_secs(300);
        let instances = InstanceKind::new("a.b/v1", "WebApp");
        world.set_instances_read(&instances, InstancesRead::Listed);
        world.set_granted_read(claim, InstancesRead::Listed);
        let object = |id: &str, version: &str, kind: &str| json!({"id": id, "template": {"apiVersion": version, "kind": kind, "metadata": {"name": id}}});
        let spec = json!({
            "forEach": {"objects": {"apiVersion": "a.b/v1", "kind": "WebApp", "namespaces": [{"names": ["shop"]}]}},
            "objects": [object("a", "v1", "ConfigMap"), object("b", "v1", "PersistentVolumeClaim")],
        });
        let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "spec": spec,
            "metadata": {"namespace": "home", "name": "t", "uid": "t", "generation": 1, "resourceVersion": "1"}});
        serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(&mut world, at(0));
        let template = Declarer::template("home", "t");
        let authority = Authority {
            uid: "t".into(),
            generation: 1,
            identity: "user alice".into(),
            answer: Ok(()),
            asked: at(0),
            questions: 0,
            refusals: 0,
        };
        world.set_rule_authority(&template, authority);
        Self { world, template, instances, claim }
    }

    /// The object `web` is there, and the template declares these objects for it.
    fn instance(&mut self, uid: &str, objects: Vec<RenderedObject>) {
        let name = NamespacedName::new("shop", "web");
        let seen = json!({});
        let facts = InstanceFacts {
            uid: uid.into(),
            resource_version: "1".into(),
            labels: Some([].into()),
            is_marked: false,
            terminating: false,
            status_written: [].into(),
            body: Some(Body::new(&seen)),
        };
        self.world.set_instance(&self.instances, &name, facts, &seen);
        let compiled = self.world.templates()[&self.template].compiled.clone().unwrap();
        let set = RenderedSet {
            template: ("t".into(), 1),
            namespace: hash_of(&self.world.namespaces()["shop"], &compiled),
            instance: Some(ReadInstance { uid: uid.into(), resource_version: "1".into(), read: 0 }),
            objects,
            faults: Vec::new(),
            status: None,
            status_fault: None,
            status_answer: None,
        };
        self.world.set_rendered(&self.template, &InstanceName::of_object(&name), Some(set));
    }

    /// An object that the template made for `web`; returns what becomes of it, at first and when its grace is over.
    fn left(&mut self, kind: Kind, word: (OnRemoval, bool), is_owned: bool) -> [&'static str; 2] {
        [None, Some(at(50))].map(|remove_after| self.left_until(remove_after, kind, word, is_owned))
    }

    fn left_until(
        &mut self,
        remove_after: Option<Timestamp>,
        kind: Kind,
        (word, own_removal): (OnRemoval, bool),
        is_owned: bool,
    ) -> &'static str {
        let slot = ObjectKey::new(kind, "shop", "web");
        let shared = SharedMarks {
            rule: self.template.clone(),
            source: NamespacedName::new("shop", "web"),
            source_uid: "w".into(),
            digest: "d".into(),
            on_removal: Some(word),
            own_removal,
            definition: None,
            names_itself: true,
        };
        let mark = key().mark(&slot, &self.template).into();
        let marks = CopyMarks { shared: shared.into(), mark, remove_after };
        let owner = Owner { name: "web".into(), uid: "w".into(), ..Owner::default() };
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "o", "resourceVersion": "1",
            "labels": marks.labels(), "annotations": marks.annotations(&slot), "creationTimestamp": at(0).to_string(),
            "ownerReferences": Vec::from_iter(is_owned.then_some(owner))});
        let facts = serde_json::from_value::<Slim<Secret>>(json!({ "metadata": metadata })).unwrap().facts;
        self.world.set_object(slot.clone(), Some(ObjectFacts { marks: Some(marks.into()), ..facts }));
        let plan = plan_slot(&self.world, &slot, at(100));
        assert_eq!(plan.needs, []);
        match plan.action {
            None => "rests",
            Some(CopyAction::MarkRemoval(..) | CopyAction::MarkStaying(..)) => "waits",
            Some(CopyAction::Release(_)) => "is released",
            Some(CopyAction::Delete(_)) => "is deleted",
            Some(action) => panic!("{action:?}"),
        }
    }

    fn declared(&self, kind: Kind, deletion: Option<DeletionPolicy>) -> RenderedObject {
        let print = Fingerprint {
            uid: "w".into(),
            resource_version: "1".into(),
            type_: None,
            immutable: false,
            keys: [].into(),
            annotations: [].into(),
            role: None,
            keeper: None,
        };
        RenderedObject {
            slot: ObjectKey::new(kind, "shop", "web"),
            position: 0,
            print,
            labels: [].into(),
            recreate: Default::default(),
            deletion,
            is_read: false,
            body: Body::new(&json!({})),
        }
    }
}

const GOES: [&str; 2] = ["waits", "is deleted"];
/// Its marks stay for the grace, so that it is the template's again where the label comes back.
const STAYS: [&str; 2] = ["waits", "is released"];
const RETAINED: [&str; 2] = ["is released"; 2];
const RESTS: [&str; 2] = ["rests"; 2];
const GRACE: OnRemoval = OnRemoval::Delete(std::time::Duration::from_secs(300));

/// Five minutes after an edit of a template, a claim and its data were gone.
#[test]
fn what_holds_data_stays_when_its_template_no_longer_declares_it() {
    let claim = Scene::new().claim;
    for (kind, word, expected) in [
        (Kind::ConfigMap, (GRACE, false), GOES),
        (Kind::ConfigMap, (OnRemoval::Retain, true), RETAINED),
        (claim, (OnRemoval::Retain, true), STAYS),
        // As an earlier version of ours marked it.
        (claim, (GRACE, false), STAYS),
        (claim, (GRACE, true), GOES),
    ] {
        let mut scene = Scene::new();
        scene.instance("w", Vec::new());
        assert_eq!(scene.left(kind, word, true), expected, "{kind} {word:?}");
        // The template itself is gone.
        scene.world.forget_template(&scene.template.clone());
        assert_eq!(scene.left(kind, word, true), expected, "{kind} {word:?} without its template");
    }
}

/// `kubectl delete --cascade=orphan` was undone after the grace.
#[test]
fn what_the_garbage_collector_left_behind_on_request_stays() {
    let claim = Scene::new().claim;
    for (kind, word, is_owned, expected) in [
        (Kind::ConfigMap, (GRACE, false), false, STAYS),
        (Kind::ConfigMap, (GRACE, true), false, STAYS),
        (claim, (OnRemoval::Retain, true), false, STAYS),
        // The garbage collector is about to delete it; if it does not, we do.
        (Kind::ConfigMap, (GRACE, false), true, GOES),
        // Kubernetes deletes it with its owner, and we leave its mark on.
        (claim, (OnRemoval::Retain, true), true, RESTS),
        (claim, (GRACE, true), true, GOES),
    ] {
        let mut scene = Scene::new();
        assert_eq!(scene.left(kind, word, is_owned), expected, "{kind} {word:?} {is_owned}");
        // Another object has the name now, and nothing is declared for it.
        scene.instance("anew", Vec::new());
        assert_eq!(scene.left(kind, word, is_owned), expected, "{kind} {word:?} {is_owned} beside another");
    }
}

/// To retire a template and keep its workloads, people delete the instance with `--cascade=orphan` first, and the template soon after.
#[test]
fn an_orphan_stays_when_its_template_goes_within_the_grace() {
    let mut scene = Scene::new();
    assert_eq!(scene.left_until(None, Kind::ConfigMap, (GRACE, false), false), "waits");
    let slot = ObjectKey::new(Kind::ConfigMap, "shop", "web");
    let plan = plan_slot(&scene.world, &slot, at(100));
    assert!(
        matches!(plan.action, Some(CopyAction::MarkStaying(..))),
        "it is marked as one that stays: {plan:?}"
    );
    scene.world.forget_template(&scene.template.clone());
    assert_eq!(scene.left(Kind::ConfigMap, (OnRemoval::Retain, true), false), ["is released"; 2]);
}

#[test]
fn an_object_says_itself_what_happens_to_it() {
    let claim = Scene::new().claim;
    for (kind, own, word, is_owned) in [
        (Kind::ConfigMap, None, (GRACE, false), true),
        (Kind::ConfigMap, Some(DeletionPolicy::Retain), (OnRemoval::Retain, true), false),
        (claim, None, (OnRemoval::Retain, true), true),
        (claim, Some(DeletionPolicy::Delete), (GRACE, true), true),
        (claim, Some(DeletionPolicy::Retain), (OnRemoval::Retain, true), false),
    ] {
        let mut scene = Scene::new();
        let object = scene.declared(kind, own);
        let slot = object.slot.clone();
        scene.instance("w", vec![object]);
        let plan = plan_slot(&scene.world, &slot, at(100));
        let intent = &written(&plan).intent;
        assert_eq!(
            (intent.marks.on_removal, intent.marks.own_removal),
            (Some(word.0), word.1),
            "{kind} {own:?}"
        );
        assert_eq!(intent.owner.is_some(), is_owned, "{kind} {own:?}");
    }
}
