//! Whether the API server calls the webhook for the writes that a policy covers, according to the webhook
//! configurations in the cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    drift::is_same,
    groups::{applies_for, needed, selects_for},
    match_condition::{HookKind, SPOKEN, holds_for},
    needs::{NAMESPACES, adds},
};
use crate::{
    api::{ConfigPolicySpec, FailurePolicy},
    marks::HANDS_OFF,
};

type OperationResource = (String, String);

/// Why writes that a policy covers pass unchecked, given the hooks in the cluster and the hooks that are
/// `wanted` for all policies; `None` if the API server calls the webhook for all of these writes.
///
/// A hook counts if its fields for this policy are as wanted. The hook's terms for other policies may differ,
/// and the hook may have more rules than this policy needs. With another selector or failure policy, some
/// writes pass.
pub fn off(
    policy: &ConfigPolicySpec,
    validating: Option<&ValidatingWebhookConfiguration>,
    mutating: Option<&MutatingWebhookConfiguration>,
    wanted: &(ValidatingWebhookConfiguration, MutatingWebhookConfiguration),
) -> Option<String> {
    let failure = match policy.failure_policy {
        FailurePolicy::Ignore => "Ignore",
        FailurePolicy::Fail => "Fail",
    };
    // The webhook judges all policies, whichever hook calls it.
    let speaks = |hook: &&ValidatingWebhook| {
        calls(&hook.client_config, "/validate/policies")
            && hook.failure_policy.as_deref() == Some(failure)
            && applies_for(hook, policy, of(hook))
    };
    let there = validating.and_then(|it| it.webhooks.as_deref()).unwrap_or_default();
    let asking = wanted.0.webhooks.iter().flatten().filter(speaks);
    let asking = asking.flat_map(|one| there.iter().filter(|hook| serves(hook, one, policy)));
    let asked: BTreeSet<OperationResource> = asking.flat_map(|hook| asked(&hook.rules)).collect();
    let there = mutating.and_then(|it| it.webhooks.as_deref()).unwrap_or_default();
    let adding = wanted.1.webhooks.iter().flatten();
    let adding = adding.filter(|hook| calls(&hook.client_config, "/mutate/defaults"));
    let adding = adding.filter_map(|one| there.iter().find(|hook| adds_for(hook, one, policy)));
    let adding: BTreeSet<OperationResource> = adding.flat_map(|hook| self::asked(&hook.rules)).collect();

    let writes = |resource: &'static str| ["CREATE", "UPDATE"].map(|operation| (operation, resource));
    let missing = needed(policy).filter(|(operation, resource)| !has(&asked, operation, resource));
    let added = adds(policy).flat_map(writes);
    let missing = missing.chain(added.filter(|(operation, resource)| !has(&adding, operation, resource)));
    let missing: BTreeSet<_> =
        missing.map(|(operation, resource)| format!("{operation} {resource}")).collect();
    if missing.is_empty() {
        return None;
    }
    let metadata = [validating.map(|it| &it.metadata), mutating.map(|it| &it.metadata)];
    let mut metadata = metadata.into_iter().flatten();
    let hands_off =
        metadata.any(|one| one.annotations.as_ref().is_some_and(|all| all.contains_key(HANDS_OFF)));
    let fix = match hands_off {
        true => format!("remove their annotation {HANDS_OFF}, and Copyrator corrects them"),
        false => "Copyrator corrects them as soon as it can".to_owned(),
    };
    let missing: Vec<String> = missing.into_iter().collect();
    Some(format!(
        "the webhook configurations named copyrator do not cover {} as this policy needs: {fix}",
        missing.join(", ")
    ))
}

/// Whether a hook is as wanted for this policy. The hook may have too many or too few terms for other
/// policies that share it.
fn serves(live: &ValidatingWebhook, wanted: &ValidatingWebhook, policy: &ConfigPolicySpec) -> bool {
    let of = of(wanted);
    let spoken = |hook: &ValidatingWebhook| {
        hook.match_conditions.iter().flatten().find(|one| one.name == SPOKEN).cloned()
    };
    let rest = |hook: &ValidatingWebhook| {
        let mut rest = hook.clone();
        (rest.name, rest.object_selector) = (String::new(), None);
        rest.match_conditions.get_or_insert_default().retain(|one| one.name != SPOKEN);
        rest
    };
    holds_for(spoken(live).as_ref(), policy, of)
        && selects_for(live.object_selector.as_ref(), policy, wanted.object_selector.as_ref())
        && is_but_for_rules(&rest(live), &rest(wanted))
}

