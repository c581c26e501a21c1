mod demand;
mod instances;
mod judged;
mod named_fields;
mod neighbours;
mod orphaned;
mod properties;
mod reading;
mod successors;
mod trial;
mod unread;
mod unstable;
mod written;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use serde_json::{Value, json};

use super::*;
use crate::{
    api::CopyratorTemplate,
    digest::DigestKey,
    explain::carry_out,
    intake::{AsWritten, object::Slim, watched::Watched},
    marks::COPY_MANAGER,
    model::{Authority, Comparison, Refusal, RefusalReason, Right, Store, World, WriteFault},
    names::Kind,
    plan::{
        Need,
        copy::{
            Acted, CopyAction, Intent, SlotPlan, SlotState, as_declared, plan_slot, plan_slots,
            settle_examined, settle_slot, template_report,
        },
        every_slot,
    },
    render::all::render_all,
};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(super) fn world() -> World {
    let mut world = World::default();
    world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]));
    let settings = world.settings_mut();
    settings.own_namespace = "copyrator-system".into();
    settings.stores = [Store::CopyratorTemplates].into();
    settings.copy_kinds = [Kind::ResourceQuota, Kind::NetworkPolicy].into();
    settings.default_grace = Duration::from_secs(300);
    world.set_all_listed();
    namespace(&mut world, "platform", json!({}));
    namespace(&mut world, "shop", json!({"team": "blue", "pods": "10"}));
    namespace(&mut world, "bank", json!({"team": "red"}));
    world
}

pub(super) fn namespace(world: &mut World, name: &str, labels: Value) {
    let object = json!({"metadata": {"name": name, "uid": name, "labels": labels, "annotations": {"owner": "o"},
        "creationTimestamp": "1970-01-01T00:00:00Z"}});
    serde_json::from_value::<Namespace>(object).unwrap().put(world, at(0));
}

fn quota() -> Value {
    let spec = json!({"hard": {"pods": "${namespaceObject.metadata.labels['pods']}"}});
    json!({"id": "quota", "template": {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": spec}})
}

fn deny() -> Value {
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    let metadata = json!({"name": "deny-${namespaceObject.metadata.name}", "labels": {"kit": "yes"}});
    json!({"id": "deny", "template": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": metadata, "spec": spec}})
}

/// Takes in a template of namespace platform, whose author may do what it declares.
pub(super) fn template(
    world: &mut World,
    (name, created, generation): (&str, i64, i64),
    objects: Value,
) -> Declarer {
    let object = json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": {"namespace": "platform", "name": name, "uid": name, "generation": generation, "resourceVersion": "1",
            "creationTimestamp": at(created).to_string()},
        "spec": {"forEach": {"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}, "objects": objects},
    });
    serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(world, at(0));
    let name = Declarer::template("platform", name);
    answer(world, &name, true);
    name
}

pub(super) fn answer(world: &mut World, name: &Declarer, may: bool) {
    let facts = &world.templates()[name];
    let refusal = Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned() };
    let authority = Authority {
        uid: facts.uid.clone(),
        generation: facts.generation,
        identity: "user alice".into(),
        answer: may.then_some(()).ok_or(refusal),
        asked: at(0),
        questions: 0,
        refusals: 0,
    };
    world.set_rule_authority(name, authority);
}

pub(super) fn plans(world: &World) -> BTreeMap<ObjectKey, SlotPlan> {
    every_slot(world).into_iter().map(|slot| (slot.clone(), plan_slot(world, &slot, at(100)))).collect()
}

/// Renders everything, and carries out every plan.
fn settle(world: &mut World) -> Vec<String> {
    render_all(world);
    act(world)
}

/// Carries out every plan, and lists the objects that are there then.
fn act(world: &mut World) -> Vec<String> {
    let plans = plans(world);
    carry_out(world, &plans, at(100));
    world.objects().map(|(key, _)| key.to_string()).collect()
}

fn actions(world: &World) -> Vec<CopyAction> {
    plans(world).into_values().filter_map(|plan| plan.action).collect()
}

fn slot(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "shop", name)
}

#[test]
fn each_selected_namespace_gets_its_objects_and_then_nothing_is_left_to_do() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([quota(), deny()]));
    assert_eq!(settle(&mut world), ["NetworkPolicy shop/deny-shop", "ResourceQuota shop/quota"]);
    assert_eq!(actions(&world), []);
    let set = world.rendered(&kit, &"shop".into()).unwrap();
    let quota: Value = serde_json::from_str(set.objects[0].body.expose()).unwrap();
    assert_eq!(quota["spec"]["hard"]["pods"], "10");
    let report = template_report(&world, &kit, at(100)).unwrap();
    assert_eq!((report.status.sources, report.status.desired, report.status.current), (1, 2, 2));
    let ready = report.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("True", "AllRendered"));

    namespace(&mut world, "shop", json!({"team": "blue", "pods": "20"}));
    render_all(&mut world);
    let changed = actions(&world);
    assert!(
        matches!(&changed[..], [CopyAction::Write(write)] if write.intent.marks.rule == kit),
        "{changed:?}"
    );
    assert!(!format!("{changed:?}").contains("podSelector"), "a body reached a formatter");
}

