//! ConfigPolicies that are not in force, and foreign admission policies that decide by the user who writes.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::{Api, Client, api::ListParams};
use serde_json::Value;

use super::{
    facts::{Facts, InertPolicy, Readable, Unread},
    finding::{Findings, Id},
    read::list,
};
use crate::{
    api::{ConfigPolicy, FailurePolicy},
    crds::manifests,
    hooks::NAME,
    installed::Install,
    intake::AsWritten,
    validate::CompiledPolicy,
};

/// The policies that are understood, and the policies that are not.
pub(super) fn sorted(all: Vec<AsWritten<ConfigPolicy>>) -> (Vec<ConfigPolicy>, Vec<InertPolicy>) {
    let (mut understood, mut inert) = (Vec::new(), Vec::new());
    for policy in all {
        match policy.understood_or_why() {
            Ok(policy) => {
                inert.extend(invalid(&policy));
                understood.push(policy);
            }
            // Assume `Fail`: the policy's `failurePolicy` may be in the part that is not understood.
            Err((name, why)) => inert.push(InertPolicy { name, is_strict: true, why }),
        }
    }
    (understood, inert)
}

fn invalid(policy: &ConfigPolicy) -> Option<InertPolicy> {
    let problems = CompiledPolicy::compile(&policy.spec).err()?;
    let first = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    Some(InertPolicy {
        name: policy.metadata.name.clone().unwrap_or_default(),
        is_strict: policy.spec.failure_policy == FailurePolicy::Fail,
        why: format!("is invalid: {first}"),
    })
}

/// Finds the policies that refuse nothing.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    // Without cluster-wide rights, the caller cannot be expected to read policies.
    let inert = match &facts.inert_policies {
        Ok(inert) => inert,
        Err(_) if install.is_namespaced() => return,
        Err(unread) => return found.unknown(&[Id::PolicyOff], unread),
    };
    let mut tell = |name: &str, is_strict: bool, why: &str, fix: String| {
        let (object, what) = (format!("ConfigPolicy {name}"), format!("the policy refuses no write: {why}"));
        match is_strict {
            true => found.error(Id::PolicyOff, object, what, fix),
            false => found.warning(Id::PolicyOff, object, what, fix),
        }
    };
    if install.is_namespaced() {
        for policy in facts.policies.iter().flatten() {
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            let why = "has no effect, because Copyrator runs without a webhook when --namespaces is set";
            let is_strict = policy.spec.failure_policy == FailurePolicy::Fail;
            tell(name, is_strict, why, format!("kubectl delete configpolicy {name}"));
        }
        return;
    }
    for InertPolicy { name, is_strict, why } in inert {
        tell(name, *is_strict, why, format!("kubectl edit configpolicy {name}"));
    }
}

/// Lists foreign admission policies and hooks that decide by the user who writes.
pub(super) async fn look(client: &Client, hooks: &Readable<Vec<Value>>) -> Readable<Vec<String>> {
    let api = Api::all(client.clone());
    let policies: Vec<ValidatingAdmissionPolicy> = list(api, None, &ListParams::default()).await?;
    let policies = policies.iter().filter_map(|policy| serde_json::to_value(policy).ok());
    Ok(by_user(&policies.collect::<Vec<_>>(), hooks.as_deref().unwrap_or_default()))
}

/// The kinds and names of the policies and hooks that see ConfigMaps or Secrets, and mention the user who
/// writes them.
fn by_user(policies: &[Value], hooks: &[Value]) -> Vec<String> {
    let ours: Vec<Value> = manifests().into_iter().map(|one| one["metadata"]["name"].clone()).collect();
    let name = |one: &Value| one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let policies = policies.iter().filter(|policy| {
        let spec = &policy["spec"];
        let decides = ["matchConditions", "validations", "variables"].map(|part| &spec[part]);
        !ours.contains(&policy["metadata"]["name"])
            && sees_copies(&spec["matchConstraints"]["resourceRules"])
            && decides.into_iter().any(mentions_user)
    });
    let policies = policies.map(|policy| format!("ValidatingAdmissionPolicy {}", name(policy)));
    let hooks = hooks.iter().filter(|hooks| hooks["metadata"]["name"] != NAME);
    let hooks = hooks.filter(|configuration| {
        let mut all = configuration["webhooks"].as_array().into_iter().flatten();
        all.any(|hook| sees_copies(&hook["rules"]) && mentions_user(&hook["matchConditions"]))
    });
    let hooks = hooks.map(|one| format!("{} {}", one["kind"].as_str().unwrap_or_default(), name(one)));
    policies.chain(hooks).collect()
}

