//! `copyrator.dev/restart-pods` on a ConfigMap or Secret: a monitor without a kind of ours, under the same authority.

use serde_json::{Value, json};
use testbed::Role;

use crate::bed::objects::{annotation, binding, config_map, data, deployment, pod, secret, uid};
use crate::bed::{Story, eventually, peaceful, rough};

const RESTART_PODS: &str = "copyrator.dev/restart-pods";
const PODS_APPLIED: &str = "copyrator.dev/pods-applied";
const COPY_TO: &str = "copyrator.dev/copy-to";
const AUTHOR: &str = "copyrator.dev/author";
const AUTHORIZED: &str = "copyrator.dev/authorized";

fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object["metadata"]["labels"]["copyrator.dev/declares"] = "true".into();
    object
}

fn asking(story: &Story<'_>, name: &str) -> Value {
    annotated(config_map(&story.home, name, [("k", "1")]), json!({ RESTART_PODS: "app=web" }))
}

/// The seed's way: the pods of the labels are deleted, and nobody else's.
#[test]
fn a_user_with_the_right_has_exactly_the_pods_of_the_labels_deleted() {
    let story = Story::new(peaceful(), "asked-pods");
    story.admin().create(&binding(&story.home, "bob", "edit")).ok();
    bare(&story, "web-0", "web");
    bare(&story, "db-0", "db");
    let mut web = deployment(&story.home, "web", json!({}));
    web["spec"]["template"]["metadata"]["labels"]["of"] = "deployment".into();
    web["spec"]["selector"]["matchLabels"] = json!({ "of": "deployment" });
    story.admin().create(&web).ok();
    let of_deployment = || story.admin().list("Pod", &story.home, "of=deployment");
    let first = eventually("the Deployment runs", || match &of_deployment()[..] {
        [pod] if pod["status"]["phase"] == "Running" => Ok(uid(pod)),
        pods => Err(format!("{} pods", pods.len())),
    });
    eventually("bob writes it", || match story.bed.bob.create(&asking(&story, "app")) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
    let source = until_recorded(&story, "app");
    assert_eq!(annotation(&source, AUTHOR), Some("bob"));
    until_told(&story, "app", "Allowed");
    eventually("the Deployment is marked with the content", || {
        let web = story.admin().get("Deployment", &story.home, "web").ok_or("it is gone")?;
        web["metadata"]["labels"]["copyrator.dev/applied"]
            .as_str()
            .map(drop)
            .ok_or(web["metadata"].to_string())
    });
    story.until_older_than_now();

    change(&story, "app", "2");
    eventually("the bare pod goes, and the Deployment's is replaced", || {
        let bare = story.admin().get("Pod", &story.home, "web-0").is_none();
        let pods: Vec<String> = of_deployment().iter().map(uid).collect();
        if bare && pods.len() == 1 && pods[0] != first {
            Ok(())
        } else {
            Err(format!("{bare} {pods:?}, {first} before"))
        }
    });
    until_told(&story, "app", "Restarted");
    story.until_pods("db", &["db-0"]);
    let revisions = story.admin().list("ReplicaSet", &story.home, "of=deployment");
    assert_eq!(revisions.len(), 1, "a deletion is no rollout");
    // Taken back, it is nobody's business any more.
    bare(&story, "web-1", "web");
    eventually("what they run with is recorded", || {
        let source = story.admin().get("ConfigMap", &story.home, "app").ok_or("it is gone")?;
        let parts = annotation(&source, PODS_APPLIED).map_or(0, |record| record.split('.').count());
        if parts == 3 { Ok(()) } else { Err(source["metadata"].to_string()) }
    });
    let none = json!({ "metadata": { "annotations": { RESTART_PODS: null } } });
    story.admin().merge("ConfigMap", &story.home, "app", &none).ok();
    story.until_older_than_now();
    change(&story, "app", "3");
    story.marker("then");
    assert!(story.admin().get("Pod", &story.home, "web-1").is_some());
}

#[test]
fn a_user_without_the_right_is_refused() {
    let story = Story::new(peaceful(), "asked-in-vain");
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"] }]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": story.home, "name": "writer" }, "rules": rules,
    });
    story.admin().create(&role).ok();
    let mut bound = binding(&story.home, "alice", "writer");
    bound["roleRef"]["kind"] = "Role".into();
    story.admin().create(&bound).ok();
    let refusal = eventually("alice may write ConfigMaps, but not this one", || {
        let refusal = story.bed.alice.create(&asking(&story, "app")).refused();
        if refusal.contains("cannot create resource") { Err(refusal) } else { Ok(refusal) }
    });
    for part in ["user \"alice\" may not delete pods", &story.home, "kubectl create role"] {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    let of_all = annotated(secret(&story.home, "app", [("k", "1")]), json!({ RESTART_PODS: "" }));
    let refusal = story.bed.alice.create(&of_all).refused();
    assert!(refusal.contains("copyrator.dev/restart-pods: must not be empty"), "{refusal}");
    // A user who adds a wish to another's stands for both; content is nobody's business.
    let target = story.target("copies");
    let copied = annotated(config_map(&story.home, "copied", [("k", "1")]), json!({ COPY_TO: target }));
    story.admin().create(&copied).ok();
    let more = json!({ "metadata": { "annotations": { RESTART_PODS: "app=web" } } });
    let refusal = story.bed.alice.merge("ConfigMap", &story.home, "copied", &more).refused();
    assert!(refusal.contains("pods") && refusal.contains(&target), "{refusal}");
    let harmless = json!({ "data": { "k": "2" } });
    story.bed.alice.merge("ConfigMap", &story.home, "copied", &harmless).ok();
    story.until("ConfigMap", &target, "copied", [("k", "2")]);
}