/// Like [`serves`], for a hook that adds defaults.
fn adds_for(live: &MutatingWebhook, wanted: &MutatingWebhook, policy: &ConfigPolicySpec) -> bool {
    let spoken = live.match_conditions.iter().flatten().find(|one| one.name == SPOKEN);
    let rest = |hook: &MutatingWebhook| {
        let mut rest = hook.clone();
        rest.match_conditions.get_or_insert_default().retain(|one| one.name != SPOKEN);
        rest
    };
    holds_for(spoken, policy, HookKind::Defaults) && is_but_for_rules(&rest(live), &rest(wanted))
}

/// The kind of a hook for policies.
fn of(hook: &ValidatingWebhook) -> HookKind {
    match asked(&hook.rules).iter().any(|(_, resource)| resource == NAMESPACES) {
        true => HookKind::Namespaces,
        false => HookKind::Content,
    }
}

/// Whether two hooks are equal except for their rules and their CA bundle. The canary tests whether calls
/// arrive.
fn is_but_for_rules<Hook: Serialize>(live: &Hook, wanted: &Hook) -> bool {
    let bare = |hook: &Hook| {
        let mut hook = serde_json::to_value(hook).unwrap_or_default();
        hook["rules"] = Value::Null;
        hook["clientConfig"]["caBundle"] = Value::Null;
        hook
    };
    is_same(&bare(live), &bare(wanted))
}

fn has(asked: &BTreeSet<OperationResource>, operation: &str, resource: &str) -> bool {
    asked.iter().any(|(on, of)| [operation, "*"].contains(&&**on) && [resource, "*"].contains(&&**of))
}