#[test]
fn what_is_made_of_a_source_is_found_by_namespace_whatever_its_kind() {
    let mut world = world();
    namespace(&mut world, "shops", json!({"team": "blue", "pods": "10"}));
    let kit = template(&mut world, ("kit", 1, 1), json!([quota(), deny()]));
    settle(&mut world);
    let of = |world: &World, namespace: &str| {
        let namespace = namespace.into();
        let found = world.copies_of_source_in(&kit.named(), &namespace).map(ToString::to_string);
        found.collect::<Vec<_>>()
    };
    assert_eq!(of(&world, "shop"), ["NetworkPolicy shop/deny-shop", "ResourceQuota shop/quota"]);
    assert_eq!(of(&world, "shops"), ["NetworkPolicy shops/deny-shops", "ResourceQuota shops/quota"]);
    assert_eq!(of(&world, "bank"), [""; 0]);
}

/// What a template gives for one namespace says nothing of another one that had the same until now.
#[test]
fn of_objects_that_were_alike_the_one_that_is_not_any_more_is_written() {
    let mut world = world();
    for name in ["p1", "p2", "p3"] {
        namespace(&mut world, name, json!({"team": "blue", "pods": "10"}));
    }
    let kit = template(&mut world, ("kit", 1, 1), json!([quota()]));
    settle(&mut world);
    let mut changed = quota();
    changed["template"]["spec"]["hard"]["pods"] =
        json!("${namespaceObject.metadata.name == 'p2' ? '20' : '10'}");
    template(&mut world, ("kit", 1, 2), json!([changed]));
    render_all(&mut world);
    let slots = every_slot(&world);
    let written = plan_slots(&world, &slots, at(100)).filter(|(_, plan)| plan.action.is_some());
    let written: Vec<String> = written.map(|(slot, _)| slot.to_string()).collect();
    assert_eq!(written, ["ResourceQuota p2/quota"]);
    let status = template_report(&world, &kit, at(100)).unwrap().status;
    assert_eq!((status.desired, status.current), (4, 3));
}

