//! It appears: copies exist where a rule says, with the source's content.

use serde_json::json;

use crate::bed::objects::{annotation, config_map, data, label, secret};
use crate::bed::{Crowd, Request, Story, eventually, peaceful, same};

/// Copyrator's own story: a labelled ConfigMap is copied into whatever namespace shows up, for as long as its rule selects that.
#[test]
fn a_new_namespace_gets_the_labelled_config_maps() {
    let story = Story::new(peaceful(), "labelled");
    let mut source = config_map(&story.home, "settings", [("colour", "blue")]);
    source["metadata"]["labels"] = json!({ "copyrator": "true" });
    story.admin().create(&source).ok();
    story.admin().create(&config_map(&story.home, "private", [("colour", "red")])).ok();
    let mut rule = story.rule("ConfigMap", &[]);
    rule["spec"]["source"] =
        json!({ "kind": "ConfigMap", "objectSelector": { "matchLabels": { "copyrator": "true" } } });
    story.admin().create(&rule).ok();

    let target = story.target("new");
    let copy = story.until("ConfigMap", &target, "settings", [("colour", "blue")]);
    assert_eq!(label(&copy, "app.kubernetes.io/managed-by"), Some("copyrator"));
    assert_eq!(label(&copy, "copyrator"), None, "no label is carried over by default");
    assert_eq!(annotation(&copy, "copyrator.dev/source"), Some(&*format!("{}/settings", story.home)));
    assert_eq!(annotation(&copy, "copyrator.dev/rule"), Some(&*format!("{}/rule", story.home)));
    assert!(copy["metadata"]["finalizers"].is_null(), "a finalizer is on {copy}");
    assert!(story.admin().get("ConfigMap", &target, "private").is_none(), "an unlabelled source was copied");
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");

    let unlabelled = json!({ "metadata": { "labels": { "story": null } } });
    story.admin().merge("Namespace", "", &target, &unlabelled).ok();
    story.until_gone("ConfigMap", &target, "settings");
}

/// The other half of it: a changed source updates every copy.
#[test]
fn a_changed_source_changes_every_copy_and_takes_away_dropped_keys() {
    let story = Story::new(peaceful(), "changed");
    let targets = ["a", "b", "c"].map(|part| story.target(part));
    story.admin().apply(&secret(&story.home, "registry", [("user", "u"), ("password", "1")])).ok();
    story.admin().create(&story.rule("Secret", &["reg*"])).ok();
    for target in &targets {
        story.until("Secret", target, "registry", [("user", "u"), ("password", "1")]);
    }
    story.admin().apply(&secret(&story.home, "registry", [("password", "2"), ("token", "t")])).ok();
    for target in &targets {
        story.until("Secret", target, "registry", [("password", "2"), ("token", "t")]);
    }
}

/// Helm's releases and tokens of accounts are of their namespace; copying them breaks Helm and lends rights.
/// Nor is what Kubernetes itself puts into every namespace (HNC#241).
#[test]
fn helm_releases_and_account_tokens_are_never_copied() {
    let story = Story::new(peaceful(), "private");
    let target = story.target("a");
    for (name, kind) in [("release", "helm.sh/release.v1"), ("plain", "Opaque")] {
        let mut source = secret(&story.home, name, [("k", "v")]);
        source["type"] = kind.into();
        story.admin().create(&source).ok();
    }
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": story.home, "name": "robot" } });
    story.admin().create(&account).ok();
    let mut token = secret(&story.home, "token", []);
    token["type"] = "kubernetes.io/service-account-token".into();
    token["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "robot" });
    story.admin().create(&token).ok();
    let mut rule = story.rule("Secret", &["*"]);
    rule["spec"]["source"] = json!({ "kind": "Secret", "objectSelector": {} });
    story.admin().create(&rule).ok();

    story.until("Secret", &target, "plain", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let names: Vec<_> = story
        .admin()
        .list("Secret", &target, "")
        .into_iter()
        .map(|it| it["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["plain"]);
    // Of all ConfigMaps, kube-root-ca.crt among them, one is a source.
    story.admin().create(&config_map(&story.home, "plain", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["*"]);
    rule["metadata"]["name"] = "config-maps".into();
    story.admin().create(&rule).ok();
    story.until("ConfigMap", &target, "plain", [("k", "v")]);
    let rule = story.until_condition("CopyratorRule", "config-maps", "Ready", "True", "AllCopied");
    assert_eq!(rule["status"]["sources"], 1);
}

/// A namespace that goes in the middle of a fan-out is nobody's trouble: not the other targets', which get theirs, and
/// not the API server's, which is not asked again and again (deckhouse#5280: 59 failures and a blocked queue;
/// educates#323).
#[test]
fn namespaces_deleted_in_a_fan_out_hold_up_nobody() {
    const TARGETS: usize = 20;
    let crowd = Crowd::new(peaceful(), "going", TARGETS);
    let (story, admin) = (&crowd.story, crowd.story.admin());
    let going: Vec<String> = (0..4).map(|number| story.called(&format!("{:02}", 5 * number))).collect();
    let before = story.bed.requests().len();
    admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    admin.create(&story.rule("ConfigMap", &["app"])).ok();
    admin.delete("Namespace", "", &going[0]).ok();
    admin.delete("Namespace", "", &going[1]).ok();
    crowd.until_some_hold(&data([("k", "1")]), 1);
    admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    admin.delete("Namespace", "", &going[2]).ok();
    admin.delete("Namespace", "", &going[3]).ok();
    let wanted = data([("k", "2")]);
    crowd.until_some_hold(&wanted, TARGETS - going.len());
    going.iter().for_each(|place| story.until_gone("Namespace", "", place));
    // That all is copied it may have said before the last of them went, too.
    eventually("the rule speaks of those that are left", || {
        let status =
            story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied")["status"].take();
        same(&status["desired"], &json!(TARGETS - going.len()))?;
        same(&status["problemCount"], &json!(0)).map_err(|_| status.to_string())
    });
    for place in &going {
        let ours = |it: &&Request| {
            it.namespace == *place && it.resource == "configmaps" && it.verb == "patch" && it.code >= 400
        };
        let refused = story.bed.requests().split_off(before).iter().filter(ours).count();
        assert!(refused <= 2, "{place}: it was tried {refused} times");
    }
}