/// Whether rules are about ConfigMaps or Secrets.
fn sees_copies(rules: &Value) -> bool {
    let has = |list: &Value, wanted: &[&str]| {
        list.as_array().into_iter().flatten().any(|one| wanted.iter().any(|wanted| one == wanted))
    };
    rules.as_array().into_iter().flatten().any(|rule| {
        has(&rule["apiGroups"], &["*", ""]) && has(&rule["resources"], &["*", "*/*", "configmaps", "secrets"])
    })
}

/// Whether expressions read the user who writes, or check that user's rights.
fn mentions_user(expressions: &Value) -> bool {
    let mut all = expressions.as_array().into_iter().flatten().filter_map(|one| one["expression"].as_str());
    all.any(|expression| ["userInfo", "authorizer"].iter().any(|word| expression.contains(word)))
}

/// A note about foreign policies: for a copy, foreign policies see our account, not the author of the rule.
pub(super) fn notes(by_user: &Readable<Vec<String>>) -> Vec<String> {
    let text = match by_user {
        Ok(all) if all.is_empty() => return Vec::new(),
        Ok(all) => format!(
            "{} {} the user who writes ConfigMaps or Secrets: for a copy, this is Copyrator's ServiceAccount, not the author of the rule \
             (docs/security.md#admission-policies-of-others)",
            all.join(", "),
            if all.len() == 1 { "depends on" } else { "depend on" },
        ),
        Err(Unread { verb, resource, .. }) => format!(
            "cannot check whether other admission policies depend on the writing user: you may not {verb} {resource}"
        ),
    };
    vec![text]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(name: &str, resource: &str, part: &str, expression: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "resources": [resource]}]},
            part: [{"name": "a", "expression": expression}]}})
    }

    #[test]
    fn others_that_decide_by_who_writes_are_noted() {
        let by_name = "request.userInfo.username != 'bob'";
        let policies = [
            policy("named", "configmaps", "validations", by_name),
            policy("some", "*", "matchConditions", by_name),
            policy(
                "asking",
                "secrets",
                "variables",
                "authorizer.group('').resource('x').check('y').allowed()",
            ),
            policy("content", "configmaps", "validations", "object.data.size() < 3"),
            policy("pods", "pods", "validations", by_name),
            policy("copyrator-copies", "configmaps", "validations", by_name),
        ];
        let hooks = |name: &str, expression: &str| {
            json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{
                "rules": [{"apiGroups": ["*"], "resources": ["*"]}], "matchConditions": [{"expression": expression}]}]})
        };
        let hooks = [hooks("theirs", by_name), hooks("other", "true"), hooks(NAME, by_name)];
        let found = by_user(&policies, &hooks);
        let policy = |name: &str| format!("ValidatingAdmissionPolicy {name}");
        let expected = [
            policy("named"),
            policy("some"),
            policy("asking"),
            "ValidatingWebhookConfiguration theirs".into(),
        ];
        assert_eq!(found, expected);
        let said = notes(&Ok(found)).concat();
        assert!(
            said.contains("ValidatingAdmissionPolicy named, ") && said.contains("not the author"),
            "{said}"
        );
        assert_eq!(notes(&Ok(Vec::new())), [""; 0]);
        let unread = Unread { verb: "list", resource: "things".into(), namespace: None, failure: None };
        assert!(notes(&Err(unread)).concat().contains("you may not list things"));
    }
}
