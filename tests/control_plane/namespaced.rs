//! Rights in some namespaces, and none over the cluster: the chart with `namespaces`, and the operator as its account.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{NAMESPACE, Role};

use crate::attacks::are_fended_off;
use crate::bed::objects::{binding, condition, config_map, namespace, ours};
use crate::bed::{Bed, Request, Story, eventually, namespaced};
use crate::rights::{Right, by_account, copies, pods, restarts, rights};

const HOME: &str = "some-home";
const PLACE: &str = "some-place";
/// Another namespace of the cluster, which is not among those.
const OUTSIDE: &str = "some-outside";

/// Rights that no request shows, and why they are needed all the same.
const UNSEEN: [(&str, &str); 2] = [
    ("override copyrator.dev/copies", "the policy copyrator-copies asks for it, inside of the API server"),
    ("list resourcequotas", "asked where a quota refuses a successor, which the story of all rights shows"),
];

#[test]
fn everything_is_done_with_roles_alone_and_nothing_is_asked_for_beyond_them() {
    let bed = namespaced("namespaced", &[HOME, PLACE]);
    let story = Story::at_home(&bed, "some");
    bed.admin.create(&namespace(OUTSIDE, &Default::default())).ok();
    for place in [HOME, PLACE] {
        relabel(&bed, place, json!({ "story": "some" }));
        for object in writers(place, "bob") {
            bed.admin.create(&object).ok();
        }
    }
    relabel(&bed, OUTSIDE, json!({ "story": "some" }));
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");

    targets_by_name(&story);
    targets_by_label(&story);
    the_changed_copy_restarts_what_uses_it(&story);
    copies(&story, PLACE);
    restarts(&story);
    pods(&story);
    every_right_is_used_and_none_is_lacking(&bed);
    are_fended_off(&story, PLACE, "by-name", "by-name");
    assert!(bed.admin.list("ConfigMap", OUTSIDE, "app.kubernetes.io/managed-by=copyrator").is_empty());

    // With everything in place a new process changes nothing.
    let before = bed.our_writes().len();
    reconciler.terminate().expect("it ends");
    let sweeping = bed.testbed.operator(Role::Reconciler, 0, &["--sweep-interval", "2s"]);
    let mut reconciler = sweeping.expect("the reconciler starts");
    reconciler.wait_ready().expect("the reconciler becomes ready again");
    bed.admin.apply(&config_map(HOME, "by-name", [("k", "last")])).ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "last")]);
    let writes: Vec<Request> = bed.our_writes().into_iter().skip(before).collect();
    let copies: Vec<&Request> = writes.iter().filter(|it| it.resource == "configmaps").collect();
    assert!(copies.iter().all(|it| it.name == "by-name"), "a restart of ours wrote: {copies:#?}");
    // Everything is listed anew and compared by content, namespace by namespace.
    eventually("the copies of each namespace are compared with their sources", || {
        let said = reconciler.log();
        let of = |place: &str, kind: &str| {
            let is_it = |line: &&str| {
                line.contains("compared the copies with their sources")
                    && line.contains(place)
                    && line.contains(kind)
            };
            said.lines().any(|line| is_it(&line))
        };
        let both = |place: &str| of(place, "kind=ConfigMap") && of(place, "kind=Secret");
        if both(HOME) && both(PLACE) { Ok(()) } else { Err(said.lines().rev().take(3).collect()) }
    });
    nothing_is_asked_for_beyond(&bed);
}

/// A user who edits a namespace, our kinds included: without a ClusterRole nothing aggregates them into `edit`.
pub(crate) fn writers(place: &str, user: &str) -> [Value; 3] {
    let meta = |name: &str| json!({ "namespace": place, "name": name });
    let group = "rbac.authorization.k8s.io";
    let api = format!("{group}/v1");
    let verbs = json!(["create", "get", "list", "patch", "update", "delete"]);
    let rule = json!({ "apiGroups": ["copyrator.dev"], "resources": ["copyratorrules", "configmonitors"], "verbs": verbs });
    [
        binding(place, user, "edit"),
        json!({ "apiVersion": api, "kind": "Role", "metadata": meta("writers"), "rules": [rule] }),
        json!({ "apiVersion": api, "kind": "RoleBinding", "metadata": meta("writers"),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "writers" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }] }),
    ]
}

fn relabel(bed: &Bed, name: &str, labels: Value) {
    bed.admin.merge("Namespace", "", name, &json!({ "metadata": { "labels": labels } })).ok();
}

fn rule(name: &str, targets: Value) -> Value {
    let source = json!({ "kind": "ConfigMap", "names": [name] });
    ours("CopyratorRule", HOME, name, json!({ "source": source, "targets": targets, "deletionGrace": "0s" }))
}