/// What is there works, so it counts as current; and nothing is written again.
#[test]
fn what_the_api_server_does_not_keep_is_told_and_not_written_again() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([quota(), deny()]));
    settle(&mut world);
    let quota = slot(Kind::ResourceQuota, "quota");
    let digest = world.object(&quota).unwrap().marks.as_ref().unwrap().digest.clone();
    let remember = |world: &mut World, digest: &str| {
        let same = Comparison { differs: false, compared: None };
        settle_examined(world, &quota, digest, same, vec!["spec.hard.pods".into()]);
    };
    let degraded = |world: &World| {
        let status = template_report(world, &kit, at(100)).unwrap().status;
        assert_eq!((status.desired, status.current), (2, 2));
        let degraded = status.conditions.into_iter().find(|one| one.type_ == "Degraded");
        degraded.map(|degraded| (degraded.reason, degraded.message, status.problem_count))
    };
    remember(&mut world, &digest);
    assert_eq!(actions(&world), []);
    let (reason, message, count) = degraded(&world).unwrap();
    assert_eq!((&*reason, count), ("NotKept", 1));
    assert!(message.contains("quota in namespace shop") && message.contains("spec.hard.pods"), "{message}");
    let tally = template_report(&world, &kit, at(100)).unwrap().tally;
    assert_eq!((tally.failed, tally.conflicting), (0, 0), "no alert counts it");

    remember(&mut world, "of an earlier content");
    assert_eq!(degraded(&world), None);
    remember(&mut world, &digest);
    world.set_object(quota.clone(), None);
    assert_eq!(world.memory().slot(&quota).not_kept(), None, "of what is gone nothing is remembered");
}

#[test]
fn a_fault_in_one_namespace_removes_nothing_there_and_is_told() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([quota(), deny()]));
    settle(&mut world);
    namespace(&mut world, "shop", json!({"team": "blue"}));
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    assert_eq!(plans(&world)[&slot(Kind::ResourceQuota, "quota")].state, SlotState::Kept);
    assert_eq!(plans(&world)[&slot(Kind::NetworkPolicy, "deny-shop")].state, SlotState::Current);
    let report = template_report(&world, &kit, at(100)).unwrap();
    let problem = &report.status.problems[0];
    assert_eq!((&*problem.reason, &*problem.namespace, &*problem.name), ("RenderFailed", "shop", "quota"));
    assert!(problem.message.contains("spec.hard.pods"), "{}", problem.message);

    // It is not declared any more, once that is known. The new author may not be allowed to delete what the text no
    // longer speaks of.
    template(&mut world, ("kit", 1, 2), json!([deny()]));
    assert_eq!(actions(&world), [], "nothing is done before the new generation is rendered");
    render_all(&mut world);
    let needs = plans(&world).remove(&slot(Kind::ResourceQuota, "quota")).unwrap().needs;
    assert_eq!(needs, [Need::Right(kit, Right::Delete(Kind::ResourceQuota), "shop".into())]);
}

#[test]
fn without_a_right_nothing_is_rendered_written_or_removed() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([deny()]));
    settle(&mut world);
    answer(&mut world, &kit, false);
    render_all(&mut world);
    assert!(world.rendered(&kit, &"shop".into()).is_none());
    assert_eq!(actions(&world), []);
    let report = template_report(&world, &kit, at(100)).unwrap();
    let ready = report.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason, &*ready.message), ("False", "Forbidden", "no"));
    answer(&mut world, &kit, true);
    world.settings_mut().copy_kinds.clear();
    let report = template_report(&world, &kit, at(100)).unwrap();
    let ready = report.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "KindNotGranted"));
}

#[test]
fn a_namespace_or_template_that_goes_lets_its_objects_go_after_their_grace() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([deny()]));
    settle(&mut world);
    namespace(&mut world, "shop", json!({"team": "red"}));
    render_all(&mut world);
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(..)]), "{:?}", actions(&world));
    namespace(&mut world, "shop", json!({"team": "blue", "pods": "10"}));
    assert_eq!(actions(&world), []);
    world.forget_template(&kit);
    assert!(matches!(actions(&world)[..], [CopyAction::MarkRemoval(_, after)] if after == at(400)));

    // A process that does not look at templates leaves what they made.
    world.settings_mut().stores.remove(&Store::CopyratorTemplates);
    assert_eq!(actions(&world), []);
}

