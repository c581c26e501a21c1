//! The admission policies, as far as they can be judged without an API server.

use copyrator::{marks, names::Kind};
use serde_json::{Value, json};

use crate::{documents, files};

fn policy(file: &str) -> Value {
    let (name, text) = files("webhook-config/policies").into_iter().find(|(name, _)| name == file).unwrap();
    documents(&name, &text).remove(0)
}

fn variable(policy: &Value, name: &str) -> String {
    let variables = policy["spec"]["variables"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name).unwrap();
    found["expression"].as_str().unwrap().to_owned()
}

#[test]
fn webhook_configurations_parse_and_carry_no_trust_of_their_own() {
    let hooks: Vec<(String, String)> = files("webhook-config");
    assert!(!hooks.is_empty());
    for (name, text) in hooks.iter().filter(|(name, _)| name.ends_with(".yaml")) {
        for document in documents(name, text) {
            let kind = document["kind"].as_str().unwrap();
            if kind == "Kustomization" {
                continue;
            }
            assert!(kind.ends_with("WebhookConfiguration"), "{name}: {kind}");
            // As all of ours is found.
            assert_eq!(document["metadata"]["labels"]["app.kubernetes.io/part-of"], "copyrator", "{name}");
            // The CA is generated in each cluster; one that is written down is everybody's.
            assert!(!text.contains("caBundle:"), "{name}");
        }
    }
}

#[test]
fn every_policy_is_bound_and_fails_closed() {
    for (name, text) in files("webhook-config/policies") {
        let documents = documents(&name, &text);
        assert_eq!(documents.len(), 2, "{name}");
        assert_eq!(documents[0]["spec"]["failurePolicy"], "Fail", "{name}");
        assert_eq!(documents[1]["spec"]["policyName"], documents[0]["metadata"]["name"], "{name}");
        for validation in documents[0]["spec"]["validations"].as_array().into_iter().flatten() {
            assert_eq!(validation["reason"], "Forbidden", "{name}");
        }
    }
}

#[test]
fn the_stamp_is_checked_as_it_is_made() {
    for file in ["author", "annotations"] {
        let made = policy(&format!("{file}.yaml"));
        let checked = policy(&format!("{file}-honest.yaml"));
        for name in ["anew", "groups"] {
            assert_eq!(variable(&made, name), variable(&checked, name), "{file}");
        }
        assert_eq!(variable(&made, "groups"), variable(&policy("author.yaml"), "groups"));
        for key in [marks::AUTHOR, marks::AUTHOR_GROUPS] {
            assert!(variable(&made, "stamp").contains(&format!("'{key}'")), "{file}");
        }
        assert_eq!(made["spec"]["matchConstraints"], checked["spec"]["matchConstraints"], "{file}");
    }
    let declares = |file: &str| policy(file)["spec"]["matchConditions"][0]["expression"].clone();
    let said = format!("[?'{}'].orValue('') == '{}'", marks::DECLARES, marks::DECLARES_VALUE);
    assert!(declares("annotations.yaml").as_str().unwrap().contains(&said), "{said}");
    assert_eq!(declares("annotations.yaml"), declares("annotations-honest.yaml"));
    let conditions = |file: &str| policy(file)["spec"]["matchConditions"].to_string();
    for key in marks::ASKING {
        let key = format!("'{key}'");
        for name in ["anew", "asks"] {
            assert!(variable(&policy("annotations.yaml"), name).contains(&key), "{name}: {key}");
        }
        for file in ["annotations.yaml", "annotations-honest.yaml"] {
            assert!(conditions(file).contains(&key), "{file}: {key}");
        }
        for file in ["validating.yaml", "mutating.yaml"] {
            let (_, text) = files("webhook-config").into_iter().find(|(name, _)| name == file).unwrap();
            assert!(text.contains(&key), "{file}: {key}");
        }
    }
}

