//! Short reviews are judged where they are read: with the same verdict, and only as long as others can wait.

use copyrator::admit::{
    Parties, Purpose,
    decide::{Case, Verdict, read},
    decode::decode,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    harness::{Cluster, recorded},
    policies::guarded,
};

/// The verdict of a judge that may take its time, and of one that may not.
fn judged(cluster: &Cluster, review: &Value) -> Option<(Verdict, Option<Verdict>)> {
    let bytes = serde_json::to_vec(review).unwrap();
    let (review, purpose, parties) = (decode(&bytes).unwrap(), Purpose::Policies, Parties::default());
    let Ok(Case::Write(write)) = read(&review, &purpose, &parties, Timestamp::now()) else { return None };
    let known = || write.look(&cluster.world).unwrap();
    Some((write.judge(known()), write.judge_briefly(known())))
}

fn with_data(name: &str, data: Value) -> Value {
    let mut review = recorded(name);
    review["request"]["object"]["data"] = data;
    review
}

#[test]
fn a_verdict_in_brief_is_the_verdict() {
    let cluster = guarded();
    for name in [
        "configmap-create",
        "configmap-create-bad",
        "configmap-create-dry-run",
        "configmap-update",
        "configmap-delete",
        "secret-create",
        "secret-update",
    ] {
        let (at_length, in_brief) = judged(&cluster, &recorded(name)).unwrap();
        assert_eq!(in_brief, Some(at_length), "{name}");
    }
}

/// Each of these takes milliseconds or more, and all of them fit into a short review.
#[test]
fn what_takes_longer_is_not_judged_where_others_wait() {
    let rule = |format: &str| json!({"data": [{"name": "r", "keys": ["a"], "format": format}]});
    let nested = "text.a.split(',').all(a, text.a.split(',').exists_one(b, a == b))";
    let held = json!({"data": [{"name": "r", "keys": ["a"], "format": "yaml", "schema": {"items": {"maxLength": 9}}}]});
    let anchors = "a: &a [b]\nc: *a\n".to_owned();
    let long = "- a\n".repeat(3_000);
    let folded = "(?i)".to_owned() + &r"\p{Any}".repeat(12);
    let nested_anchors = "&a [".repeat(60) + &"a,".repeat(2_000) + &"]".repeat(60);
    for (demand, value) in [
        (rule("regex"), &folded),
        (rule("yaml"), &nested_anchors),
        (rule("yaml"), &anchors),
        (rule("yaml"), &long),
        (rule("regex"), &r"\pL".repeat(2_000)),
        (rule("pem-certificate"), &"a".repeat(10_000)),
        (
            json!({"data": [{"name": "r", "keys": ["a"], "pattern": "(a|b)*a(a|b){2000}"}]}),
            &"a".repeat(10_000),
        ),
        (json!({"validations": [{"expression": nested}]}), &",".repeat(10_000)),
        (held, &long),
    ] {
        let mut policy = demand.clone();
        policy["match"] = json!({"kinds": ["ConfigMap"]});
        let cluster = Cluster::new().policy("p", policy);
        let (_, in_brief) = judged(&cluster, &with_data("configmap-create", json!({"a": value}))).unwrap();
        assert_eq!(in_brief, None, "{demand}");
        let (at_length, in_brief) =
            judged(&cluster, &with_data("configmap-create", json!({"b": "x"}))).unwrap();
        assert_eq!(in_brief, Some(at_length), "{demand}, which has nothing to judge");
    }
}

/// Sorting and matching many keys takes long even if their values are empty.
#[test]
fn many_keys_are_not_judged_where_others_wait() {
    let data: serde_json::Map<_, _> = (0..1_500).map(|key| (format!("k{key}"), "".into())).collect();
    let review = with_data("configmap-create", Value::Object(data));
    for demand in [
        json!({"validations": [{"expression": "text.all(k, text.exists(j, j != k))"}]}),
        json!({"data": [{"name": "r", "keys": ["*"], "format": "integer"}]}),
        json!({"data": [{"name": "r", "keys": ["*"], "format": "yaml", "schema": {}}]}),
    ] {
        let mut policy = demand.clone();
        policy["match"] = json!({"kinds": ["ConfigMap"]});
        let (_, in_brief) = judged(&Cluster::new().policy("p", policy), &review).unwrap();
        assert_eq!(in_brief, None, "{demand}");
    }
}

/// A millisecond is what a key of 500 bytes is said to take: what is spent to the last is not enough.
#[test]
fn what_stood_already_warns_in_brief_too() {
    let demand = json!({"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "r", "keys": ["a"], "format": "pem-key"}]});
    let cluster = Cluster::new().policy("p", demand);
    for length in 480..=510 {
        let mut review = recorded("configmap-update");
        for version in ["object", "oldObject"] {
            review["request"][version]["data"] = json!({"a": "x".repeat(length)});
        }
        review["request"]["object"]["metadata"]["labels"] = json!({"another": "label"});
        let (at_length, in_brief) = judged(&cluster, &review).unwrap();
        assert!(at_length.is_allowed() && at_length.warnings.len() == 1, "{at_length:?}");
        assert!(in_brief.is_none_or(|in_brief| in_brief == at_length), "{length}");
    }
}

/// What was not judged in brief has no part in the answer.
#[tokio::test]
async fn what_is_judged_at_length_is_answered_as_ever() {
    let demand =
        json!({"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "r", "keys": ["*"], "format": "yaml"}]});
    let app = Cluster::new().policy("p", demand).app();
    for (value, refused) in [("a: &a [b]\nc: *a\n", false), ("a: &a [b]\nc: *d\n", true)] {
        let review = with_data("configmap-create", json!({"a": value}));
        let answer = app.send_value("/validate/policies", &review).await;
        assert_eq!(answer.status, StatusCode::OK);
        match refused {
            true => assert!(answer.refused(403, "Forbidden").contains("key a, line 2"), "{value}"),
            false => assert!(answer.allowed()["warnings"].is_null(), "{value}"),
        }
    }
}
