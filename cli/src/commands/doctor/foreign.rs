//! Foreign webhooks that block writes of ConfigMaps, Secrets or our kinds while the webhooks do not answer.

use serde_json::Value;

use super::{
    facts::Facts,
    finding::{Findings, Id},
};
use crate::hooks::NAME;

/// A foreign webhook with `failurePolicy: Fail`.
struct Foreign<'v> {
    kind: &'v str,
    configuration: &'v str,
    /// The webhook's index in its configuration.
    index: usize,
    name: &'v str,
    sees: String,
    /// Namespace and name of the webhook's Service; `None` for a URL.
    service: Option<(String, String)>,
}

/// The Services whose endpoints must be read.
pub(super) fn services(configurations: &[Value]) -> Vec<(String, String)> {
    let mut services: Vec<_> = strict(configurations).filter_map(|hook| hook.service).collect();
    services.sort();
    services.dedup();
    services
}

/// Reports foreign webhooks; as errors if the webhook's Service has no ready endpoint now.
pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let configurations = match &facts.hooks {
        Ok(configurations) => configurations,
        Err(unread) => return found.unknown(&[Id::ForeignFailHook], unread),
    };
    for hook in strict(configurations) {
        let object = format!("{} {}", hook.kind, hook.configuration);
        let sees =
            format!("its hook {} with failurePolicy Fail receives every write of {}", hook.name, hook.sees);
        let endpoint =
            hook.service.as_ref().and_then(|service| Some((service, facts.endpoints.get(service)?)));
        if let Some(((namespace, service), Ok(false))) = endpoint {
            let what = format!(
                "{sees}, but its Service {namespace}/{service} has no ready endpoint, so these writes fail, also Copyrator's. Start the \
                 pods of the Service, or set failurePolicy: Ignore"
            );
            let path = format!("/webhooks/{}/failurePolicy", hook.index);
            let patch = format!(r#"[{{"op":"replace","path":"{path}","value":"Ignore"}}]"#);
            let fix = format!(
                "kubectl patch {} {} --type=json -p '{patch}'",
                hook.kind.to_lowercase(),
                hook.configuration
            );
            found.error(Id::ForeignFailHook, object, what, fix);
            continue;
        }
        let what = format!(
            "{sees}: while its server does not answer, Copyrator copies nothing. If you accept this, let doctor ignore the finding"
        );
        found.warning(
            Id::ForeignFailHook,
            object,
            what,
            format!("copyrator doctor --ignore {}", Id::ForeignFailHook.text()),
        );
    }
}

fn strict(configurations: &[Value]) -> impl Iterator<Item = Foreign<'_>> {
    let others = configurations.iter().filter(|one| one["metadata"]["name"] != NAME);
    others.flat_map(|configuration| {
        let hooks = configuration["webhooks"].as_array().into_iter().flatten().enumerate();
        hooks.filter_map(|(index, hook)| foreign(configuration, index, hook))
    })
}

fn foreign<'v>(configuration: &'v Value, index: usize, hook: &'v Value) -> Option<Foreign<'v>> {
    let is_strict = hook["failurePolicy"].as_str().is_none_or(|policy| policy == "Fail");
    let is_everywhere = excludes_only(&hook["namespaceSelector"]) && excludes_only(&hook["objectSelector"]);
    let sees = sees(hook);
    if !is_strict || !is_everywhere || sees.is_empty() {
        return None;
    }
    let text = |value: &'v Value| value.as_str().unwrap_or_default();
    let service = &hook["clientConfig"]["service"];
    Some(Foreign {
        kind: text(&configuration["kind"]),
        configuration: text(&configuration["metadata"]["name"]),
        index,
        name: text(&hook["name"]),
        sees: sees.join(", "),
        service: service
            .is_object()
            .then(|| (text(&service["namespace"]).into(), text(&service["name"]).into())),
    })
}

/// The resources that matter to us for which the API server calls a webhook.
fn sees(hook: &Value) -> Vec<&'static str> {
    const OURS: [(&str, &str); 6] = [
        ("", "configmaps"),
        ("", "secrets"),
        ("copyrator.dev", "copyratorrules"),
        ("copyrator.dev", "configmonitors"),
        ("copyrator.dev", "configpolicies"),
        ("copyrator.dev", "copyratortemplates"),
    ];
    let has = |list: &Value, wanted: &[&str]| {
        list.as_array().into_iter().flatten().any(|one| wanted.iter().any(|wanted| one == wanted))
    };
    let rules: Vec<&Value> = hook["rules"].as_array().into_iter().flatten().collect();
    let is_asked = |(group, resource): &&(&'static str, &'static str)| {
        rules.iter().any(|rule| {
            has(&rule["apiGroups"], &["*", group]) && has(&rule["resources"], &["*", "*/*", resource])
        })
    };
    OURS.iter().filter(is_asked).map(|(_, resource)| *resource).collect()
}

/// Whether a selector only excludes objects, and requires nothing.
fn excludes_only(selector: &Value) -> bool {
    let asks = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
    let mut terms = selector["matchExpressions"].as_array().into_iter().flatten();
    !asks && terms.all(|term| term["operator"] == "NotIn" || term["operator"] == "DoesNotExist")
}