/// RBAC refuses every change of a binding by an account that may not bind its role, and the API server every mark on an object whose
/// annotations are full, so the reconciler counts the grace in memory.
#[test]
fn what_cannot_be_marked_goes_after_its_grace_all_the_same() {
    let mut world = world();
    world.settings_mut().copy_kinds.insert(Kind::RoleBinding);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let bound = json!({"id": "bound", "template": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "team"}, "roleRef": role, "subjects": []}});
    let kit = template(&mut world, ("kit", 1, 1), json!([bound, deny()]));
    settle(&mut world);
    world.forget_template(&kit);
    let could_not = |world: &mut World, key: &ObjectKey, acted: Acted| {
        let action = plan_slot(world, key, at(100)).action.expect("it is marked");
        assert!(matches!(action, CopyAction::MarkRemoval(..)), "{action:?}");
        settle_slot(world, key, &action, acted, at(100));
        plan_slot(world, key, at(100))
    };
    let (binding, policy) = (slot(Kind::RoleBinding, "team"), slot(Kind::NetworkPolicy, "deny-shop"));
    let forbidden = || Acted::Failed(WriteFault::Forbidden, "no".into());
    // Where a mark may come yet, it is tried again.
    let refused = Acted::Refused(WriteFault::Refused, "a webhook denied it".into());
    let failed = Acted::Failed(WriteFault::Failed, "no answer".into());
    for acted in [forbidden(), failed, refused, Acted::Outdated] {
        let plan = could_not(&mut world, &policy, acted);
        assert!(matches!(plan.action, Some(CopyAction::MarkRemoval(..))), "{plan:?}");
    }
    let full =
        Acted::Refused(WriteFault::TooLarge, "invalid: metadata.annotations (FieldValueTooLong)".into());
    for (key, acted) in [(&binding, forbidden()), (&policy, full)] {
        let plan = could_not(&mut world, key, acted);
        assert_eq!((plan.action, plan.state), (None, SlotState::Leaving(Some(at(400)))), "{key}");
        let plan = plan_slot(&world, key, at(400));
        assert!(matches!(plan.action, Some(CopyAction::Delete(_))), "{plan:?}");
    }

    // A template that declares it again keeps it.
    template(&mut world, ("kit", 1, 2), json!([bound]));
    render_all(&mut world);
    let plan = plan_slot(&world, &binding, at(500));
    assert_eq!((plan.action, plan.state), (None, SlotState::Current));
}

#[test]
fn of_two_templates_the_older_has_the_place() {
    let mut world = world();
    let second = template(&mut world, ("second", 2, 1), json!([deny()]));
    let first = template(&mut world, ("first", 1, 1), json!([deny()]));
    settle(&mut world);
    let holder = world.object(&slot(Kind::NetworkPolicy, "deny-shop")).unwrap().marks.as_ref().unwrap();
    assert_eq!(holder.rule, first);
    let report = template_report(&world, &second, at(100)).unwrap();
    assert_eq!(&*report.status.problems[0].reason, "OtherRule");
    assert!(report.status.problems[0].message.contains("CopyratorTemplate platform/first"));
    world.forget_template(&first);
    assert!(matches!(&actions(&world)[..], [CopyAction::Write(write)] if write.intent.marks.rule == second));
}

/// While a template was not asked about yet, was just changed, or has a fault, the place of its object is not given to another claim.
#[test]
fn an_object_stays_with_its_template_while_that_is_not_rendered() {
    let mut world = world();
    let first = template(&mut world, ("first", 1, 1), json!([deny()]));
    settle(&mut world);
    template(&mut world, ("second", 2, 1), json!([deny()]));
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    let mine = |world: &World| {
        let plan = plans(world).remove(&slot(Kind::NetworkPolicy, "deny-shop")).unwrap();
        assert_eq!((plan.action, plan.rule.as_ref()), (None, Some(&first)));
    };
    // One that may takes over from one that may not.
    answer(&mut world, &first, false);
    render_all(&mut world);
    let second = Declarer::template("platform", "second");
    assert!(matches!(&actions(&world)[..], [CopyAction::Write(write)] if write.intent.marks.rule == second));
    answer(&mut world, &second, false);
    render_all(&mut world);
    mine(&world);
    answer(&mut world, &second, true);
    render_all(&mut world);
    template(&mut world, ("first", 1, 2), json!([deny()]));
    mine(&world);
    render_all(&mut world);
    mine(&world);
    let broken = json!({"id": "broken", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"a": "${namespaceObject.metadata.labels['none']}"}}});
    template(&mut world, ("first", 1, 3), json!([broken]));
    render_all(&mut world);
    mine(&world);

    // It is let go once that is known.
    let other = json!({"id": "other", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}});
    template(&mut world, ("first", 1, 4), json!([other]));
    mine(&world);
    render_all(&mut world);
    assert!(
        actions(&world)
            .iter()
            .any(|action| matches!(action, CopyAction::Write(write) if write.replaces.is_some()))
    );
}