/// Written by bob, who may do nothing outside: nobody asks whether bob may.
fn targets_by_name(story: &Story<'_>) {
    let admin = story.admin();
    admin.create(&config_map(HOME, "by-name", [("k", "1")])).ok();
    story.bed.bob.create(&rule("by-name", json!([{ "names": [PLACE, OUTSIDE] }]))).ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "1")]);
    story.until_condition("CopyratorRule", "by-name", "Ready", "True", "AllCopied");
    let rule = story.until_condition("CopyratorRule", "by-name", "Degraded", "True", "NotServed");
    let problem = &rule["status"]["problems"][0];
    assert_eq!(problem["namespace"], OUTSIDE, "{problem}");
    let message = problem["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("reads only namespaces {HOME}, {PLACE}")), "{message}");
    assert_eq!(rule["status"]["identity"], "user bob");

    // A copy that somebody changed or took away is put right.
    let spoil = json!({ "data": { "k": "spoilt", "more": "x" } });
    admin.merge("ConfigMap", PLACE, "by-name", &spoil).ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "1")]);
    admin.delete("ConfigMap", PLACE, "by-name").ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "1")]);
    // Whom the policy does not let, it does not let: it holds with a Role's right to override, too.
    let refusal = story.bed.bob.merge("ConfigMap", PLACE, "by-name", &spoil).refused();
    assert!(refusal.contains("is a copy that Copyrator keeps"), "{refusal}");

    // Its source gone, it goes after its grace; the source back, it is there again.
    admin.delete("ConfigMap", HOME, "by-name").ok();
    story.until_gone("ConfigMap", PLACE, "by-name");
    admin.create(&config_map(HOME, "by-name", [("k", "2")])).ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "2")]);
}

/// A namespace can be read by its name with a Role in it, labels and all.
fn targets_by_label(story: &Story<'_>) {
    story.admin().create(&config_map(HOME, "by-label", [("k", "v")])).ok();
    let targets = json!([{ "namespaceSelector": { "matchLabels": { "story": "some" },
        "matchExpressions": [{ "key": "closed", "operator": "DoesNotExist" }] } }]);
    story.bed.bob.create(&rule("by-label", targets)).ok();
    story.until("ConfigMap", PLACE, "by-label", [("k", "v")]);
    let seen = story.until_condition("CopyratorRule", "by-label", "Ready", "True", "AllCopied");
    let conditions = seen["status"]["conditions"].to_string();
    assert!(conditions.contains(&format!("reads only namespaces {HOME}, {PLACE}")), "{conditions}");
    assert!(condition(&seen, "Degraded").is_none_or(|(status, _)| status == "False"), "{conditions}");
    relabel(story.bed, PLACE, json!({ "closed": "yes" }));
    story.until_gone("ConfigMap", PLACE, "by-label");
    relabel(story.bed, PLACE, json!({ "closed": null }));
    story.until("ConfigMap", PLACE, "by-label", [("k", "v")]);

    // Where it must not: what is outside is no source either, and nothing is guessed.
    let mut outside = rule("by-label", json!([{ "names": [PLACE] }]));
    outside["metadata"]["name"] = "from-outside".into();
    outside["spec"]["source"]["namespaces"] = json!([OUTSIDE]);
    story.bed.bob.create(&outside).ok();
    let seen = story.until_condition("CopyratorRule", "from-outside", "Ready", "False", "NotServed");
    assert!(seen["status"]["conditions"].to_string().contains("namespace of the sources"), "{seen}");
    story.until_condition("CopyratorRule", "from-outside", "Stalled", "True", "NotServed");
}

fn the_changed_copy_restarts_what_uses_it(story: &Story<'_>) {
    let place = Story::at_place(story.bed, "some", PLACE);
    place.deploy("web", &["by-name"]);
    let wants = json!({ "metadata": { "annotations": { "copyrator.dev/restart": "true" } } });
    story.admin().merge("Deployment", PLACE, "web", &wants).ok();
    let pod = place.until_running("web");
    place.until_adopted("web");
    place.until_older_than_now();
    story.admin().apply(&config_map(HOME, "by-name", [("k", "3")])).ok();
    story.until("ConfigMap", PLACE, "by-name", [("k", "3")]);
    place.until_restarted("web", &pod);
}

fn every_right_is_used_and_none_is_lacking(bed: &Bed) {
    let rights = rights(bed);
    let places: BTreeSet<Option<&str>> = rights.iter().map(|right| right.namespace.as_deref()).collect();
    assert_eq!(
        places,
        [Some(NAMESPACE), Some(HOME), Some(PLACE)].into(),
        "a right over the cluster: {rights:?}"
    );
    let accounts: BTreeSet<&str> = rights.iter().map(|right| &*right.account).collect();
    assert_eq!(accounts, ["copyrator-reconciler"].into());
    let is_unseen = |right: &Right| UNSEEN.iter().any(|(what, _)| *what == right.brief());
    eventually("every right has been used, in one of the namespaces at least", || {
        let requests = by_account(bed);
        let used: BTreeSet<(bool, String)> = rights
            .iter()
            .filter(|right| right.is_used(&requests))
            .map(|right| (right.namespace.as_deref() == Some(NAMESPACE), right.brief()))
            .collect();
        let is_used =
            |right: &&Right| used.contains(&(right.namespace.as_deref() == Some(NAMESPACE), right.brief()));
        let unused: Vec<String> = rights
            .iter()
            .filter(|right| !is_unseen(right) && !is_used(right))
            .map(|right| format!("\n    {right}"))
            .collect();
        if unused.is_empty() { Ok(()) } else { Err(format!("rights that nothing uses:{}", unused.concat())) }
    });
    nothing_is_asked_for_beyond(bed);
}

fn nothing_is_asked_for_beyond(bed: &Bed) {
    let requests = by_account(bed);
    let all: Vec<&Request> = requests.values().flatten().collect();
    let forbidden: Vec<&&Request> = all.iter().filter(|it| it.is_forbidden() || it.code == 403).collect();
    assert!(forbidden.is_empty(), "a right is missing: {forbidden:#?}");
    let elsewhere: Vec<&&Request> = all
        .iter()
        .filter(|it| !it.resource.is_empty() && ![NAMESPACE, HOME, PLACE].contains(&&*it.namespace))
        .collect();
    assert!(elsewhere.is_empty(), "it looked elsewhere: {elsewhere:#?}");
}
