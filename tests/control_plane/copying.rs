//! It appears: copies exist where a rule says, with the source's content.

use serde_json::json;

use crate::bed::objects::{annotation, config_map, data, label, namespace, ours, secret};
use crate::bed::{Crowd, Request, Story, eventually, peaceful, same};

/// Copyrator's own story: a labelled ConfigMap is copied into whatever namespace shows up.
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

#[test]
fn a_source_made_after_its_rule_is_copied() {
    let story = Story::new(peaceful(), "late");
    let target = story.target("a");
    story.admin().create(&story.rule("ConfigMap", &["late"])).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "False", "NoSource");
    story.admin().create(&config_map(&story.home, "late", [("k", "v")])).ok();
    story.until("ConfigMap", &target, "late", [("k", "v")]);
}

#[test]
fn a_relabelled_namespace_gets_copies_and_loses_them_again() {
    let story = Story::new(peaceful(), "relabelled");
    let place = story.bystander("place");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.marker("first");
    assert!(
        story.admin().get("ConfigMap", &place, "app").is_none(),
        "copied into a namespace that does not match"
    );

    let relabel = |value| {
        story.admin().merge("Namespace", "", &place, &json!({ "metadata": { "labels": { "story": value } } }))
    };
    relabel(json!("relabelled")).ok();
    story.until("ConfigMap", &place, "app", [("k", "v")]);
    relabel(json!(null)).ok();
    story.until_gone("ConfigMap", &place, "app");
}

#[test]
fn excluded_refusing_and_system_namespaces_are_never_targets() {
    let story = Story::new(peaceful(), "excluded");
    let (wanted, excluded) = (story.target("wanted"), story.target("legacy"));
    let refusing = story.called("refusing");
    let labels = data([("story", "excluded"), ("copyrator.dev/copies", "refuse")]);
    story.admin().create(&namespace(&refusing, &labels)).ok();
    story.admin().create(&config_map(&story.home, "unwelcome", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["unwelcome"]);
    rule["spec"]["targets"] = json!([
        { "namespaceSelector": story.selector() },
        { "names": ["kube-system", "kube-public", "copyrator-system", story.home] },
    ]);
    rule["spec"]["excludeTargets"] = json!(["*-legacy"]);
    story.admin().create(&rule).ok();

    story.until("ConfigMap", &wanted, "unwelcome", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    story.marker("then");
    let copies = story.admin().list("ConfigMap", "", "app.kubernetes.io/managed-by=copyrator");
    let places: Vec<_> = copies.iter().filter(|copy| copy["metadata"]["name"] == "unwelcome").collect();
    let places: Vec<_> = places.iter().filter_map(|copy| copy["metadata"]["namespace"].as_str()).collect();
    assert_eq!(places, [wanted.as_str()], "{excluded}, {refusing} and system namespaces take nothing");
}

/// A copied tracking label has Argo CD prune the copy (ClusterSecret#146, #150; config-syncer#509; replicator#151).
#[test]
fn a_copy_is_shaped_as_its_rule_says_and_carries_no_marks_of_other_tools() {
    let story = Story::new(peaceful(), "shaped");
    let target = story.target("a");
    let mut source = secret(&story.home, "tls", [("tls.crt", "public"), ("tls.key", "private")]);
    source["metadata"]["labels"] =
        json!({ "team": "blue", "app.kubernetes.io/instance": "argo", "other": "x" });
    source["metadata"]["annotations"] = json!({ "meta.helm.sh/release-name": "r", "example.com/note": "n" });
    story.admin().create(&source).ok();
    let mut rule = story.rule("Secret", &["tls"]);
    rule["spec"]["copy"] = json!({
        "name": "{name}-of-{namespace}", "kind": "ConfigMap",
        "keys": { "include": ["tls.crt"], "rename": { "tls.crt": "ca.crt" } },
        "labels": { "keep": ["team", "app.kubernetes.io/*"], "set": { "tier": "infra" } },
        "annotations": { "keep": ["*"] },
    });
    story.admin().create(&rule).ok();

    let copy = story.until("ConfigMap", &target, "tls-of-shaped-home", [("ca.crt", "public")]);
    assert_eq!(
        (label(&copy, "team"), label(&copy, "tier"), label(&copy, "other")),
        (Some("blue"), Some("infra"), None)
    );
    assert_eq!(label(&copy, "app.kubernetes.io/instance"), None);
    assert_eq!(annotation(&copy, "example.com/note"), Some("n"));
    assert_eq!(annotation(&copy, "meta.helm.sh/release-name"), None);
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

/// A rule that matches its own copies does not copy in circles (replicator#407, #319; config-syncer#474).
#[test]
fn a_copy_of_a_copy_is_never_made() {
    let story = Story::new(peaceful(), "chained");
    let (middle, end) = (story.target("middle"), story.bystander("end"));
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &middle, "app", [("k", "v")]);
    let spec =
        json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [end] }] });
    story.admin().create(&ours("CopyratorRule", &middle, "onwards", spec)).ok();
    story.marker("then");
    assert!(story.admin().get("ConfigMap", &end, "app").is_none(), "a copy was copied on");
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
