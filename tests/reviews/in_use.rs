//! Policies about the cluster around an object: what workloads use is not taken from them, and who reaches far is told.

use copyrator::{
    model::{NamespaceFacts, WorkloadFacts, World},
    names::Kind,
};
use serde_json::{Value, json};

use super::harness::{App, Cluster, recorded};

fn keeps() -> Value {
    json!({"match": {"kinds": ["ConfigMap", "Secret"]}, "whileInUse": "Refuse"})
}

fn each_workload(world: &mut World, edit: impl Fn(&mut WorkloadFacts)) {
    for key in world.workloads().keys().cloned().collect::<Vec<_>>() {
        world.edit_workload(&key, &edit);
    }
}

/// Has every workload use these keys only.
fn using(mut cluster: Cluster, keys: &[&str]) -> Cluster {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    each_workload(&mut cluster.world, |facts| {
        facts.references.iter_mut().for_each(|reference| reference.keys = Some(keys.clone()));
    });
    cluster
}

/// The recorded update of a ConfigMap, with these keys taken away.
fn without(keys: &[&str]) -> Value {
    let mut review = recorded("configmap-update");
    let data = review["request"]["object"]["data"].as_object_mut().unwrap();
    keys.iter().for_each(|key| drop(data.remove(*key)));
    review
}

/// The recorded deletion of a ConfigMap, of a Secret `db`.
fn secret_deleted() -> Value {
    let mut review = recorded("configmap-delete");
    let old = recorded("secret-update")["request"]["oldObject"].clone();
    review["request"]["oldObject"] = old;
    for kind in ["kind", "requestKind"] {
        review["request"][kind]["kind"] = json!("Secret");
    }
    review["request"]["name"] = json!("db");
    review
}

async fn passes(app: &App, review: &Value) {
    let response = app.send_value("/validate/policies", review).await.allowed();
    assert!(response["warnings"].is_null(), "{response}");
}

#[tokio::test]
async fn what_a_workload_uses_is_not_deleted() {
    let mut cluster = Cluster::new().policy("keeps", keeps());
    for name in ["d", "c", "b", "a", "e"] {
        cluster = cluster.deployment("shop", name, Kind::ConfigMap, "web");
    }
    let cluster = cluster.deployment("team-b", "elsewhere", Kind::ConfigMap, "web");
    let app = cluster.deployment("shop", "other", Kind::Secret, "web").app();
    let told = "policy keeps, rule whileInUse: ConfigMap shop/web: is used by Deployment a, Deployment b, Deployment c and \
                2 more and would be deleted; remove it from their pod templates first, or delete the workloads";
    let mut dry = recorded("configmap-delete");
    dry["request"]["dryRun"] = json!(true);
    // A deletion of many has no name in the request.
    for review in [recorded("configmap-delete"), dry, recorded("configmap-delete-collection")] {
        let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
        assert_eq!(message, told);
    }
    let audit =
        app.send("/validate/policies", "configmap-delete").await.response()["auditAnnotations"].clone();
    assert_eq!(audit, json!({"verdict": "refused", "violations": "keeps/whileInUse"}));
    let message = app.send("/validate/policies/keeps", "configmap-delete").await.refused(403, "Forbidden");
    assert_eq!(message, told);
    passes(&app, &secret_deleted()).await;
}

#[tokio::test]
async fn a_key_that_a_workload_uses_is_not_removed() {
    let cluster = Cluster::new().policy("keeps", keeps()).deployment("shop", "a", Kind::ConfigMap, "web");
    let app = using(cluster, &["min", "max"]).app();
    let message = app.send_value("/validate/policies", &without(&["min", "url"])).await;
    let message = message.refused(403, "Forbidden");
    assert!(
        message.contains("ConfigMap shop/web, key min: is used by Deployment a and would be removed"),
        "{message}"
    );
    passes(&app, &without(&["url"])).await;
    passes(&app, &without(&[])).await;
    // A workload that uses it as a whole uses every key.
    let app = Cluster::new().policy("keeps", keeps()).deployment("shop", "a", Kind::ConfigMap, "web").app();
    let removed = without(&["min", "url", "max", "schema-version"]);
    let message = app.send_value("/validate/policies", &removed).await.refused(403, "Forbidden");
    assert!(message.contains("key max, min, schema-version and 1 more: is used by"), "{message}");
}