fn asked(rules: &Option<Vec<RuleWithOperations>>) -> Vec<OperationResource> {
    let each = |rule: &RuleWithOperations| {
        let resources = rule.resources.clone().unwrap_or_default();
        let operations = rule.operations.clone().unwrap_or_default();
        let of =
            |on: String| resources.clone().into_iter().map(move |of| (on.clone(), of)).collect::<Vec<_>>();
        operations.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    rules.iter().flatten().flat_map(each).collect()
}

/// Whether a hook calls us at this path.
fn calls(config: &WebhookClientConfig, path: &str) -> bool {
    let service = config.service.as_ref().and_then(|service| service.path.as_deref());
    service == Some(path) || config.url.as_ref().is_some_and(|url| url.ends_with(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hooks::{Endpoint, Frame, Stamper, WarningScope, render};

    fn policy(failure: &str, more: serde_json::Value) -> ConfigPolicySpec {
        let mut spec =
            json!({"match": {"kinds": ["ConfigMap"]}, "failurePolicy": failure, "limits": {"maxBytes": 1}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    type Hooks = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration);

    fn hooks(policies: &[(&str, &ConfigPolicySpec)], endpoint: &Endpoint, ca: &str) -> Hooks {
        let frame = Frame {
            stamper: Stamper::ApiServer,
            endpoint,
            ca_bundle_pem: ca,
            owner: None,
            own_namespace: "ours",
            annotations: true,
            timeout: None,
        };
        render(policies.iter().copied(), &WarningScope::default(), &frame)
    }

    fn url() -> Endpoint {
        Endpoint::Url("https://127.0.0.1:8443/".into())
    }

    fn off_of(policy: &ConfigPolicySpec, live: &Hooks, wanted: &Hooks) -> Option<String> {
        off(policy, Some(&live.0), Some(&live.1), wanted)
    }

    #[test]
    fn what_is_rendered_for_a_policy_brings_it_into_force() {
        let service = Endpoint::Service { name: "hook".into(), namespace: "ours".into(), port: 443 };
        let specs = [
            policy("Ignore", json!({"whileInUse": "Refuse", "defaults": {"labels": {"a": "b"}}})),
            policy(
                "Fail",
                json!({"match": {"kinds": ["ConfigMap", "Secret", "Namespace"]}, "whileInUse": "Refuse"}),
            ),
        ];
        for (spec, endpoint) in specs.iter().flat_map(|spec| [(spec, url()), (spec, service.clone())]) {
            let (live, wanted) =
                (hooks(&[("app", spec)], &endpoint, "PEM"), hooks(&[("app", spec)], &endpoint, ""));
            assert_eq!(off_of(spec, &live, &wanted), None);
            assert!(off(spec, None, None, &wanted).is_some());
            assert!(off_of(spec, &hooks(&[], &endpoint, "PEM"), &wanted).is_some());
            // The needs of other policies do not affect the result.
            let more = policy("Ignore", json!({"match": {"kinds": ["Secret"]}, "whileInUse": "Refuse"}));
            let wanted = hooks(&[("app", spec), ("more", &more)], &endpoint, "");
            assert_eq!(off_of(spec, &live, &wanted), None);
        }
        // Other policies that share the hook, now or soon, do not affect the result either.
        let named = |name: &str| policy("Fail", json!({"match": {"kinds": ["ConfigMap"], "names": [name]}}));
        let (one, two) = (named("one"), named("two"));
        {
            let (there, here) = (vec![("one", &one)], vec![("one", &one), ("two", &two)]);
            let (live, wanted) = (hooks(&there, &url(), "PEM"), hooks(&here, &url(), ""));
            assert_eq!(off_of(&one, &live, &wanted), None);
            assert!(off_of(&two, &live, &wanted).is_some(), "its names are not asked about");
            let (live, wanted) = (hooks(&here, &url(), "PEM"), hooks(&there, &url(), ""));
            assert_eq!(off_of(&one, &live, &wanted), None);
        }
        let many: Vec<String> = (0..70).map(|number| format!("p{number}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), &specs[1])).collect();
        let mut live = hooks(&many, &url(), "PEM");
        let wanted = live.clone();
        assert_eq!(off_of(&specs[1], &live, &wanted), None);
        for hook in live.0.webhooks.iter_mut().flatten() {
            hook.failure_policy = Some("Ignore".into());
        }
        assert!(off_of(&specs[1], &live, &wanted).is_some(), "nothing is held up any more");
    }

    /// Policies with defaults share a hook, too.
    #[test]
    fn what_a_policy_adds_is_asked_for_whatever_others_add() {
        let adds = |label: &str| policy("Ignore", json!({"defaults": {"labels": {label: "x"}}}));
        let (one, two) = (adds("one"), adds("two"));
        let (alone, both) = (vec![("one", &one)], vec![("one", &one), ("two", &two)]);
        for (there, wanted, of, is_off) in
            [(&alone, &both, &one, false), (&both, &alone, &one, false), (&alone, &both, &two, true)]
        {
            let (live, wanted) = (hooks(there, &url(), "PEM"), hooks(wanted, &url(), ""));
            assert_eq!(off_of(of, &live, &wanted).is_some(), is_off, "{of:?}");
        }
    }

    /// While the annotation that disables reconciling is set, hooks stay as they were for the policies of
    /// that time.
    #[test]
    fn a_policy_that_hooks_have_not_followed_is_not_in_force() {
        let scoped = |team: &str| json!({"match": {"kinds": ["ConfigMap"], "namespaceSelector": {"matchLabels": {"team": team}}}});
        let (loose, strict) = (policy("Ignore", json!({})), policy("Fail", json!({})));
        let (blue, red) = (policy("Fail", scoped("blue")), policy("Fail", scoped("red")));
        let other = policy("Fail", json!({"match": {"kinds": ["ConfigMap"], "names": ["other"]}}));
        for (before, after, stays) in [
            (&loose, &strict, false),
            (&strict, &loose, false),
            (&blue, &strict, false),
            (&blue, &red, false),
            (&blue, &blue, true),
        ] {
            let live = hooks(&[("app", before), ("other", &other)], &url(), "PEM");
            let wanted = hooks(&[("app", after), ("other", &other)], &url(), "");
            assert_eq!(off_of(after, &live, &wanted).is_none(), stays, "{before:?} {after:?}");
            assert_eq!(off_of(&other, &live, &wanted), None);
        }
    }

    #[test]
    fn what_is_lacking_is_named_with_the_fix() {
        let (loose, keeps) = (policy("Ignore", json!({})), policy("Ignore", json!({"whileInUse": "Refuse"})));
        let mut live = hooks(&[("app", &loose)], &url(), "PEM");
        let why = off_of(&keeps, &live, &hooks(&[("app", &keeps)], &url(), "")).unwrap();
        assert!(
            why.contains("DELETE configmaps, UPDATE configmaps as this policy needs: Copyrator corrects"),
            "{why}"
        );
        let wanted = live.clone();
        live.0.metadata.annotations = Some([(HANDS_OFF.to_owned(), "incident".to_owned())].into());
        live.0.webhooks = None;
        let why = off_of(&loose, &live, &wanted).unwrap();
        assert!(
            why.contains("CREATE configmaps, UPDATE configmaps as this policy needs: remove their annotation copyrator.dev/hands-off"),
            "{why}"
        );
    }
}