#[test]
fn copies_and_restarts_of_one_object_are_proven_side_by_side_and_a_copy_asks_for_nothing() {
    let story = Story::new(peaceful(), "asked-both");
    let target = story.target("copies");
    bare(&story, "web-0", "web");
    story.until_older_than_now();
    let both = json!({ COPY_TO: target, RESTART_PODS: "app=web" });
    story.admin().create(&annotated(secret(&story.home, "app", [("k", "1")]), both)).ok();
    let copy = story.until("Secret", &target, "app", [("k", "1")]);
    for key in [RESTART_PODS, COPY_TO, PODS_APPLIED, AUTHOR, AUTHORIZED] {
        assert_eq!(annotation(&copy, key), None);
    }
    eventually("both proofs stand on it", || {
        let source = story.admin().get("Secret", &story.home, "app").ok_or("it is gone")?;
        let proofs = annotation(&source, AUTHORIZED).map_or(0, |proofs| proofs.split(',').count());
        let is_recorded = annotation(&source, PODS_APPLIED).is_some();
        if proofs == 2 && is_recorded { Ok(()) } else { Err(source["metadata"].to_string()) }
    });
    story.admin().merge("Secret", &story.home, "app", &json!({ "stringData": { "k": "2" } })).ok();
    story.until_pods("web", &[]);
    story.until("Secret", &target, "app", [("k", "2")]);
}

/// A GitOps controller has rights everywhere; a user who can commit to its repository has not.
#[test]
fn a_foreign_account_that_asks_for_restarts_is_told_why_nothing_happens() {
    let story = Story::new(peaceful(), "asked-gitops");
    let flux = story.bystander("flux");
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": flux, "name": "applier" } });
    story.admin().create(&account).ok();
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "asked-gitops" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": flux, "name": "applier" }],
    });
    story.admin().create(&grant).ok();
    let applier = story.bed.account(&flux, "applier");
    bare(&story, "web-0", "web");
    story.until_older_than_now();
    let warnings = eventually("it is accepted", || match applier.create(&asking(&story, "app")) {
        answer if answer.code < 300 => Ok(answer.warnings),
        answer => Err(answer.refused()),
    });
    assert!(warnings.iter().any(|warning| warning.contains("no effect")), "{warnings:?}");
    // Of a cluster that has just been installed something else is told first: its policies are not in force at once.
    let told = until_told_of(&story, "app", "IdentityRequired", "--trusted-writers");
    assert!(told.contains("ConfigMonitor"), "{told}");
    change(&story, "app", "2");
    story.marker("then");
    story.until_pods("web", &["web-0"]);
}

