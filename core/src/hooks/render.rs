//! Renders the files of `webhook-config/` into the objects that the reconciler applies.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use serde::de::DeserializeOwned;

use super::{
    groups::{self, LONGEST_CONDITION, narrow},
    match_condition::{HookKind, condition},
    needs::{Needs, adds},
    passing_by::exempt_by_condition,
    warning_scope::WarningScope,
};
use crate::api::ConfigPolicySpec;

const VALIDATING: &str = include_str!("../../../webhook-config/validating.yaml");
const MUTATING: &str = include_str!("../../../webhook-config/mutating.yaml");
/// The hook that stamps the authors of our own kinds.
pub const AUTHOR_HOOK: &str = "author.copyrator.dev";
/// Both hooks that stamp authors: the hook for our own kinds, and the hook for annotations.
pub const STAMPING: [&str; 2] = [AUTHOR_HOOK, "annotations-author.copyrator.dev"];
/// The hook for warnings. There is one entry for each resource, and the names of the entries start with this
/// name.
pub const WARNINGS: &str = "warnings.copyrator.dev";
/// The name of our own namespace in the files of `webhook-config/`.
const OWN_NAMESPACE: &str = "copyrator-system";

/// The component that stamps authors on our own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamper {
    /// The API server itself stamps authors, by the policy in `webhook-config/policies/author.yaml`.
    ApiServer,
    /// Our webhook stamps authors, for API servers that cannot stamp them.
    Hook,
}

/// The address at which the API server calls the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A base URL, such as `https://10.0.0.1:8443`; each hook's path is added.
    Url(String),
    /// A Service in the cluster.
    Service {
        /// `metadata.name` of the Service.
        name: String,
        /// `metadata.namespace` of the Service.
        namespace: String,
        /// The Service's port, not the pods'.
        port: u16,
    },
}

/// The settings that the hooks have in common, whatever the policies are.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The component that stamps authors.
    pub stamper: Stamper,
    /// The address at which the API server calls the webhook.
    pub endpoint: &'a Endpoint,
    /// The CA certificates that the API server trusts for the webhook's address, as PEM.
    pub ca_bundle_pem: &'a str,
    /// The owner of the configurations, with which they are garbage-collected.
    pub owner: Option<OwnerReference>,
    /// The namespace of Copyrator's own objects.
    pub own_namespace: &'a str,
    /// Whether annotations that declare copies or restarts have an effect.
    pub annotations: bool,
    /// How many seconds the API server waits for each hook, 1 to 30; `None`: the value in the files.
    pub timeout: Option<i32>,
}

