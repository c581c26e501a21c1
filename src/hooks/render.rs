//! From the files of `webhook-config/` to the objects that are applied.

use std::collections::BTreeSet;

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ServiceReference, ValidatingWebhookConfiguration,
        WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use serde::de::DeserializeOwned;

use super::{fail, needs::Needs};
use crate::api::ConfigPolicySpec;

const VALIDATING: &str = include_str!("../../webhook-config/validating.yaml");
const MUTATING: &str = include_str!("../../webhook-config/mutating.yaml");
/// The hook that stamps authors.
pub const AUTHOR_HOOK: &str = "author.copyrator.dev";
/// The hooks that stamp authors.
pub const STAMPING: [&str; 2] = [AUTHOR_HOOK, "annotations-author.copyrator.dev"];
/// How the files write our own namespace.
const OWN_NAMESPACE: &str = "copyrator-system";

/// Who stamps authors on our own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamper {
    /// The API server, by the policy in `webhook-config/policies/author.yaml`.
    ApiServer,
    /// The webhook, where the API server does not.
    Hook,
}

/// Where the API server finds us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A base URL, such as `https://10.0.0.1:8443`; the hook's path is added.
    Url(String),
    /// A Service.
    Service {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its port.
        port: u16,
    },
}

/// The webhook configurations for these policies, by name. Without a policy for a kind, no write of it reaches us,
/// but for those that ask for copies by annotations, where `annotations` says that they count.
pub fn render<'p>(
    policies: impl IntoIterator<Item = (&'p str, &'p ConfigPolicySpec)>,
    stamper: Stamper,
    endpoint: &Endpoint,
    ca_bundle_pem: &str,
    owner: Option<OwnerReference>,
    own_namespace: &str,
    annotations: bool,
) -> (ValidatingWebhookConfiguration, MutatingWebhookConfiguration) {
    let needs = Needs::of(policies);
    let ca_bundle = ByteString(ca_bundle_pem.as_bytes().to_vec());
    let called = |rules: &Option<Vec<_>>| rules.as_ref().is_some_and(|rules| !rules.is_empty());

    let mut validating: ValidatingWebhookConfiguration = embedded(VALIDATING);
    let mut hooks = Vec::new();
    for mut hook in validating.webhooks.take().into_iter().flatten() {
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        match hook.name.as_str() {
            "annotations.copyrator.dev" if !annotations => continue,
            "policies-ignore.copyrator.dev" => {
                narrow(&mut hook.rules, &needs.ignore);
                with_deletions(&mut hook.rules, &needs.ignore_deletions);
            }
            "policies-fail.copyrator.dev" => {
                hooks.extend(fail::entries(&hook, &needs.fail));
                continue;
            }
            _ => {}
        }
        hooks.push(hook);
    }
    hooks.retain(|hook| called(&hook.rules));
    hooks.iter_mut().for_each(|hook| connect(&mut hook.client_config, endpoint, &ca_bundle));
    validating.webhooks = Some(hooks);

    let mut mutating: MutatingWebhookConfiguration = embedded(MUTATING);
    let hooks = mutating.webhooks.get_or_insert_default();
    for hook in hooks.iter_mut() {
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        match STAMPING.contains(&hook.name.as_str()) {
            true if stamper == Stamper::ApiServer => hook.rules = None,
            true => {}
            false => narrow(&mut hook.rules, &needs.defaults),
        }
        connect(&mut hook.client_config, endpoint, &ca_bundle);
    }
    hooks.retain(|hook| called(&hook.rules));

    own(&mut validating.metadata, owner.as_ref());
    own(&mut mutating.metadata, owner.as_ref());
    (validating, mutating)
}

#[allow(
    clippy::expect_used,
    reason = "the text is part of the binary, and every test of this module reads it"
)]
fn embedded<Configuration: DeserializeOwned>(text: &str) -> Configuration {
    serde_saphyr::from_str(text).expect("the embedded webhook configuration is valid")
}