#[test]
fn a_copy_is_told_by_the_marks_that_the_code_writes() {
    let selector = &policy("copies.yaml")["spec"]["matchConstraints"]["objectSelector"];
    assert_eq!(*selector, json!({"matchExpressions": [{"key": marks::RULE_LABEL, "operator": "Exists"}]}));
    let is_said = format!("== '{}'", marks::MANAGED_BY_VALUE);
    assert!(variable(&policy("copies.yaml"), "ours").contains(&is_said), "{is_said}");
    assert!(variable(&policy("copies.yaml"), "markKeys").contains(&format!("'{}'", marks::RESTART)));
    for key in [marks::RULE_LABEL, marks::MANAGED_BY, marks::MARK, marks::OBJECT] {
        assert!(variable(&policy("copies.yaml"), "ours").contains(&format!("'{key}'")), "{key}");
    }
}

/// The API server asks each policy at every write in the cluster (docs/decisions/admission-webhooks.md).
#[test]
fn a_write_that_is_not_ours_is_told_by_one_key_or_by_its_resource() {
    let policies = files("webhook-config/policies");
    assert!(policies.len() >= 6);
    for (file, _) in policies {
        let constraints = &policy(&file)["spec"]["matchConstraints"];
        let expressions = constraints["objectSelector"]["matchExpressions"].as_array();
        if let Some(expressions) = expressions {
            assert_eq!((expressions.len(), &expressions[0]["operator"]), (1, &json!("Exists")), "{file}");
            assert!(constraints["objectSelector"]["matchLabels"].is_null(), "{file}");
        } else {
            let rules = constraints["resourceRules"].as_array().unwrap();
            assert!(rules.iter().all(|rule| rule["apiVersions"] == json!(["*"])), "{file}");
            assert_eq!(constraints["matchPolicy"], "Exact", "{file}");
            assert!(constraints["objectSelector"].is_null(), "{file}");
        }
    }
}

/// A kind that is kept whole and missing here could be edited by a tenant: its content would not be compared.
#[test]
fn every_kind_is_guarded_and_one_that_is_kept_whole_in_all_of_its_content() {
    let copies = policy("copies.yaml");
    let rules = copies["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
    let whole = variable(&copies, "isWhole");
    for kind in Kind::ALL {
        let resource = kind.resource();
        let guards = |rule: &&Value| {
            let lists =
                |field: &str, text: &str| rule[field].as_array().unwrap().iter().any(|one| one == text);
            lists("apiGroups", resource.group)
                && lists("resources", resource.plural)
                && lists("resources", &format!("{}/*", resource.plural))
        };
        assert!(rules.iter().any(|rule| guards(&rule)), "{kind} is not guarded with its subresources");
        let named = format!("'{}'", resource.qualified());
        assert_eq!(whole.contains(&named), kind.is_whole(), "{kind}: {named} in isWhole");
    }
}

#[test]
fn statuses_are_guarded_where_the_charts_role_for_reporting_is() {
    let (name, text) =
        files("webhook-config/policies").into_iter().find(|(name, _)| name == "statuses.yaml").unwrap();
    let of = documents(&name, &text).remove(1)["spec"]["paramRef"].clone();
    assert_eq!(of["parameterNotFoundAction"], "Allow");
    let (_, text) = files("charts/copyrator").into_iter().find(|(name, _)| name == "rbac.yaml").unwrap();
    let roles = documents("rbac.yaml", &text).remove(0)["allNamespaces"].clone();
    let is_reporting = |role: &&serde_json::Value| role["name"] == "$(NAME)-report";
    let role = roles.as_array().unwrap().iter().find(is_reporting).unwrap();
    assert_eq!(role["labels"], of["selector"]["matchLabels"]);
    let statuses = &policy("statuses.yaml")["spec"]["matchConstraints"]["resourceRules"][0]["resources"];
    let is_of_statuses = |rule: &&serde_json::Value| rule["resources"] == *statuses;
    let rule = role["rules"].as_array().unwrap().iter().find(is_of_statuses).unwrap();
    assert_eq!(rule["verbs"], serde_json::json!(["patch"]));
}
