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

use super::Needs;
use crate::api::ConfigPolicySpec;

const VALIDATING: &str = include_str!("../../webhook-config/validating.yaml");
const MUTATING: &str = include_str!("../../webhook-config/mutating.yaml");
/// How the files write our own namespace.
const OWN_NAMESPACE: &str = "copyrator-system";

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

/// The webhook configurations for these policies. Without a policy for a kind, no write of it reaches us.
pub fn render<'p>(
    policies: impl Iterator<Item = &'p ConfigPolicySpec>,
    endpoint: &Endpoint,
    ca_bundle_pem: &str,
    owner: Option<OwnerReference>,
    own_namespace: &str,
) -> (ValidatingWebhookConfiguration, MutatingWebhookConfiguration) {
    let needs = Needs::of(policies);
    let ca_bundle = ByteString(ca_bundle_pem.as_bytes().to_vec());
    let client = |config: &mut WebhookClientConfig| connect(config, endpoint, &ca_bundle);
    let mut validating: ValidatingWebhookConfiguration = embedded(VALIDATING);
    for hook in validating.webhooks.iter_mut().flatten() {
        narrow(&mut hook.rules, needs.of_hook(&hook.name));
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        client(&mut hook.client_config);
    }
    let mut mutating: MutatingWebhookConfiguration = embedded(MUTATING);
    for hook in mutating.webhooks.iter_mut().flatten() {
        narrow(&mut hook.rules, needs.of_hook(&hook.name));
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        client(&mut hook.client_config);
    }
    let called =
        |rules: &Option<Vec<RuleWithOperations>>| rules.as_ref().is_some_and(|rules| !rules.is_empty());
    validating.webhooks.get_or_insert_default().retain(|hook| called(&hook.rules));
    mutating.webhooks.get_or_insert_default().retain(|hook| called(&hook.rules));
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

fn narrow(rules: &mut Option<Vec<RuleWithOperations>>, wanted: Option<&BTreeSet<&'static str>>) {
    let (Some(rules), Some(wanted)) = (rules, wanted) else { return };
    rules.retain(|rule| rule.resources.iter().flatten().any(|resource| wanted.contains(resource.as_str())));
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
    use super::*;

    fn policy(kinds: &str, failure: &str, defaults: bool) -> ConfigPolicySpec {
        let kinds: Vec<_> = kinds.split(',').collect();
        let mut json = serde_json::json!({
            "match": {"kinds": kinds}, "failurePolicy": failure, "limits": {"maxBytes": 1}
        });
        if defaults {
            json["defaults"] = serde_json::json!({"labels": {"a": "b"}});
        }
        serde_json::from_value(json).unwrap()
    }

    fn rendered(policies: &[ConfigPolicySpec]) -> Vec<(String, Vec<String>)> {
        let endpoint = Endpoint::Url("https://127.0.0.1:8443/".into());
        let (validating, mutating) = render(policies.iter(), &endpoint, "PEM", None, "ours");
        let resources = |rules: Option<Vec<RuleWithOperations>>| {
            rules.into_iter().flatten().flat_map(|rule| rule.resources.unwrap_or_default()).collect()
        };
        let validating =
            validating.webhooks.into_iter().flatten().map(|hook| (hook.name, resources(hook.rules)));
        let mutating = mutating.webhooks.into_iter().flatten().map(|hook| (hook.name, resources(hook.rules)));
        validating.chain(mutating).collect()
    }

    #[test]
    fn hooks_see_what_the_policies_present_call_for() {
        let names = |hooks: &[(String, Vec<String>)]| -> Vec<String> {
            hooks
                .iter()
                .map(|(name, resources)| {
                    format!("{}: {}", name.split('.').next().unwrap(), resources.join(" "))
                })
                .collect()
        };
        let always = [
            "own-kinds: copyratorrules configmonitors configpolicies",
            "warnings: configmaps secrets namespaces",
        ];
        assert_eq!(names(&rendered(&[])), always);
        assert_eq!(
            names(&rendered(&[
                policy("ConfigMap,Secret", "Ignore", false),
                policy("Secret,Namespace", "Fail", true)
            ])),
            [
                always[0],
                "policies-ignore: configmaps",
                "policies-fail: secrets namespaces",
                always[1],
                "defaults: secrets namespaces"
            ]
        );
    }

    #[test]
    fn every_hook_is_bounded_and_exempts_the_system() {
        let all = [policy("ConfigMap,Secret,Namespace", "Ignore", true), policy("Secret", "Fail", false)];
        let endpoint = Endpoint::Service { name: "hook".into(), namespace: "ours".into(), port: 8443 };
        let owner = OwnerReference { name: "copyrator".into(), ..OwnerReference::default() };
        let (validating, mutating) = render(all.iter(), &endpoint, "PEM", Some(owner), "ours");
        assert_eq!(mutating.metadata.owner_references.unwrap().len(), 1);
        let hooks = validating.webhooks.unwrap();
        assert_eq!(hooks.len(), 4);
        for hook in &hooks {
            assert_eq!(hook.side_effects, "None", "{}", hook.name);
            assert_eq!(hook.admission_review_versions, ["v1"], "{}", hook.name);
            assert_eq!(hook.match_policy.as_deref(), Some("Equivalent"), "{}", hook.name);
            assert!(hook.timeout_seconds.unwrap() <= 5, "{}", hook.name);
            let service = hook.client_config.service.as_ref().unwrap();
            assert_eq!((&*service.name, service.port), ("hook", Some(8443)));
            assert!(crate::admit::PATHS.iter().any(|(path, _)| Some(*path) == service.path.as_deref()));
            assert_eq!(hook.client_config.ca_bundle.as_ref().unwrap().0, b"PEM");
            if hook.name != "own-kinds.copyrator.dev" {
                let selector =
                    hook.namespace_selector.clone().unwrap().match_expressions.unwrap().swap_remove(0);
                assert_eq!(
                    selector.values.unwrap(),
                    ["kube-system", "kube-public", "kube-node-lease", "ours"]
                );
                assert_eq!(hook.match_conditions.as_ref().unwrap().len(), 3, "{}", hook.name);
            }
        }
    }
}
