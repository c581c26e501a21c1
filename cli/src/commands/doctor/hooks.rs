//! Checks our webhook configurations: they exist, are in force and have the wanted content, and calls reach
//! the webhook.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator_certs::Certificate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use serde_json::{Value, json};

use super::{
    facts::{Ca, Facts},
    finding::{Findings, Id},
};
use crate::{
    hooks::{AUTHOR_HOOK, Frame, NAME, Stamper, WARNINGS, WarningScope, render, says},
    installed::{Install, Role},
    marks::HANDS_OFF,
    validate::CompiledPolicy,
};

pub(super) const VALIDATING: &str = "ValidatingWebhookConfiguration";
pub(super) const MUTATING: &str = "MutatingWebhookConfiguration";

/// Finds everything that is wrong with our hooks.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let hooks = match &facts.hooks {
        Ok(hooks) => hooks,
        Err(unread) => {
            found.unknown(&[Id::HooksMissing, Id::HooksOff, Id::HooksDrifted, Id::CaNotTrusted], unread);
            return answered(facts, install, false, found);
        }
    };
    let ours = |kind: &str| hooks.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == NAME);
    let (validating, mutating) = (ours(VALIDATING), ours(MUTATING));
    // The annotation on one of the two configurations has an effect on both configurations.
    let left_alone = [validating, mutating].into_iter().flatten().any(is_off);
    let is_empty = left_alone && validating.is_some_and(|live| webhooks(live).is_empty());
    for (kind, live) in [(VALIDATING, validating), (MUTATING, mutating)] {
        let Some(live) = live else {
            let what = "does not exist, so no hook checks or completes writes; the leading reconciler creates it within a minute, if the \
             API server can call the webhook";
            let restart = install.start(Role::Reconciler);
            found.error(Id::HooksMissing, format!("{kind} {NAME}"), what, restart);
            continue;
        };
        off(kind, live, is_empty, found);
        trusted(facts, install, kind, live, found);
    }
    drifted(facts, install, validating, mutating, left_alone, found);
    // Without the hook or the definition, the API server calls no webhook; a separate finding reports the
    // missing object.
    let is_uncalled = validating.is_none() || found.has(Id::CrdMissing);
    if !is_uncalled {
        answered(facts, install, is_empty, found);
    }
}

/// Whether an annotation makes the reconciler leave the configuration alone.
pub(super) fn is_off(live: &Value) -> bool {
    !live["metadata"]["annotations"][HANDS_OFF].is_null()
}

/// The command that makes the reconciler maintain the configuration again.
pub(super) fn hands_on(kind: &str) -> String {
    format!("kubectl annotate {} {NAME} {HANDS_OFF}-", kind.to_lowercase())
}

/// Reports a configuration with the hands-off annotation. `is_empty` is about the validating configuration.
/// The mutating configuration may be empty without defaults, if the API server stamps authors.
fn off(kind: &str, live: &Value, is_empty: bool, found: &mut Findings) {
    if !is_off(live) {
        return;
    }
    let object = format!("{kind} {NAME}");
    let why = live["metadata"]["annotations"][HANDS_OFF].as_str().unwrap_or_default();
    let effect = match is_empty {
        true => format!("; {VALIDATING} {NAME} is empty, so the webhook checks no write"),
        false => String::new(),
    };
    let what = format!(
        "has the annotation {HANDS_OFF}={why:?}, so Copyrator updates and repairs neither webhook configuration{effect}"
    );
    match is_empty {
        true => found.error(Id::HooksOff, object, what, hands_on(kind)),
        false => found.warning(Id::HooksOff, object, what, hands_on(kind)),
    }
}

/// Checks that every hook has the CA that signs now.
fn trusted(facts: &Facts, install: &Install<'_>, kind: &str, live: &Value, found: &mut Findings) {
    let signs = match &facts.ca {
        // Where certificates are mounted, an old Secret of ours signs no certificate.
        _ if install.told("tls-dir").is_some() => None,
        Ok(Ca::There(ca)) => Some(ca.secret.current.certificate().fingerprint()),
        _ => None,
    };
    let is_trusting = |hook: &&Value| {
        let bundle = hook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        let bundle = STANDARD.decode(bundle).ok().and_then(|pem| String::from_utf8(pem).ok());
        let trusted = bundle.and_then(|pem| Certificate::all_from_pem(&pem).ok()).unwrap_or_default();
        match &signs {
            Some(signs) => trusted.iter().any(|one| one.fingerprint() == *signs),
            None => !trusted.is_empty(),
        }
    };
    let hooks = webhooks(live);
    let distrusting: Vec<&str> = hooks.iter().filter(|hook| !is_trusting(hook)).map(name).collect();
    if distrusting.is_empty() {
        return;
    }
    let what = format!(
        "has a caBundle without the CA of the webhook's certificate, so the API server cannot call these hooks: {}",
        distrusting.join(", ")
    );
    found.error(Id::CaNotTrusted, format!("{kind} {NAME}"), what, renew(kind));
}

/// The command that makes the reconciler write the configuration again. A separate finding reports the
/// hands-off annotation.
fn renew(kind: &str) -> String {
    format!("kubectl delete {} {NAME} --ignore-not-found", kind.to_lowercase())
}