#[tokio::test]
async fn a_secret_in_use_is_kept_also_where_images_are_pulled_with_it() {
    let cluster = || Cluster::new().policy("keeps", keeps());
    let app = cluster().deployment("shop", "a", Kind::Secret, "db").app();
    let message = app.send_value("/validate/policies", &secret_deleted()).await.refused(403, "Forbidden");
    assert!(message.contains("Secret shop/db: is used by Deployment a"), "{message}");
    let mut pulled = cluster().deployment("shop", "a", Kind::Secret, "other");
    each_workload(&mut pulled.world, |facts| facts.pull_secrets = ["db".into()].into());
    pulled.app().send_value("/validate/policies", &secret_deleted()).await.refused(403, "Forbidden");
    // A password that changes is no removal.
    let app = cluster().deployment("shop", "a", Kind::Secret, "db").app();
    passes(&app, &recorded("secret-update")).await;
}

/// Else a namespace could not be emptied, a copy not be taken back, and nothing half deleted ever go.
#[tokio::test]
async fn what_goes_anyway_is_let_go() {
    let cluster = || Cluster::new().policy("keeps", keeps()).deployment("shop", "a", Kind::ConfigMap, "web");
    let deleted = recorded("configmap-delete");
    let mut terminating = cluster();
    let shop = NamespaceFacts { terminating: true, ..terminating.world.namespaces()["shop"].clone() };
    terminating.world.set_namespace("shop".into(), shop);
    passes(&terminating.app(), &deleted).await;
    let mut leaving = deleted.clone();
    leaving["request"]["oldObject"]["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:12:33Z");
    passes(&cluster().app(), &leaving).await;
    let mut gone = cluster();
    each_workload(&mut gone.world, |facts| facts.deleting = true);
    passes(&gone.app(), &deleted).await;
    let mut copy = deleted.clone();
    let metadata = &mut copy["request"]["oldObject"]["metadata"];
    let rule = copyrator::marks::rule_label(&copyrator::names::Declarer::rule("a", "b"));
    metadata["labels"] = json!({"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": rule});
    metadata["annotations"] =
        json!({"copyrator.dev/mark": "k.m", "copyrator.dev/rule": "a/b", "copyrator.dev/source": "a/web"});
    copy["request"]["userInfo"]["username"] = json!("system:serviceaccount:copyrator-system:copyrator");
    passes(&cluster().app(), &copy).await;
    // The webhook may have no key to verify marks with. Who may delete a copy is for the API server's policy to say, which
    // also refuses forged marks; half of them are none.
    copy["request"]["userInfo"]["username"] = json!("alice");
    passes(&cluster().app(), &copy).await;
    // Nor does that policy guard an object whose marks belong to another one.
    let mut bystander = copy.clone();
    bystander["request"]["oldObject"]["metadata"]["annotations"]["copyrator.dev/object"] =
        json!("configmaps/shop/other");
    cluster().app().send_value("/validate/policies", &bystander).await.refused(403, "Forbidden");
    copy["request"]["oldObject"]["metadata"]["labels"] = json!({});
    cluster().app().send_value("/validate/policies", &copy).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_policy_that_only_warns_lets_go_what_is_in_use() {
    let mut policy = keeps();
    policy["validationActions"] = json!(["Warn"]);
    let app = Cluster::new().policy("keeps", policy).deployment("shop", "a", Kind::ConfigMap, "web").app();
    let response = app.send("/validate/policies", "configmap-delete").await.allowed();
    assert!(response["warnings"][0].as_str().unwrap().contains("is used by Deployment a"), "{response}");
    let app = Cluster::new()
        .policy("other", json!({"match": {"kinds": ["ConfigMap"]}, "data": [{"name": "url", "keys": ["url"], "required": true}]}))
        .deployment("shop", "a", Kind::ConfigMap, "web")
        .app();
    passes(&app, &recorded("configmap-delete")).await;
}

#[tokio::test]
async fn a_write_that_reaches_further_than_a_policy_likes_is_warned_of() {
    let rule = |kind: &str, name: &str| json!({"source": {"kind": kind, "names": [name]}, "targets": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]});
    let watch = json!({"watch": [{"kind": "ConfigMap", "names": ["*"]}, {"kind": "Secret", "names": ["*"]}]});
    let acting = |above: Value, actions: Value| {
        Cluster::new()
            .policy("far", json!({"match": {"kinds": ["ConfigMap", "Secret"]}, "warnAbove": above, "validationActions": actions}))
            .rule("shop", "configs", rule("ConfigMap", "web"))
            .rule("shop", "secrets", rule("Secret", "db"))
            .monitor("team-b", "all", watch.clone())
            .monitor("shop", "all", watch.clone())
            .deployment("team-b", "a", Kind::ConfigMap, "web")
            .deployment("shop", "b", Kind::ConfigMap, "web")
            .app()
    };
    let cluster = |above| acting(above, json!(["Deny"]));
    let told = async |app: &App, review: &str| app.send("/validate/policies", review).await.warnings();
    let both = "copyrator: this write reaches 3 copies (above 2) and 2 restarts (above 1), policy far";
    assert_eq!(told(&cluster(json!({"copies": 2, "restarts": 1})), "configmap-update").await, [both]);
    let copies = "copyrator: this write reaches 3 copies (above 2), policy far";
    let app = cluster(json!({"copies": 2, "restarts": 2}));
    assert_eq!(told(&app, "configmap-update").await, [copies]);
    let response = app.send("/validate/policies", "configmap-update").await.allowed();
    assert_eq!(response["auditAnnotations"], json!({"verdict": "allowed", "reach": "far"}));
    assert_eq!(told(&app, "secret-update").await, [copies], "a Secret's values are in no answer");
    let audited = acting(json!({"copies": 2}), json!(["Audit"]));
    let response = audited.send("/validate/policies", "configmap-update").await.allowed();
    assert!(response["warnings"].is_null(), "{response}");
    assert_eq!(response["auditAnnotations"]["reach"], "far");
    // Written for the first time it restarts nobody, and a write of no content reaches nobody.
    let app = cluster(json!({"copies": 2, "restarts": 0}));
    assert_eq!(told(&app, "configmap-create").await, [copies]);
    assert_eq!(told(&app, "configmap-update-finalizers").await, [""; 0]);
    assert_eq!(told(&cluster(json!({"copies": 3, "restarts": 2})), "configmap-update").await, [""; 0]);
    let mut dry = recorded("configmap-update");
    dry["request"]["dryRun"] = json!(true);
    let warnings = cluster(json!({"copies": 2})).send_value("/validate/policies", &dry).await.warnings();
    assert_eq!(warnings, [copies]);
}

