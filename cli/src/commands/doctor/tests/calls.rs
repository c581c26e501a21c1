//! Faults between the API server and the webhook: the CA and its rotation, and the hooks.

use std::time::SystemTime;

use copyrator_certs::Authority;
use serde_json::{Value, json};

use super::super::{
    facts::Ca,
    finding::{
        Id,
        Severity::{Error, Warning},
    },
    tests::sound::{DAY, deployment, now, object},
};
use super::{Case, ca, hands_off, mounted, ours, rotation};

pub(super) const CASES: &[Case] = &[
    ("no CA", |it| it.ca = Ok(Ca::Absent), &[(Error, Id::CaMissing)], ""),
    (
        "a torn CA",
        |it| it.ca = Ok(Ca::Torn("half".into())),
        &[(Error, Id::CaMissing)],
        "delete secret copyrator-webhook-ca",
    ),
    ("an old CA", |it| it.now += 300 * DAY, &[(Warning, Id::CaExpiring)], "delete secret"),
    ("an expired CA", |it| it.now += 400 * DAY, &[(Error, Id::CaExpiring)], "delete secret"),
    (
        "a rotation without end",
        |it| {
            ca(it).next = Some(Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap());
            it.now += 3 * DAY;
        },
        &[(Warning, Id::RotationHeld)],
        "rollout restart",
    ),
    (
        "a rotation that hands off holds",
        |it| {
            ca(it).next = Some(Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap());
            hands_off(it, 0);
        },
        &[(Warning, Id::RotationHeld), (Warning, Id::HooksOff)],
        "kubectl annotate validatingwebhookconfiguration copyrator copyrator.dev/hands-off-",
    ),
    (
        "a rotation that hands off holds, on the other one",
        |it| {
            ca(it).next = Some(Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap());
            hands_off(it, 1);
        },
        &[(Warning, Id::RotationHeld), (Warning, Id::HooksOff)],
        "kubectl annotate mutatingwebhookconfiguration copyrator copyrator.dev/hands-off-",
    ),
    (
        "a rotation that every hook carries goes on, hands off or not",
        |it| {
            ca(it).next = Some(Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap());
            rotation(it).published = Some(SystemTime::from(now()));
            hands_off(it, 0);
        },
        &[(Warning, Id::HooksOff)],
        "",
    ),
    (
        "a CA that signs no more and is trusted still",
        |it| {
            ca(it).old = vec![ca(it).current.certificate().clone()];
            it.now += 3 * DAY;
        },
        &[(Warning, Id::RotationHeld)],
        "rollout restart",
    ),
    (
        "no hooks",
        |it| drop(it.hooks.as_mut().unwrap().pop()),
        &[(Error, Id::HooksMissing)],
        "rollout restart",
    ),
    (
        "hands off",
        |it| hands_off(it, 0),
        &[(Warning, Id::HooksOff)],
        "kubectl annotate validatingwebhookconfiguration copyrator copyrator.dev/hands-off-",
    ),
    (
        "switched off",
        |it| {
            hands_off(it, 0);
            ours(it, 0)["webhooks"] = json!([]);
            it.canary = Some(Ok(Err("a dry run did not reach the webhook".into())));
        },
        &[(Error, Id::HooksOff)],
        "",
    ),
    (
        "switched off by the other one",
        |it| {
            hands_off(it, 1);
            ours(it, 0)["webhooks"] = json!([]);
            it.canary = Some(Ok(Err("a dry run did not reach the webhook".into())));
        },
        &[(Error, Id::HooksOff)],
        "kubectl annotate mutatingwebhookconfiguration",
    ),
    (
        "hands off, and no answer",
        |it| {
            hands_off(it, 0);
            it.canary = Some(Ok(Err("connection refused".into())));
        },
        &[(Error, Id::WebhookDown), (Warning, Id::HooksOff)],
        "",
    ),
    (
        "an exemption",
        |it| ours(it, 0)["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"a": "b"}}),
        &[(Error, Id::HooksDrifted)],
        "kubectl delete validatingwebhookconfiguration copyrator",
    ),
    (
        "a policy that no hook asks for",
        |it| {
            it.policies.as_mut().unwrap().push(object(json!({"metadata": {"name": "p"},
            "spec": {"match": {"kinds": ["Secret"]}, "limits": {"maxBytes": 1}}})))
        },
        &[(Error, Id::HooksDrifted)],
        "",
    ),
    (
        "another address",
        |it| {
            it.deployments.as_mut().unwrap()[1] = object({
                let mut edited = deployment("reconciler");
                edited["spec"]["template"]["spec"]["containers"][0]["args"][3] =
                    "--webhook-url=https://10.0.0.1".into();
                edited
            })
        },
        &[(Error, Id::HooksDrifted)],
        "",
    ),
    (
        "no caBundle",
        |it| ours(it, 0)["webhooks"][1]["clientConfig"]["caBundle"] = Value::Null,
        &[(Error, Id::CaNotTrusted)],
        "kubectl delete validatingwebhookconfiguration copyrator",
    ),
    (
        "another CA",
        |it| ca(it).current = Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap(),
        &[(Error, Id::CaNotTrusted)],
        "",
    ),
    (
        "an answer that is not trusted",
        |it| it.canary = Some(Ok(Err("tls: failed to verify certificate: x509: unknown authority".into()))),
        &[(Error, Id::CaNotTrusted)],
        "",
    ),
    (
        "certificates that are mounted, and a CA of ours from before",
        |it| {
            mounted(it);
            ca(it).current = Authority::issue("ca", SystemTime::from(now()), 365 * DAY).unwrap();
        },
        &[],
        "",
    ),
];