/// Keeps the rules of these resources.
pub(super) fn narrow(rules: &mut Option<Vec<RuleWithOperations>>, wanted: &BTreeSet<&'static str>) {
    let Some(rules) = rules else { return };
    rules.retain(|rule| rule.resources.iter().flatten().any(|resource| wanted.contains(resource.as_str())));
}

/// Has deletions of these resources judged, too: only where a policy asks for it does a deletion wait for us.
pub(super) fn with_deletions(rules: &mut Option<Vec<RuleWithOperations>>, wanted: &BTreeSet<&'static str>) {
    for rule in rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|resource| wanted.contains(resource.as_str())) {
            rule.operations.get_or_insert_default().push("DELETE".into());
        }
    }
}

fn exempt(selector: Option<&mut LabelSelector>, own_namespace: &str) {
    let requirements = selector.and_then(|selector| selector.match_expressions.as_mut());
    for value in requirements.into_iter().flatten().filter_map(|one| one.values.as_mut()).flatten() {
        if value == OWN_NAMESPACE {
            own_namespace.clone_into(value);
        }
    }
}

fn connect(config: &mut WebhookClientConfig, endpoint: &Endpoint, ca_bundle: &ByteString) {
    let path = config.service.take().and_then(|service| service.path).unwrap_or_default();
    config.ca_bundle = Some(ca_bundle.clone());
    match endpoint {
        Endpoint::Url(base) => config.url = Some(format!("{}{path}", base.trim_end_matches('/'))),
        Endpoint::Service { name, namespace, port } => {
            config.service = Some(ServiceReference {
                name: name.clone(),
                namespace: namespace.clone(),
                path: Some(path),
                port: Some(i32::from(*port)),
            });
        }
    }
}

