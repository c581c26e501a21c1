//! Whether the API server asks us about the writes that a policy speaks of, as the webhook configurations in the cluster say.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
};

use super::needs::{adds, judged, kept};
use crate::{
    api::{ConfigPolicySpec, FailurePolicy},
    marks::HANDS_OFF,
};

/// Operation and resource.
type Asked = (String, String);

/// Why writes that a policy speaks of pass by it, if some do.
pub fn off(
    name: &str,
    policy: &ConfigPolicySpec,
    validating: Option<&ValidatingWebhookConfiguration>,
    mutating: Option<&MutatingWebhookConfiguration>,
) -> Option<String> {
    let own_path = format!("/validate/policies/{name}");
    let paths = match policy.failure_policy {
        FailurePolicy::Ignore => vec!["/validate/policies"],
        // Beyond a number of such policies one entry serves them all.
        FailurePolicy::Fail => vec![&*own_path, "/validate/policies"],
    };
    let hooks = validating.and_then(|it| it.webhooks.as_ref()).into_iter().flatten();
    let asking = hooks.filter(|hook| paths.iter().any(|path| calls(&hook.client_config, path)));
    let asked: BTreeSet<Asked> = asking.flat_map(|hook| asked(&hook.rules)).collect();
    let hooks = mutating.and_then(|it| it.webhooks.as_ref()).into_iter().flatten();
    let adding = hooks.filter(|hook| calls(&hook.client_config, "/mutate/defaults"));
    let adding: BTreeSet<Asked> = adding.flat_map(|hook| self::asked(&hook.rules)).collect();

    let writes = |resource: &'static str| ["CREATE", "UPDATE"].map(|operation| (operation, resource));
    let wanted = judged(policy).flat_map(writes).chain(kept(policy).map(|resource| ("DELETE", resource)));
    let missing = wanted.filter(|one| !has(&asked, *one));
    let missing = missing.chain(adds(policy).flat_map(writes).filter(|one| !has(&adding, *one)));
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
        true => format!("they are annotated {HANDS_OFF}: take it off, and they are put right"),
        false => "they are put right as soon as that can be done".to_owned(),
    };
    let missing: Vec<String> = missing.into_iter().collect();
    Some(format!("the webhook configurations named copyrator do not ask about {}: {fix}", missing.join(", ")))
}

fn has(asked: &BTreeSet<Asked>, (operation, resource): (&str, &str)) -> bool {
    asked.iter().any(|(on, of)| [operation, "*"].contains(&&**on) && [resource, "*"].contains(&&**of))
}

fn asked(rules: &Option<Vec<RuleWithOperations>>) -> Vec<Asked> {
    let each = |rule: &RuleWithOperations| {
        let resources = rule.resources.clone().unwrap_or_default();
        let operations = rule.operations.clone().unwrap_or_default();
        let of =
            |on: String| resources.clone().into_iter().map(move |of| (on.clone(), of)).collect::<Vec<_>>();
        operations.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    rules.iter().flatten().flat_map(each).collect()
}

/// Whether it calls us at this path.
fn calls(config: &WebhookClientConfig, path: &str) -> bool {
    let service = config.service.as_ref().and_then(|service| service.path.as_deref());
    service == Some(path) || config.url.as_ref().is_some_and(|url| url.ends_with(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hooks::{Endpoint, Stamper, render};

    fn policy(failure: &str, more: serde_json::Value) -> ConfigPolicySpec {
        let mut spec =
            json!({"match": {"kinds": ["ConfigMap"]}, "failurePolicy": failure, "limits": {"maxBytes": 1}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_is_rendered_for_a_policy_brings_it_into_force() {
        let (url, service) = (
            Endpoint::Url("https://127.0.0.1:8443/".into()),
            Endpoint::Service { name: "hook".into(), namespace: "ours".into(), port: 443 },
        );
        let specs = [
            policy("Ignore", json!({"whileInUse": "Refuse", "defaults": {"labels": {"a": "b"}}})),
            policy(
                "Fail",
                json!({"match": {"kinds": ["ConfigMap", "Secret", "Namespace"]}, "whileInUse": "Refuse"}),
            ),
        ];
        for (spec, endpoint) in specs.iter().flat_map(|spec| [(spec, &url), (spec, &service)]) {
            let (validating, mutating) =
                render([("app", spec)], Stamper::ApiServer, endpoint, "PEM", None, "ours", true);
            assert_eq!(off("app", spec, Some(&validating), Some(&mutating)), None);
            assert!(off("app", spec, None, None).is_some());
            let (validating, mutating) = render([], Stamper::ApiServer, endpoint, "PEM", None, "ours", true);
            assert!(off("app", spec, Some(&validating), Some(&mutating)).is_some());
        }
        let many: Vec<String> = (0..70).map(|number| format!("p{number}")).collect();
        let many = many.iter().map(|name| (name.as_str(), &specs[1]));
        let (validating, _) = render(many, Stamper::ApiServer, &url, "PEM", None, "ours", true);
        assert_eq!(off("p7", &specs[1], Some(&validating), None), None);
    }

    #[test]
    fn what_is_lacking_is_named_with_the_fix() {
        let (loose, keeps) = (policy("Ignore", json!({})), policy("Ignore", json!({"whileInUse": "Refuse"})));
        let endpoint = Endpoint::Url("https://127.0.0.1:8443".into());
        let (mut validating, _) =
            render([("app", &loose)], Stamper::ApiServer, &endpoint, "PEM", None, "ours", true);
        let why = off("app", &keeps, Some(&validating), None).unwrap();
        assert!(why.contains("do not ask about DELETE configmaps: they are put right as soon"), "{why}");
        validating.metadata.annotations = Some([(HANDS_OFF.to_owned(), "incident".to_owned())].into());
        validating.webhooks = None;
        let why = off("app", &loose, Some(&validating), None).unwrap();
        assert!(
            why.contains("CREATE configmaps, UPDATE configmaps: they are annotated copyrator.dev/hands-off"),
            "{why}"
        );
    }
}