#[test]
fn what_was_rendered_from_another_state_of_the_namespace_or_template_counts_for_nothing() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([quota()]));
    settle(&mut world);
    let stale = world.rendered(&kit, &"shop".into()).cloned();
    namespace(&mut world, "shop", json!({"team": "blue", "pods": "20"}));
    assert_eq!(actions(&world), [], "it is not rendered from the new labels yet");
    world.set_rendered(&kit, &"shop".into(), stale.clone());
    assert_eq!(actions(&world), []);
    world.forget_template(&kit);
    world.set_rendered(&kit, &"shop".into(), stale);
    assert!(world.rendered(&kit, &"shop".into()).is_none(), "the template is gone");
}

#[test]
fn annotations_that_are_not_read_are_a_fault_only_where_an_expression_reads_them() {
    let mut world = world();
    let owner = json!({"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"owner": "${namespaceObject.metadata.?annotations['owner'].orValue('nobody')}"}}});
    let (reads, other) = (
        template(&mut world, ("reads", 1, 1), json!([owner])),
        template(&mut world, ("other", 1, 1), json!([deny()])),
    );
    let long = json!({"metadata": {"name": "shop", "uid": "shop", "labels": {"team": "blue"},
        "annotations": {"owner": "o", "long": "x".repeat(1 << 11)}}});
    serde_json::from_value::<Namespace>(long).unwrap().put(&mut world, at(0));
    render_all(&mut world);
    assert_eq!(world.rendered(&reads, &"shop".into()).unwrap().faults.len(), 1);
    assert_eq!(world.rendered(&other, &"shop".into()).unwrap().objects.len(), 1);
}

/// A controller that writes an annotation of a namespace every second is none of our business, and no news that would have
/// anything rendered anew.
#[test]
fn an_annotation_that_no_expression_reads_changes_nothing() {
    let mut world = world();
    template(&mut world, ("kit", 1, 1), json!([deny()]));
    settle(&mut world);
    let annotated = json!({"metadata": {"name": "shop", "uid": "shop", "labels": {"team": "blue", "pods": "10"},
        "annotations": {"other": "x"}, "creationTimestamp": "1970-01-01T00:00:00Z"}});
    let is_news = serde_json::from_value::<Namespace>(annotated).unwrap().put(&mut world, at(0));
    assert!(!is_news, "nobody asks for a rendering");
    assert_eq!(plans(&world)[&slot(Kind::NetworkPolicy, "deny-shop")].state, SlotState::Current);
}

#[test]
fn a_change_of_template_or_namespace_asks_for_each_namespace_that_it_touches() {
    let mut world = world();
    let kit = template(&mut world, ("kit", 1, 1), json!([deny()]));
    let changed = |world: &World, changed| crate::plan::affected(world, &changed);
    let rendering = Key::Rendering(kit.clone(), "shop".into());
    assert!(changed(&world, crate::plan::Changed::Template(kit.clone())).contains(&rendering));
    settle(&mut world);
    let keys = changed(&world, crate::plan::Changed::Namespace("shop".into()));
    assert!(keys.contains(&rendering) && keys.contains(&Key::RuleStatus(kit.clone())), "{keys:?}");
    let keys = changed(&world, crate::plan::Changed::Namespace("bank".into()));
    assert!(!keys.iter().any(|key| matches!(key, Key::Rendering(..))), "{keys:?}");
    let everything = crate::plan::everything(&world);
    assert!(everything.contains(&rendering) && everything.contains(&Key::Rule(kit)), "{everything:?}");
}
