//! A sound install, for tests to break.

use std::time::{Duration, SystemTime};

use copyrator_certs::{Authority, Rotation};
use jiff::Timestamp;
use k8s_openapi::{
    api::rbac::v1::ClusterRole,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Resource as _;
use serde_json::{Value, json};

use super::super::{
    facts::{Ca, Facts, LeaseFacts, Pair, Right, UnreadFacts},
    rights::rights,
};
use crate::{
    crds::manifests,
    hooks::{Endpoint, Frame, Stamper, WarningScope, render},
    installed::Install,
};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

pub(crate) fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn deployment(component: &str) -> Value {
    let arguments = [
        "serve".to_owned(),
        format!("--roles={component}"),
        "--namespace=$(POD_NAMESPACE)".into(),
        "--webhook-service=copyrator-webhook:443".into(),
        "--owner-cluster-role=copyrator".into(),
        "--annotations=true".into(),
    ];
    let name = format!("copyrator-{component}");
    json!({
        "metadata": {"name": name, "annotations": {"meta.helm.sh/release-name": "copyrator"}},
        "spec": {"replicas": 2, "selector": {}, "template": {"spec": {
            "serviceAccountName": name, "containers": [{"name": "copyrator", "args": arguments}],
        }}},
        "status": {"readyReplicas": 2},
    })
}

/// Gives our accounts the rights that these Deployments need, and no others.
pub(crate) fn rightful(facts: &mut Facts) {
    let rights = rights(&Install::new("ours", facts.deployments.as_deref().unwrap()));
    let answer = |right: &Right| Ok(right.role.is_some());
    facts.rights = rights.into_iter().map(|right| (right.clone(), answer(&right))).collect();
}

/// Reverses the answer about one right: account, verb, resource and namespace.
pub(crate) fn turn(facts: &mut Facts, which: [&str; 4]) {
    let mut turned = 0;
    for (Right { question: it, .. }, answer) in &mut facts.rights {
        let account = it.subject.as_service_account().unwrap().1;
        if [account, it.verb, &*it.resource, &it.namespace] == which {
            *answer = answer.clone().map(|allowed| !allowed);
            turned += 1;
        }
    }
    assert!(turned > 0, "nobody asks about {which:?}");
}

pub(crate) fn sound() -> Facts {
    let authority = Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap();
    let ca = Rotation::new(authority, SystemTime::from(now()));
    let owner: ClusterRole = object(json!({"metadata": {"name": "copyrator", "uid": "u"}}));
    let endpoint =
        Endpoint::Service { name: "copyrator-webhook".into(), namespace: "ours".into(), port: 443 };
    let bundle = ca.secret.trust_bundle(SystemTime::from(now()));
    let frame = Frame {
        stamper: Stamper::ApiServer,
        endpoint: &endpoint,
        ca_bundle_pem: &bundle,
        owner: owner.owner_ref(&()),
        own_namespace: "ours",
        annotations: true,
        timeout: None,
    };
    let (validating, mutating) = render([], &WarningScope::of_anything(), &frame);
    let of_kind = |wanted: &Value, kind: &str| wanted["kind"].as_str().is_some_and(|it| it.contains(kind));
    let definitions =
        manifests().into_iter().filter(|wanted| of_kind(wanted, "Definition")).map(|mut one| {
            one["status"] =
                json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": []});
            let definition: CustomResourceDefinition = object(one);
            (definition.metadata.name.clone().unwrap(), Ok(Some(definition)))
        });
    let policies = manifests().into_iter().filter(|wanted| of_kind(wanted, "AdmissionPolicy"));
    let mut facts = Facts {
        kinds: Default::default(),
        namespace: "ours".into(),
        now: now(),
        server: Ok("v1.36.3".parse().unwrap()),
        deployments: Ok(["webhook", "reconciler"].map(|it| object(deployment(it))).into()),
        definitions: definitions.collect(),
        admission: policies.map(|wanted| Pair { live: Ok(Some(wanted.clone())), wanted }).collect(),
        hooks: Ok(vec![serde_json::to_value(validating).unwrap(), serde_json::to_value(mutating).unwrap()]),
        endpoints: [
            (("them".to_owned(), "up".to_owned()), Ok(true)),
            (("them".to_owned(), "down".to_owned()), Ok(false)),
        ]
        .into(),
        policies: Ok(Vec::new()),
        inert_policies: Ok(Vec::new()),
        by_user: Ok(Vec::new()),
        canary: Some(Ok(Ok(()))),
        ca: Ok(Ca::There(Box::new(ca))),
        digest_key: Ok(true),
        lease: Ok(LeaseFacts {
            holder: "copyrator-reconciler-1_abcd".into(),
            is_renewed: true,
            is_ours: true,
            renewed_at: Some(now()),
        }),
        rights: Vec::new(),
        owner: Ok(Some(owner)),
        held: Ok(Vec::new()),
        stray: Vec::new(),
        unlabelled: Ok(Vec::new()),
        unread: Ok(UnreadFacts::default()),
        owned: Vec::new(),
    };
    rightful(&mut facts);
    facts
}