/// What was written while the hooks were off is no stronger; what was granted outlives its author and our restart; a
/// change while we are away is noticed; and with `--annotations=false` nothing of it counts.
#[test]
fn a_grant_to_restart_pods_outlives_its_author_and_our_own_restart() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "asked-restart");
    bed.admin.create(&binding(&story.home, "bob", "edit")).ok();
    bed.admin.create(&binding(&story.home, "alice", "writer")).ok();
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "writer" }, "rules": rules,
    });
    bed.admin.create(&role).ok();
    crew.webhook.kill();
    bed.unhook();
    for (person, name) in [(&bed.bob, "granted"), (&bed.alice, "refused")] {
        let app = if name == "granted" { "app=web" } else { "app=db" };
        let object = annotated(config_map(&story.home, name, [("k", "1")]), json!({ RESTART_PODS: app }));
        eventually("they write while nobody judges", || match person.create(&object) {
            answer if answer.code < 300 => Ok(()),
            answer => {
                // The reconciler may just have been about to write them.
                bed.unhook();
                Err(answer.refused())
            }
        });
    }
    bare(&story, "web-0", "web");
    bare(&story, "db-0", "db");
    until_recorded(&story, "granted");
    until_told(&story, "refused", "Forbidden");
    eventually("the grant stands on the object", || {
        let source = bed.admin.get("ConfigMap", &story.home, "granted").ok_or("it is gone")?;
        annotation(&source, AUTHORIZED).map(drop).ok_or_else(|| source["metadata"].to_string())
    });
    story.until_older_than_now();

    crew.reconciler.kill();
    bed.admin.delete("RoleBinding", &story.home, "bob-edit").ok();
    change(&story, "granted", "2");
    change(&story, "refused", "2");
    bed.release_lease();
    crew.reconciler = bed.testbed.operator(Role::Reconciler, 0, &["--annotations=false"]).expect("it starts");
    story.marker("without");
    assert!(bed.admin.get("Pod", &story.home, "web-0").is_some(), "annotations are off");
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    story.until_pods("web", &[]);
    story.marker("then");
    story.until_pods("db", &["db-0"]);
    crew.reconciler.kill();
}

fn bare(story: &Story<'_>, name: &str, app: &str) {
    story.admin().create(&pod(&story.home, name, &data([("app", app)]))).ok();
}

fn change(story: &Story<'_>, name: &str, value: &str) {
    story.admin().merge("ConfigMap", &story.home, name, &json!({ "data": { "k": value } })).ok();
}

/// Waits until it is written on the object what its pods run with.
#[track_caller]
fn until_recorded(story: &Story<'_>, name: &str) -> Value {
    eventually(&format!("it is recorded on {name} what its pods run with"), || {
        let source = story.admin().get("ConfigMap", &story.home, name).ok_or("it is gone")?;
        annotation(&source, PODS_APPLIED).ok_or_else(|| source["metadata"].to_string())?;
        Ok(source)
    })
}

/// Waits for an Event of this reason about an object in the story's home: its text.
#[track_caller]
fn until_told(story: &Story<'_>, name: &str, reason: &str) -> String {
    until_told_of(story, name, reason, "")
}

/// The same for one that has these words.
#[track_caller]
fn until_told_of(story: &Story<'_>, name: &str, reason: &str, words: &str) -> String {
    eventually(&format!("an Event tells {reason} {words} about {name}"), || {
        let events = story.admin().list("Event", &story.home, "");
        let about = events.iter().filter(|event| event["regarding"]["name"] == name);
        let mut notes =
            about.clone().filter(|event| event["reason"] == reason).filter_map(|it| it["note"].as_str());
        let text = notes.find(|note| note.contains(words)).map(str::to_owned);
        text.ok_or_else(|| about.map(|event| event["reason"].to_string()).collect::<Vec<_>>().join(", "))
    })
}
