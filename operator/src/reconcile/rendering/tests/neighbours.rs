//! A tenant whose expressions take processors, beside tenants with a small template each.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    answer, at,
    instances::{put, world_with_kind},
    world,
};
use crate::{
    api::CopyratorTemplate,
    intake::{AsWritten, watched::Watched},
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::World,
    names::Declarer,
    plan::{Key, copy::template_report},
    reconcile::{
        Again, Lane, NEW_NAMESPACE_LANE,
        tests::{Oracle, Server, reconciler},
    },
};

/// How many templates the loud tenant has.
const LOUD: usize = 100;

/// Takes in a template of a namespace, whose author may do what it declares.
fn template_for(world: &mut World, (home, name): (&str, &str), for_each: Value, text: &str) -> Declarer {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": text}});
    let object = json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": {"namespace": home, "name": name, "uid": name, "generation": 1, "resourceVersion": "1",
            "annotations": {AUTHOR: "alice", AUTHOR_GROUPS: "[]"}, "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"forEach": for_each, "objects": [{"id": "a", "template": object}]},
    });
    serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(world, at(0));
    let name = Declarer::template(home, name);
    answer(world, &name, true);
    name
}

/// Takes in a template for namespace shop.
fn template(world: &mut World, home: &str, name: &str, text: &str) -> Declarer {
    template_for(world, (home, name), json!({"namespaces": [{"names": ["shop"]}]}), text)
}

fn rendering(template: &Declarer) -> Key {
    Key::Rendering(template.clone(), "shop".into())
}

/// 300 templates of one namespace, each with an expression that takes 50 ms every 10 s, kept the copies of everybody else waiting for
/// 8 to 12 s.
#[tokio::test(flavor = "multi_thread")]
async fn expressions_of_one_tenant_delay_no_other_tenant() {
    let numbers: Value = (0..50).collect();
    let burn = format!("${{string({numbers}.map(a, {numbers}.map(b, a * b).size()).size())}}");
    let mut world = world();
    let loud: Vec<_> =
        (0..LOUD).map(|number| template(&mut world, "platform", &format!("burn-{number}"), &burn)).collect();
    let quiet = template(&mut world, "bank", "quiet", "${namespaceObject.metadata.name}");
    let reconciler =
        Arc::new(reconciler(&Server::default(), &Arc::new(Oracle(Mutex::new(Some(true)))), world));
    let (context, stop) = (reconciler.context.clone(), CancellationToken::new());
    let is_rendered = |template: &Declarer| context.world().rendered(template, &"shop".into()).is_some();
    let rendered = || loud.iter().filter(|template| is_rendered(template)).count();
    let until = async |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };

    context.queue().open();
    loud.iter().for_each(|template| context.queue().add(rendering(template), Lane::Change));
    let mut workers = JoinSet::new();
    for _ in 0..16 + NEW_NAMESPACE_LANE {
        let (reconciler, stop) = (reconciler.clone(), stop.clone());
        workers.spawn(async move { reconciler.work(&stop).await });
    }
    until(&|| rendered() > 0).await;
    let before = rendered();
    context.queue().add(rendering(&quiet), Lane::Change);
    until(&|| is_rendered(&quiet)).await;
    let meanwhile = rendered() - before;
    until(&|| rendered() == LOUD).await;
    stop.cancel();
    workers.join_all().await;
    eprintln!("{meanwhile} of {} renderings of another tenant came first", LOUD - before);
    assert!(meanwhile < LOUD / 4, "{meanwhile} of {} renderings of another tenant came first", LOUD - before);
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_namespace_is_over_its_budget_says_so_and_is_rendered_later() {
    let mut world = world();
    let kit = template(&mut world, "platform", "kit", "${namespaceObject.metadata.name}");
    let reconciler = reconciler(&Server::default(), &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    let queue = reconciler.context.queue();
    queue.open();
    queue.expressions().charge("platform", 61.0);
    queue.add(rendering(&kit), Lane::Change);
    let taken = queue.next().await;
    let again = reconciler.look_at(&taken).await;
    assert_eq!(again, Again::In(Lane::OverBudget));
    queue.done(&taken, again);
    let degraded = || {
        let world = reconciler.context.world();
        let report = template_report(&world, &kit, at(100)).unwrap();
        let degraded = report.status.conditions.into_iter().find(|it| it.type_ == "Degraded");
        degraded.map(|degraded| (degraded.reason, degraded.message)).unwrap_or_default()
    };
    let (reason, message) = degraded();
    assert_eq!(reason, "OverBudget");
    assert!(message.contains("namespace platform used up the processor time"), "{message}");

    let status = queue.next().await;
    assert_eq!(status, Key::RuleStatus(kit.clone()), "it is told");
    queue.done(&status, Again::OnChange);
    let taken = queue.next().await;
    assert_eq!((&taken, queue.lane_of(&taken)), (&rendering(&kit), Some(Lane::OverBudget)));
    let again = reconciler.look_at(&taken).await;
    queue.done(&taken, again);
    assert!(reconciler.context.world().rendered(&kit, &"shop".into()).is_some());
    assert_eq!(degraded().0, "OverBudget", "as long as it may happen again");
    let over = reconciler.context.world_mut().memory_mut().within_budget(jiff::Timestamp::MAX);
    assert_eq!(over, std::slice::from_ref(&kit));
    assert_ne!(degraded().0, "OverBudget");
}

/// When a leader starts, its rule handler has all objects of a template rendered. They stood in the line of the template's namespace,
/// which owes nothing, so that the objects of one tenant kept those of all others waiting.
#[tokio::test(start_paused = true)]
async fn two_tenants_whose_objects_one_template_is_rendered_for_have_turns() {
    let mut world = world_with_kind();
    for number in 0..20 {
        put(&mut world, ("bank", &format!("loud-{number}")), 1, json!({}));
    }
    put(&mut world, ("shop", "quiet"), 1, json!({}));
    let objects = json!({"objects": {"apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "namespaces": [{"names": ["bank", "shop"]}]}});
    let kit = template_for(&mut world, ("platform", "kit"), objects, "${object.metadata.name}");
    world.forget_rule_authority(&kit, |_| true);
    let reconciler = reconciler(&Server::default(), &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    let (context, queue) = (&reconciler.context, reconciler.context.queue());
    queue.open();
    queue.expressions().charge("bank", 61.0);
    reconciler.look_at(&Key::Rule(kit.clone())).await;

    let mut taken = Vec::new();
    while let Some(key) = queue.next().now_or_never() {
        let again = match &key {
            Key::Rendering(_, instance) => {
                taken.push(instance.namespace.to_string());
                reconciler.look_at(&key).await
            }
            _ => Again::OnChange,
        };
        queue.done(&key, again);
    }
    assert!(taken[..2].contains(&"shop".to_owned()), "{taken:?}");
    let world = context.world();
    let rendered: Vec<_> =
        world.rendered_of(&kit).map(|(instance, _)| instance.namespace.to_string()).collect();
    assert_eq!(rendered, ["shop"], "the other namespace is over its budget");
    assert_eq!(queue.depth().0[Lane::OverBudget as usize], 20);
}