/// Renders the webhook configurations for these policies, given by name. The API server calls the webhook for
/// a kind only if a policy judges the kind, if `frame.annotations` enables annotations on the kind, or if
/// writes of the kind have consequences to warn of.
pub fn render<'p>(
    policies: impl IntoIterator<Item = (&'p str, &'p ConfigPolicySpec)>,
    warned: &WarningScope,
    frame: &Frame<'_>,
) -> (ValidatingWebhookConfiguration, MutatingWebhookConfiguration) {
    let &Frame { stamper, endpoint, ca_bundle_pem, ref owner, own_namespace, annotations, timeout } = frame;
    let needs = Needs::of(policies);
    let ca_bundle = ByteString(ca_bundle_pem.as_bytes().to_vec());
    let called = |rules: &Option<Vec<_>>| rules.as_ref().is_some_and(|rules| !rules.is_empty());

    let mut validating: ValidatingWebhookConfiguration = embedded(VALIDATING);
    let mut hooks = Vec::new();
    for mut hook in validating.webhooks.take().into_iter().flatten() {
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        match hook.name.as_str() {
            "annotations.copyrator.dev" if !annotations => continue,
            "annotations.copyrator.dev" => exempt_by_condition(&mut hook, "request.namespace"),
            WARNINGS => {
                hooks.extend(warned.entries(&hook));
                continue;
            }
            "policies-ignore.copyrator.dev" => {
                hooks.extend(groups::entries(&hook, &needs.ignore));
                continue;
            }
            "policies-fail.copyrator.dev" => {
                hooks.extend(groups::entries(&hook, &needs.fail));
                continue;
            }
            _ => {}
        }
        hooks.push(hook);
    }
    hooks.retain(|hook| called(&hook.rules));
    for hook in &mut hooks {
        connect(&mut hook.client_config, endpoint, &ca_bundle);
        hook.timeout_seconds = timeout.or(hook.timeout_seconds);
    }
    validating.webhooks = Some(hooks);

    let mut mutating: MutatingWebhookConfiguration = embedded(MUTATING);
    let hooks = mutating.webhooks.get_or_insert_default();
    for hook in hooks.iter_mut() {
        exempt(hook.namespace_selector.as_mut(), own_namespace);
        match STAMPING.contains(&hook.name.as_str()) {
            true if stamper == Stamper::ApiServer => hook.rules = None,
            true => {}
            false => {
                narrow(&mut hook.rules, &needs.defaults.iter().flat_map(|policy| adds(policy)).collect());
                let said = condition(&needs.defaults, HookKind::Defaults, LONGEST_CONDITION);
                hook.match_conditions.get_or_insert_default().extend(said);
            }
        }
        connect(&mut hook.client_config, endpoint, &ca_bundle);
        hook.timeout_seconds = timeout.or(hook.timeout_seconds);
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
    use std::collections::BTreeSet;

    use k8s_openapi::{
        api::admissionregistration::v1::ValidatingWebhook,
        apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
    };

    use super::*;
    use crate::{api::GROUP, hooks::passing_by::names_every_version, validate::policy_group};

    fn policy(failure: &str, matched: serde_json::Value) -> ConfigPolicySpec {
        let json =
            serde_json::json!({ "match": matched, "failurePolicy": failure, "limits": {"maxBytes": 1} });
        serde_json::from_value(json).unwrap()
    }

    fn frame(endpoint: &Endpoint) -> Frame<'_> {
        Frame {
            stamper: Stamper::ApiServer,
            endpoint,
            ca_bundle_pem: "PEM",
            owner: None,
            own_namespace: "ours",
            annotations: true,
            timeout: None,
        }
    }

    fn kinds(kinds: &str) -> serde_json::Value {
        serde_json::json!({ "kinds": kinds.split(',').collect::<Vec<_>>() })
    }

    fn rendered(policies: &[(&str, ConfigPolicySpec)]) -> Vec<ValidatingWebhook> {
        let endpoint = Endpoint::Service { name: "hook".into(), namespace: "ours".into(), port: 8443 };
        let policies = policies.iter().map(|(name, policy)| (*name, policy));
        let warned = WarningScope::of_anything();
        render(policies, &warned, &frame(&endpoint)).0.webhooks.unwrap()
    }

    /// Each hook's name, path and resources.
    fn brief(hooks: &[ValidatingWebhook]) -> Vec<String> {
        let brief = |hook: &ValidatingWebhook| {
            let path = hook.client_config.service.as_ref().and_then(|service| service.path.as_deref());
            let path = path.map(|path| path.trim_end_matches(|one: char| one.is_ascii_hexdigit()));
            let rules = hook.rules.iter().flatten();
            let resources: Vec<_> =
                rules.flat_map(|rule| rule.resources.iter().flatten().map(String::as_str)).collect();
            let name = hook.name.strip_suffix(".copyrator.dev").unwrap();
            format!("{name} {} {}", path.unwrap(), resources.join(","))
        };
        hooks.iter().map(brief).collect()
    }

    fn url() -> Endpoint {
        Endpoint::Url("https://127.0.0.1:8443/".into())
    }

    fn brief_of_urls(hooks: &[ValidatingWebhook]) -> Vec<&str> {
        hooks.iter().map(|hook| hook.name.strip_suffix(".copyrator.dev").unwrap()).collect()
    }

    const ALWAYS: [&str; 7] = [
        "own-kinds /validate/own-kinds copyratorrules,configmonitors,configpolicies,copyratortemplates",
        "annotations /validate/annotations configmaps,secrets",
        "configmaps.warnings /validate/warnings configmaps",
        "secrets.warnings /validate/warnings secrets",
        "namespaces.warnings /validate/warnings namespaces",
        "copyratorrules.warnings /validate/warnings copyratorrules",
        "copyratortemplates.warnings /validate/warnings copyratortemplates",
    ];

    #[test]
    fn hooks_see_what_the_policies_present_call_for() {
        assert_eq!(brief(&rendered(&[])), ALWAYS);
        let some = [
            ("some", policy("Ignore", kinds("ConfigMap,Secret"))),
            ("strict", policy("Fail", kinds("Secret"))),
            ("both", policy("Fail", kinds("ConfigMap,Namespace"))),
        ];
        let group = policy_group(&some[1].1);
        assert_eq!(
            brief(&rendered(&some)),
            [
                ALWAYS[0],
                ALWAYS[1],
                "some.policies-ignore /validate/policies configmaps,secrets",
                "GROUP.policies-fail /validate/policies configmaps,secrets",
                "both.namespaces-fail /validate/policies namespaces,namespaces/status,namespaces/finalize",
                ALWAYS[2],
                ALWAYS[3],
                ALWAYS[4],
                ALWAYS[5],
                ALWAYS[6],
            ]
            .map(|line| line.replace("GROUP", &format!("both.and-1-more.{group}")))
        );
        let unneeded = render([], &WarningScope::default(), &frame(&url())).0;
        assert_eq!(
            brief_of_urls(&unneeded.webhooks.unwrap()),
            ["own-kinds", "annotations", "copyratortemplates.warnings"]
        );
    }

    /// The API server calls the webhook for a deletion only if a policy needs the call, and never for the
    /// deletion of a namespace.
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
        assert_eq!(hooks.len(), 9, "none for Namespaces: {:?}", brief(&hooks));
    }

    /// If the API server stamps authors itself, no hook of ours can block the write of a rule.
    #[test]
    fn authors_are_stamped_by_a_hook_only_where_the_api_server_does_not() {
        let endpoint = Endpoint::Url("https://127.0.0.1:8443".into());
        for (stamper, annotations, expected) in
            [(Stamper::ApiServer, true, 0), (Stamper::Hook, false, 2), (Stamper::Hook, true, 2)]
        {
            let (_, mutating) =
                render([], &WarningScope::default(), &Frame { stamper, annotations, ..frame(&endpoint) });
            assert_eq!(mutating.webhooks.unwrap().len(), expected, "{stamper:?}");
        }
    }

    #[test]
    fn each_hook_has_its_timeout_or_all_have_the_one_asked_for() {
        let timeouts = |timeout| -> BTreeSet<Option<i32>> {
            let endpoint = url();
            let frame = Frame { stamper: Stamper::Hook, timeout, ..frame(&endpoint) };
            let (validating, mutating) = render([], &WarningScope::of_anything(), &frame);
            let validating = validating.webhooks.into_iter().flatten().map(|hook| hook.timeout_seconds);
            validating
                .chain(mutating.webhooks.into_iter().flatten().map(|hook| hook.timeout_seconds))
                .collect()
        };
        assert_eq!(timeouts(None), [1, 2, 5].map(Some).into());
        assert_eq!(timeouts(Some(10)), [Some(10)].into());
    }

    #[test]
    fn annotations_that_do_not_count_are_not_asked_about() {
        let hooks = render([], &WarningScope::default(), &Frame { annotations: false, ..frame(&url()) }).0;
        assert_eq!(brief_of_urls(&hooks.webhooks.unwrap()), ["own-kinds", "copyratortemplates.warnings"]);
    }

    #[test]
    fn a_tenant_who_holds_up_writes_holds_up_no_others() {
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
        assert_eq!(selector(&hooks[2].namespace_selector), [system, team, not_there]);
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
        assert_eq!(rendered(&many).len(), 8, "one hook, however many policies");
        let apart: Vec<_> = names
            .iter()
            .map(|name| {
                let selector = serde_json::json!({ "matchLabels": { "team": name } });
                let matched =
                    serde_json::json!({ "kinds": ["ConfigMap", "Namespace"], "namespaceSelector": selector });
                (name.as_str(), policy("Fail", matched))
            })
            .collect();
        assert_eq!(rendered(&apart[..32]).len(), 71);
        let wide = rendered(&apart);
        assert_eq!(
            brief(&wide)[2..4],
            [
                "policies-fail /validate/policies configmaps",
                "namespaces-fail /validate/policies namespaces,namespaces/status,namespaces/finalize"
            ]
        );
        assert!(wide.iter().all(|hook| hook.name.len() <= 253));
        let size = serde_json::to_string(&rendered(&apart[..32])).unwrap().len();
        assert!(size < 256 << 10, "{size}");
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
        let (validating, mutating) = render(
            policies,
            &WarningScope::of_anything(),
            &Frame { stamper: Stamper::Hook, owner: Some(owner), ..frame(&endpoint) },
        );
        assert_eq!(
            (mutating.metadata.owner_references.unwrap().len(), mutating.webhooks.as_ref().unwrap().len()),
            (1, 2)
        );
        let author = &mutating.webhooks.unwrap()[0];
        assert_eq!((author.name.as_str(), author.failure_policy.as_deref()), (AUTHOR_HOOK, Some("Fail")));
        assert_eq!(author.client_config.url.as_deref(), Some("https://127.0.0.1:8443/mutate/author"));
        let hooks = validating.webhooks.unwrap();
        assert_eq!(hooks.len(), 11);
        for hook in &hooks {
            assert_eq!(hook.side_effects, "None", "{}", hook.name);
            assert_eq!(hook.admission_review_versions, ["v1"], "{}", hook.name);
            let rules = hook.rules.as_deref().unwrap_or_default();
            let is_of = |named: &str| {
                rules.iter().flat_map(|rule| rule.api_groups.iter().flatten()).any(|group| group == named)
            };
            let every_version = names_every_version(rules);
            assert_eq!(
                is_of(GROUP) || hook.name == "namespaces.warnings.copyrator.dev",
                every_version,
                "{}",
                hook.name
            );
            let by = if every_version { "Exact" } else { "Equivalent" };
            assert_eq!(hook.match_policy.as_deref(), Some(by), "{}", hook.name);
            assert!(hook.timeout_seconds.unwrap() <= 5, "{}", hook.name);
            let path = hook.client_config.url.as_ref().unwrap().strip_prefix("https://127.0.0.1:8443");
            let path = path.unwrap();
            let path =
                path.rsplit_once('/').filter(|(_, last)| last.len() == 16).map_or(path, |(path, _)| path);
            assert!(crate::admit::PATHS.iter().any(|(known, _)| *known == path), "{path}");
            assert_eq!(hook.client_config.ca_bundle.as_ref().unwrap().0, b"PEM");
            let system = ["kube-system", "kube-public", "kube-node-lease", "ours"];
            let first = &hook.match_conditions.as_ref().unwrap()[0].expression;
            let by_condition = |attribute: &str| format!("!({attribute} in ['{}'])", system.join("', '"));
            let selected = hook
                .namespace_selector
                .clone()
                .map(|one| one.match_expressions.unwrap().swap_remove(0).values.unwrap());
            match &*hook.name {
                "annotations.copyrator.dev" => assert_eq!(*first, by_condition("request.namespace")),
                "namespaces.warnings.copyrator.dev" => assert_eq!(*first, by_condition("request.name")),
                own if is_of(GROUP) => assert_eq!(selected, None, "{own}"),
                other => assert_eq!(selected.unwrap(), system, "{other}"),
            }
            let conditions = match &*hook.name {
                "own-kinds.copyrator.dev" => 1,
                "annotations.copyrator.dev" => 3,
                "namespaces.warnings.copyrator.dev" => 5,
                policies if policies.contains(".policies-") || policies.contains(".namespaces-") => 4,
                warnings if warnings.ends_with(WARNINGS) => 4,
                _ => 3,
            };
            assert_eq!(hook.match_conditions.as_ref().unwrap().len(), conditions, "{}", hook.name);
        }
    }
}