#[tokio::test]
async fn a_policy_that_asks_for_reach_of_what_reaches_nobody_is_refused() {
    let app = Cluster::new().app();
    let sent = async |spec: Value| {
        let mut review = recorded("policy-create");
        review["request"]["object"]["spec"] = spec;
        app.send_value("/validate/own-kinds", &review).await
    };
    let namespaces =
        json!({"match": {"kinds": ["Namespace"]}, "whileInUse": "Refuse", "warnAbove": {"copies": 1}});
    let message = sent(namespaces).await.refused(422, "Invalid");
    for field in [
        "spec.warnAbove: applies only to ConfigMaps and Secrets",
        "spec.whileInUse: applies only to ConfigMaps and Secrets",
    ] {
        assert!(message.contains(field), "{message}");
    }
    let message = sent(json!({"match": {"kinds": ["Secret"]}, "warnAbove": {"copies": -1}})).await;
    assert!(message.refused(422, "Invalid").contains("spec.warnAbove.copies: is negative"));
    let message = sent(json!({"match": {"kinds": ["Secret"]}, "warnAbove": {}})).await;
    assert!(message.refused(422, "Invalid").contains("spec.warnAbove: has no limit"));
    for alone in [json!({"whileInUse": "Refuse"}), json!({"warnAbove": {"restarts": 0}})] {
        let mut spec = alone;
        spec["match"] = json!({"kinds": ["Secret"]});
        sent(spec).await.allowed();
    }
}

/// Sources that the webhook does not know are not passed over in silence.
#[tokio::test]
async fn a_capped_index_is_said_to_be_capped() {
    let rule =
        json!({"source": {"kind": "ConfigMap", "names": ["web"]}, "targets": [{"namespaceSelector": {}}]});
    for (omitted, told) in [(false, "1 object"), (true, "at least 1 object")] {
        let mut cluster = Cluster::new().rule("platform", "configs", rule.clone());
        cluster.world.set_sources_omitted(omitted);
        let warnings = cluster.app().send("/validate/warnings", "namespace-create").await.warnings();
        assert_eq!(warnings, [format!("copyrator: {told} will be created in this namespace (1 rule)")]);
    }
    let mut unknown = Cluster::new();
    unknown.world.set_sources_omitted(true);
    assert!(unknown.app().send("/validate/warnings", "namespace-create").await.warnings().is_empty());
}