fn drifted(
    facts: &Facts,
    install: &Install<'_>,
    validating: Option<&Value>,
    mutating: Option<&Value>,
    left_alone: bool,
    found: &mut Findings,
) {
    let policies = match &facts.policies {
        Ok(policies) => policies,
        Err(unread) => return found.unknown(&[Id::HooksDrifted], unread),
    };
    let valid = policies.iter().filter(|policy| CompiledPolicy::compile(&policy.spec).is_ok());
    let valid = valid.map(|policy| (policy.metadata.name.as_deref().unwrap_or_default(), &policy.spec));
    let stamps_by_hook =
        mutating.is_some_and(|live| webhooks(live).iter().any(|hook| name(hook) == AUTHOR_HOOK));
    let stamps_by_server = facts.server.as_ref().map_or(true, |server| server.stamps());
    let stamper = if stamps_by_hook || !stamps_by_server { Stamper::Hook } else { Stamper::ApiServer };
    let annotations = install.told("annotations").is_none_or(|told| told != "false");
    let timeout = install.told("hook-timeout").and_then(|told| told.parse().ok()).filter(|told| *told > 0);
    let owner = owner(facts, install);
    let endpoint = install.endpoint();
    let frame = Frame {
        stamper,
        endpoint: &endpoint,
        ca_bundle_pem: "",
        owner,
        own_namespace: &facts.namespace,
        annotations,
        timeout,
    };
    let (wanted_validating, wanted_mutating) = render(valid, &WarningScope::default(), &frame);
    let pairs = [
        (VALIDATING, validating, serde_json::to_value(wanted_validating)),
        (MUTATING, mutating, serde_json::to_value(wanted_mutating)),
    ];
    for (kind, live, wanted) in pairs {
        let (Some(live), Ok(wanted)) = (live, wanted) else { continue };
        let wanted = bare(&wanted);
        if (left_alone && webhooks(live).is_empty()) || says(&bare(live), &wanted) {
            continue;
        }
        let what = format!(
            "does not match the existing policies: {}; the leading reconciler corrects it within a minute",
            differing(live, &wanted)
        );
        found.error(Id::HooksDrifted, format!("{kind} {NAME}"), what, renew(kind));
    }
}

fn owner(facts: &Facts, install: &Install<'_>) -> Option<OwnerReference> {
    let owner = facts.owner.as_ref().ok()?.as_ref()?.owner_ref(&())?;
    install.told("owner-cluster-role").map(|_| owner)
}

/// Which hooks are missing, additional or changed.
fn differing(live: &Value, wanted: &Value) -> String {
    let alone =
        |hook: Option<&&Value>| json!({ "metadata": {}, "webhooks": hook.iter().collect::<Vec<_>>() });
    let (bare, mut words) = (bare(live), Vec::new());
    let (here, there) = (webhooks(&bare), webhooks(wanted));
    for hook in &there {
        let same = here.iter().find(|one| name(one) == name(hook));
        match same {
            None => words.push(format!("{} is missing", name(hook))),
            Some(_) if says(&alone(same), &alone(Some(hook))) => {}
            Some(_) => words.push(format!("{} was changed", name(hook))),
        }
    }
    let more = here.iter().filter(|hook| !there.iter().any(|one| name(one) == name(hook)));
    words.extend(more.map(|hook| format!("unexpected hook {}", name(hook))));
    if words.is_empty() { "its labels or owner differ".into() } else { words.join(", ") }
}

/// The configuration without caBundles, which other checks examine, and without the hooks for warnings. Which
/// hooks for warnings exist depends on every rule, monitor and workload of the cluster, and no write fails
/// because of such a hook.
fn bare(live: &Value) -> Value {
    let mut bare = live.clone();
    if let Some(hooks) = bare["webhooks"].as_array_mut() {
        hooks.retain(|hook| !hook["name"].as_str().is_some_and(|name| name.ends_with(WARNINGS)));
    }
    for hook in bare["webhooks"].as_array_mut().into_iter().flatten() {
        hook["clientConfig"]["caBundle"] = "".into();
    }
    bare
}

/// Checks that a call reaches the webhook; if no call can be tried, checks that a pod is ready to answer.
pub(super) fn answered(facts: &Facts, install: &Install<'_>, is_empty: bool, found: &mut Findings) {
    let namespace = &facts.namespace;
    let workload = install.workload(Role::Webhook);
    let object = format!("{namespace}: {workload}");
    let restart = install.start(Role::Webhook);
    match &facts.canary {
        Some(Ok(Ok(()))) => {}
        // An empty configuration needs no answer.
        Some(Ok(Err(_))) if is_empty => {}
        Some(Ok(Err(why))) if why.contains("x509") || why.contains("certificate") => {
            let what = format!("the API server does not trust the webhook's certificate: {why}");
            found.error(Id::CaNotTrusted, format!("{VALIDATING} {NAME}"), what, renew(VALIDATING));
        }
        Some(Ok(Err(why))) => {
            let what = format!(
                "does not answer the API server, so objects of Copyrator's kinds cannot be written: {why}"
            );
            found.error(Id::WebhookDown, object, what, restart);
        }
        Some(Err(unread)) => match install.serving(Role::Webhook).map(super::pods::readiness) {
            Some((wanted, 0)) => {
                let what = format!(
                    "has no ready pod of {wanted}, so objects of Copyrator's kinds cannot be written"
                );
                found.error(Id::WebhookDown, object, what, restart);
            }
            _ => found.unknown(&[Id::WebhookDown], unread),
        },
        None => {}
    }
}

fn webhooks(configuration: &Value) -> Vec<&Value> {
    configuration["webhooks"].as_array().into_iter().flatten().collect()
}

fn name<'v>(hook: &&'v Value) -> &'v str {
    hook["name"].as_str().unwrap_or_default()
}
