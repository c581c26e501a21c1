//! What templates declare is judged by the policies present, as a copy is.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, RwLock},
};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::Body;

use super::{super::super::guard::CopyGuard, *};
use crate::{
    api::ConfigPolicySpec,
    dry_run::outcome::Outcome,
    model::Declared,
    plan::copy::{CopyWrite, Guards},
    read::content::Contents,
    validate::CompiledPolicy,
};

fn policy(world: &mut World, copies: &str) {
    let spec = json!({"match": {"kinds": ["ConfigMap"], "names": ["app"], "copies": copies},
        "data": [{"name": "address", "keys": ["url"], "format": "url"}]});
    let spec: ConfigPolicySpec = serde_json::from_value(spec).unwrap();
    let facts = Declared {
        uid: "p".into(),
        resource_version: "1".into(),
        generation: i64::from(copies == "Exclude"),
        created: at(0),
        annotations: BTreeMap::new(),
        compiled: CompiledPolicy::compile(&spec).map(Arc::new),
        spec,
        status: None,
    };
    world.set_policy("p".into(), facts);
}

/// The namespace shop, with this address.
fn shop(world: &mut World, address: &str) {
    namespace(world, "shop", json!({"team": "blue", "address": address}));
    render_all(world);
}

/// The reconciler's guard. All that it needs is known, so it asks the API server nothing.
fn guard(world: World) -> CopyGuard {
    let service = tower::service_fn(|request: Request<Body>| async move {
        assert_eq!(request.uri().path(), "", "nothing is asked");
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let contents = Arc::new(Contents::new(Client::new(service, "default")));
    let context = Context::new(Arc::new(RwLock::new(world)), Arc::default());
    CopyGuard { context, contents }
}

#[tokio::test]
async fn what_a_policy_refuses_is_rendered_nowhere() {
    let mut world = world();
    let data = json!({"url": "${namespaceObject.metadata.labels['address'].replace('_', '://')}"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": data});
    let kit = template(&mut world, ("kit", 1, 1), json!([{"id": "app", "template": object}]));
    policy(&mut world, "Include");
    shop(&mut world, "hunter2");
    let (guard, slot) = (guard(world), slot(Kind::ConfigMap, "app"));
    let written = || -> Box<CopyWrite> {
        match plan_slot(&guard.context.world(), &slot, at(100)).action {
            Some(CopyAction::Write(write)) => write,
            other => panic!("{other:?}"),
        }
    };
    let guards = |write: &CopyWrite| Guards::of(&guard.context.world(), &slot, write, "us");
    let write = written();
    let known = guards(&write).unwrap();
    let Some(Outcome::Refused { reason, message }) = guard.refusal(&slot, &write, known).await else {
        panic!("it came in");
    };
    assert_eq!(reason, WriteFault::RefusedByPolicy);
    for part in
        ["policy p, rule address", "ConfigMap shop/app, key url", "correct the template", "copies: Exclude"]
    {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    assert!(!message.contains("hunter2"), "{message}");

    {
        let world = &mut guard.context.world_mut();
        let refused = Acted::Refused(reason, message.clone());
        settle_slot(world, &slot, &CopyAction::Write(write), refused, at(100));
        assert_eq!(actions(world), [], "it is not tried again before something changes");
        let status = template_report(world, &kit, at(100)).unwrap().status;
        let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded").unwrap();
        assert_eq!((&*degraded.status, &*degraded.reason), ("True", "RefusedByPolicy"));
        assert!(degraded.message.contains(&message), "{}", degraded.message);
        assert_eq!((status.desired, status.current), (1, 0));
        policy(world, "Exclude");
    }
    assert!(guards(&written()).is_none(), "the policy leaves it out");
    policy(&mut guard.context.world_mut(), "Include");
    shop(&mut guard.context.world_mut(), "https_example.com");
    let write = written();
    let known = guards(&write).unwrap();
    assert!(guard.refusal(&slot, &write, known).await.is_none(), "it is right");
}
