//! What the webhook is asked: reviews as an API server sent them (`tests/reviews`), large ones, and hostile ones.

use std::fs;
use std::path::Path;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::Outcome;
use crate::objects::text;

/// Small writes as people make them: created, changed, one in four refused.
const SMALL: [&str; 4] = ["configmap-create", "configmap-update", "secret-create", "configmap-create-bad"];
/// As much as the API server stores of an object, nearly.
const LARGE: usize = 1 << 20;

/// A recorded review, 2 to 3 KiB, byte for byte.
fn recorded(name: &str) -> Outcome<Vec<u8>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reviews"));
    let path = folder.join(format!("{name}.json"));
    Ok(fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?)
}

/// The recorded reviews of small objects.
pub(crate) fn small() -> Outcome<Vec<Vec<u8>>> {
    SMALL.into_iter().map(recorded).collect()
}

/// One that the policies refuse.
pub(crate) fn bad() -> Outcome<Vec<u8>> {
    recorded("configmap-create-bad")
}

/// A Secret of 1 MiB that is changed: twice 1.4 MB of Base64.
pub(crate) fn large() -> Outcome<Vec<u8>> {
    let lines = |seed: &str| format!("# {}\n", text(62, seed)).repeat(LARGE / 65);
    let data = |seed: &str| {
        let value = ByteString(lines(seed).into_bytes());
        json!({"url": ByteString(b"https://db.example.com".to_vec()), "settings.yaml": value})
    };
    let mut review: Value = serde_json::from_slice(&recorded("secret-update")?)?;
    review["request"]["object"]["data"] = data("new");
    review["request"]["oldObject"]["data"] = data("old");
    Ok(serde_json::to_vec(&review)?)
}

/// What is written to hurt, by name: each takes as much work as its author can make of it.
pub(crate) fn hostile() -> Outcome<Vec<(&'static str, Vec<u8>)>> {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{before}]\n");
    }
    let deep = "[".repeat(LARGE / 2) + &"]".repeat(LARGE / 2);
    let backtracking = "a".repeat(LARGE - 1) + "b";
    let lines = "0123456789abcde\n".repeat(LARGE / 16);
    [
        ("YAML bomb", json!({"url": "https://a", "bomb.yaml": laughs})),
        ("JSON 500,000 deep", json!({"url": "https://a", "deep.json": deep})),
        ("text for a backtracking pattern", json!({"url": "https://a", "level": backtracking})),
        ("expression over 65,536 lines", json!({"url": "https://a", "lines": lines})),
    ]
    .into_iter()
    .map(|(name, data)| {
        let mut review: Value = serde_json::from_slice(&recorded("configmap-create")?)?;
        review["request"]["object"]["data"] = data;
        Ok((name, serde_json::to_vec(&review)?))
    })
    .collect()
}

/// The same as [`policies`], for names that no review has.
pub(crate) fn policies_of_others(failure_policy: &str) -> Vec<Value> {
    let of_others = |mut policy: Value| {
        policy["spec"]["match"]["names"] = json!(["another-*"]);
        policy
    };
    policies(failure_policy).into_iter().map(of_others).collect()
}

/// Two dozen policies as an installation has them: each speaks of some of the objects above. The last one's expression is
/// what a careless author writes.
pub(crate) fn policies(failure_policy: &str) -> Vec<Value> {
    let formats = [
        ("url", "*url", "url"),
        ("yaml", "*.yaml", "yaml"),
        ("json", "*.json", "json"),
        ("integer", "m??", "integer"),
    ];
    let of_format = |team: usize, (name, key, format): (&str, &str, &str)| {
        let rule = json!({"name": name, "keys": [key], "format": format});
        (format!("{name}-{team}"), json!({"data": [rule]}))
    };
    let mut demands: Vec<(String, Value)> =
        (0..4).flat_map(|team| formats.map(|format| of_format(team, format))).collect();
    for team in 0..3 {
        let level = json!({"name": "level", "keys": ["level"], "pattern": "(a+)+|debug|info|warn"});
        demands.push((format!("level-{team}"), json!({"data": [level]})));
        let range = "!('min' in text && 'max' in text) || int(text.min) <= int(text.max)";
        demands.push((format!("range-{team}"), json!({"validations": [{"expression": range}]})));
    }
    demands.push(("size".into(), json!({"limits": {"maxBytes": 2 << 20}})));
    let lines = "!('lines' in text) || text.lines.split('\\n').all(line, line.matches('^[0-9a-f]*$'))";
    demands.push(("lines".into(), json!({"validations": [{"expression": lines}]})));
    let policy = |(name, mut spec): (String, Value)| {
        spec["match"] = json!({"kinds": ["ConfigMap", "Secret"]});
        spec["failurePolicy"] = json!(failure_policy);
        json!({
            "apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigPolicy",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    demands.into_iter().map(policy).collect()
}

#[cfg(test)]
mod tests {
    use copyrator::admit::decode::decode;
    use copyrator::api::ConfigPolicySpec;
    use copyrator::validate::CompiledPolicy;

    use super::*;

    #[test]
    fn every_review_is_one_and_every_policy_compiles() {
        let hostile = hostile().unwrap().into_iter().map(|(_, body)| body);
        let all = small().unwrap().into_iter().chain([bad().unwrap(), large().unwrap()]).chain(hostile);
        for body in all {
            assert!(decode(&body).is_ok() && body.len() < 7 << 20, "{} bytes", body.len());
        }
        let policies = policies("Ignore");
        assert_eq!(policies.len(), 24);
        for policy in policies {
            let spec: ConfigPolicySpec = serde_json::from_value(policy["spec"].clone()).unwrap();
            assert!(CompiledPolicy::compile(&spec).is_ok(), "{policy}");
        }
    }
}