fn own(metadata: &mut ObjectMeta, owner: Option<&OwnerReference>) {
    metadata.owner_references = owner.map(|owner| vec![owner.clone()]);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::admissionregistration::v1::ValidatingWebhook,
        apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
    };

    use super::*;

    fn policy(failure: &str, matched: serde_json::Value) -> ConfigPolicySpec {
        let json =
            serde_json::json!({ "match": matched, "failurePolicy": failure, "limits": {"maxBytes": 1} });
        serde_json::from_value(json).unwrap()
    }

    fn kinds(kinds: &str) -> serde_json::Value {
        serde_json::json!({ "kinds": kinds.split(',').collect::<Vec<_>>() })
    }

    fn rendered(policies: &[(&str, ConfigPolicySpec)]) -> Vec<ValidatingWebhook> {
        let endpoint = Endpoint::Service { name: "hook".into(), namespace: "ours".into(), port: 8443 };
        let policies = policies.iter().map(|(name, policy)| (*name, policy));
        render(policies, Stamper::ApiServer, &endpoint, "PEM", None, "ours", true).0.webhooks.unwrap()
    }

    /// Name, path and resources.
    fn brief(hooks: &[ValidatingWebhook]) -> Vec<String> {
        let brief = |hook: &ValidatingWebhook| {
            let path = hook.client_config.service.as_ref().and_then(|service| service.path.as_deref());
            let rules = hook.rules.iter().flatten();
            let resources: Vec<_> =
                rules.flat_map(|rule| rule.resources.iter().flatten().map(String::as_str)).collect();
            let name = hook.name.strip_suffix(".copyrator.dev").unwrap();
            format!("{name} {} {}", path.unwrap(), resources.join(","))
        };
        hooks.iter().map(brief).collect()
    }

    const ALWAYS: [&str; 3] = [
        "own-kinds /validate/own-kinds copyratorrules,configmonitors,configpolicies",
        "annotations /validate/annotations configmaps,secrets",
        "warnings /validate/warnings configmaps,secrets,namespaces",
    ];

    #[test]
    fn hooks_see_what_the_policies_present_call_for() {
        assert_eq!(brief(&rendered(&[])), ALWAYS);
        let some = [
            ("some", policy("Ignore", kinds("ConfigMap,Secret"))),
            ("strict", policy("Fail", kinds("Secret"))),
            ("both", policy("Fail", kinds("ConfigMap,Namespace"))),
        ];
        assert_eq!(
            brief(&rendered(&some)),
            [
                ALWAYS[0],
                ALWAYS[1],
                "policies-ignore /validate/policies configmaps,secrets",
                "both.policies-fail /validate/policies/both configmaps",
                "both.namespaces-fail /validate/policies/both namespaces",
                "strict.policies-fail /validate/policies/strict secrets",
                ALWAYS[2],
            ]
        );
    }

    /// A deletion waits for us only where a policy asks for it, and a namespace's never.
    #[test]
    fn deletions_are_judged_only_where_a_policy_keeps_what_is_in_use() {
        let keeps = |failure: &str, named: &str| -> ConfigPolicySpec {
            let json = serde_json::json!({
                "match": {"kinds": named.split(',').collect::<Vec<_>>()},
                "failurePolicy": failure, "whileInUse": "Refuse",
            });
            serde_json::from_value(json).unwrap()
        };
        let hooks = rendered(&[
            ("keeps", keeps("Ignore", "Secret,Namespace")),
            ("other", policy("Ignore", kinds("ConfigMap,Secret"))),
            ("strict", keeps("Fail", "ConfigMap,Namespace")),
        ]);
        let operations = |hook: &ValidatingWebhook| {
            let rules = hook.rules.iter().flatten();
            let brief = rules.map(|rule| {
                format!(
                    "{} {}",
                    rule.resources.clone().unwrap().join(","),
                    rule.operations.clone().unwrap().join(",")
                )
            });
            brief.collect::<Vec<_>>()
        };
        assert_eq!(operations(&hooks[2]), ["configmaps CREATE,UPDATE", "secrets CREATE,UPDATE,DELETE"]);
        assert_eq!(hooks[3].name, "strict.policies-fail.copyrator.dev");
        assert_eq!(operations(&hooks[3]), ["configmaps CREATE,UPDATE,DELETE"]);
        assert_eq!(hooks.len(), 5, "none for Namespaces: {:?}", brief(&hooks));
    }

    /// Nothing of ours stands in the way of a rule where the API server stamps by itself.
    #[test]
    fn authors_are_stamped_by_a_hook_only_where_the_api_server_does_not() {
        let endpoint = Endpoint::Url("https://127.0.0.1:8443".into());
        for (stamper, annotations, expected) in
            [(Stamper::ApiServer, true, 0), (Stamper::Hook, false, 2), (Stamper::Hook, true, 2)]
        {
            let (_, mutating) = render([], stamper, &endpoint, "PEM", None, "ours", annotations);
            assert_eq!(mutating.webhooks.unwrap().len(), expected, "{stamper:?}");
        }
    }

    #[test]
    fn annotations_that_do_not_count_are_not_asked_about() {
        let endpoint = Endpoint::Url("https://127.0.0.1:8443/".into());
        let hooks = render([], Stamper::ApiServer, &endpoint, "PEM", None, "ours", false).0.webhooks.unwrap();
        assert_eq!(hooks.len(), 2);
        assert!(hooks.iter().all(|hook| hook.name != "annotations.copyrator.dev"));
    }

    #[test]
    fn who_holds_writes_up_holds_up_no_more_than_his_own() {
        let matched = serde_json::json!({
            "kinds": ["ConfigMap", "Namespace"],
            "namespaceSelector": {"matchLabels": {"team": "blue"}},
            "objectSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            "excludeNamespaces": ["blue-sandbox", "test-*"],
        });
        let hooks = rendered(&[("blue", policy("Fail", matched))]);
        let selector = |selector: &Option<LabelSelector>| {
            let requirement = |one: &LabelSelectorRequirement| {
                let values = one.values.clone().unwrap_or_default().join(",");
                format!("{} {} {values}", one.key, one.operator)
            };
            let all = selector.iter().flat_map(|one| one.match_expressions.iter().flatten());
            all.map(requirement).collect::<Vec<_>>()
        };
        let system = "kubernetes.io/metadata.name NotIn kube-system,kube-public,kube-node-lease,ours";
        let (not_there, team, tier) =
            ("kubernetes.io/metadata.name NotIn blue-sandbox", "team In blue", "tier Exists ");
        assert_eq!(selector(&hooks[2].namespace_selector), [system, not_there, team]);
        assert_eq!(selector(&hooks[2].object_selector), [tier]);
        assert_eq!(hooks[3].name, "blue.namespaces-fail.copyrator.dev");
        assert_eq!(selector(&hooks[3].namespace_selector), [system, not_there]);
        assert_eq!(selector(&hooks[3].object_selector), [team, tier]);
    }

    #[test]
    fn names_of_entries_are_valid_and_their_number_is_bounded() {
        let long = "p".repeat(253);
        let hooks = rendered(&[(&long, policy("Fail", kinds("ConfigMap")))]);
        assert!(hooks[2].name.len() <= 253 && hooks[2].name.ends_with(".policies-fail.copyrator.dev"));
        let names: Vec<_> = (0..65).map(|number| format!("p{number}")).collect();
        let many: Vec<_> =
            names.iter().map(|name| (name.as_str(), policy("Fail", kinds("ConfigMap")))).collect();
        assert_eq!(rendered(&many[..64]).len(), 67);
        assert_eq!(brief(&rendered(&many))[2], "policies-fail /validate/policies configmaps");
    }

    #[test]
    fn every_hook_is_bounded_and_exempts_the_system() {
        let all = [
            ("all", policy("Ignore", kinds("ConfigMap,Secret,Namespace"))),
            ("strict", policy("Fail", kinds("Secret,Namespace"))),
        ];
        let endpoint = Endpoint::Url("https://127.0.0.1:8443/".into());
        let owner = OwnerReference { name: "copyrator".into(), ..OwnerReference::default() };
        let policies = all.iter().map(|(name, policy)| (*name, policy));
        let (validating, mutating) =
            render(policies, Stamper::Hook, &endpoint, "PEM", Some(owner), "ours", true);
        assert_eq!(
            (mutating.metadata.owner_references.unwrap().len(), mutating.webhooks.as_ref().unwrap().len()),
            (1, 2)
        );
        let author = &mutating.webhooks.unwrap()[0];
        assert_eq!((author.name.as_str(), author.failure_policy.as_deref()), (AUTHOR_HOOK, Some("Fail")));
        assert_eq!(author.client_config.url.as_deref(), Some("https://127.0.0.1:8443/mutate/author"));
        let hooks = validating.webhooks.unwrap();
        assert_eq!(hooks.len(), 6);
        for hook in &hooks {
            assert_eq!(hook.side_effects, "None", "{}", hook.name);
            assert_eq!(hook.admission_review_versions, ["v1"], "{}", hook.name);
            assert_eq!(hook.match_policy.as_deref(), Some("Equivalent"), "{}", hook.name);
            assert!(hook.timeout_seconds.unwrap() <= 5, "{}", hook.name);
            let path = hook.client_config.url.as_ref().unwrap().strip_prefix("https://127.0.0.1:8443");
            let path = path.unwrap().trim_end_matches("/strict");
            assert!(crate::admit::PATHS.iter().any(|(known, _)| *known == path), "{path}");
            assert_eq!(hook.client_config.ca_bundle.as_ref().unwrap().0, b"PEM");
            if hook.name != "own-kinds.copyrator.dev" {
                let selector =
                    hook.namespace_selector.clone().unwrap().match_expressions.unwrap().swap_remove(0);
                assert_eq!(
                    selector.values.unwrap(),
                    ["kube-system", "kube-public", "kube-node-lease", "ours"]
                );
                let conditions = if hook.name == "annotations.copyrator.dev" { 2 } else { 3 };
                assert_eq!(hook.match_conditions.as_ref().unwrap().len(), conditions, "{}", hook.name);
            }
        }
    }
}
