//! What people are told where the operator has rights in some namespaces only, and they have no others either.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::NAMESPACE;

use crate::bed::objects::{binding, config_map, namespace, ours};
use crate::bed::{Bed, Story, eventually, namespaced};
use crate::namespaced::writers;
use crate::plan::{Said, run};

const HOME: &str = "told-home";
const PLACE: &str = "told-place";
/// Of the list, and not for everybody.
const CLOSED: &str = "told-closed";
/// Another namespace of the cluster, which is not of the list.
const OUTSIDE: &str = "told-outside";

/// Alice may everything in the namespaces of the list and in the operator's own, like a user who installs it, and nothing else.
#[test]
fn a_user_with_rights_in_those_namespaces_only_is_told_all_that_the_operator_does() {
    let bed = namespaced("namespaced_people", &[HOME, PLACE, CLOSED]);
    let (home, place) = (Story::at_home(&bed, "told"), Story::at_place(&bed, "told", PLACE));
    bed.admin.create(&namespace(OUTSIDE, &Default::default())).ok();
    bed.admin.create(&binding(NAMESPACE, "alice", "admin")).ok();
    for name in [HOME, PLACE, CLOSED] {
        for object in writers(name, "bob") {
            bed.admin.create(&object).ok();
        }
        bed.admin.create(&binding(name, "alice", "admin")).ok();
        bed.admin.create(&also_writers(name, "alice")).ok();
    }
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.admin.create(&config_map(HOME, "app", [("k", "1")])).ok();
    bed.bob.create(&rule("app", json!([{ "names": [PLACE] }]))).ok();
    home.until("ConfigMap", PLACE, "app", [("k", "1")]);
    home.until_condition("CopyratorRule", "app", "Ready", "True", "AllCopied");
    place.deploy("web", &["app"]);
    bed.alice.create(&place.monitor(&["app"], json!(null))).ok();
    let pod = place.until_running("web");
    place.until_adopted("web");
    place.until_condition("ConfigMonitor", "monitor", "Ready", "True", "Watching");
    place.until_older_than_now();

    let alice = kubeconfig(&bed, "alice");
    everything_is_in_order(&home, &alice);
    nobody_looks_outside(&home, &alice);
    a_file_is_planned_as_it_then_happens(&home, &alice);
    a_change_is_followed_to_its_restart(&home, &place, &alice, &pod);
    nothing_was_refused(&bed, "alice");
    a_user_who_may_not_read_the_settings_names_the_namespaces(&home);
    what_may_not_be_seen_is_said_once(&home, &alice);
    doctor_says_of_which_namespace_a_right_is_missing(&home, &alice);
    drop(reconciler);
}

fn everything_is_in_order(story: &Story<'_>, alice: &Path) {
    let said = told(story, alice, &["status", "-o", "json"], "");
    assert_eq!((said.code, said.notes.as_str()), (Some(0), ""), "{}", said.text);
    let rows = said.json()["items"].as_array().cloned().unwrap_or_default();
    let row = |kind: &str| rows.iter().find(|row| row["kind"] == kind).cloned().unwrap_or_default();
    let copy = &row("CopyratorRule")["copies"][0];
    assert_eq!((&copy["namespace"], &copy["state"]), (&json!(PLACE), &json!("Current")), "{}", said.text);
    let workload = &row("ConfigMonitor")["workloads"][0];
    assert_eq!((&workload["name"], &workload["state"]), (&json!("web"), &json!("Current")), "{}", said.text);

    for arguments in [&["status", "-A", "--wait"][..], &["status", "-n", PLACE]] {
        let said = told(story, alice, arguments, "");
        assert_eq!((said.code, said.notes.as_str()), (Some(0), ""), "{}", said.text);
    }
    let said = told(story, alice, &["status", "-n", PLACE, "-o", "name"], "");
    assert!(said.text.contains("copyratorrule.copyrator.dev/app"), "a copy of it is there: {}", said.text);

    let said = told(story, alice, &["plan"], "");
    assert_eq!((said.code, said.notes.as_str()), (Some(0), ""), "{}", said.text);
    assert!(said.text.starts_with("Nothing to do: 1 copy in order.\n"), "{}", said.text);

    let said = told(story, alice, &["why", "cm/app", "-n", PLACE, "-o", "json"], "");
    let made = &said.json()["madeBy"][0];
    assert_eq!(
        (&made["identity"], &made["action"]),
        (&json!("user bob"), &json!("current")),
        "{}",
        said.text
    );
    let said = told(story, alice, &["tree", "-q"], "");
    let tree = format!(
        "ConfigMap {HOME}/app\n└── ConfigMap {PLACE}/app, by {HOME}/app\n    └── Deployment {PLACE}/web\n"
    );
    assert_eq!((said.code, said.text), (Some(0), tree), "{}", said.notes);
    let said = told(story, alice, &["why-not", PLACE], "");
    assert_eq!(said.code, Some(0), "{}{}", said.text, said.notes);
    let said = told(story, alice, &["plan", "-l", "team=nobodys", "-o", "json"], "");
    assert_eq!(said.json()["rules"], json!([]), "{}{}", said.text, said.notes);
}

/// That a namespace is not served is another thing than that it is empty.
fn nobody_looks_outside(story: &Story<'_>, alice: &Path) {
    let not_served = format!("namespace {OUTSIDE} is not listed: this Copyrator reads only namespaces");
    for arguments in
        [&["why-not", OUTSIDE][..], &["why", "cm/app", "-n", OUTSIDE], &["tree", "cm/app", "-n", OUTSIDE]]
    {
        let said = told(story, alice, arguments, "");
        assert_eq!(said.code, Some(1), "{arguments:?}: {}", said.text);
        assert!((said.text + &said.notes).contains(&not_served), "{arguments:?}: {}", said.notes);
    }
    let said = told(story, alice, &["why-not", OUTSIDE, "-l", "team=nobodys"], "");
    assert_eq!(said.code, Some(1), "no rule is there to say it: {}", said.text);
    assert!(said.text.contains(&not_served), "{}{}", said.text, said.notes);
    let said = told(story, alice, &["plan", "-n", OUTSIDE], "");
    assert!(said.notes.contains(&not_served), "{}", said.notes);
}

/// By alice, with a target outside.
fn a_file_is_planned_as_it_then_happens(story: &Story<'_>, alice: &Path) {
    story.admin().create(&config_map(HOME, "more", [("k", "1")])).ok();
    let rule = rule("more", json!([{ "names": ["told-pl*", OUTSIDE] }]));
    let said = told(story, alice, &["plan", "-f", "-", "-o", "json"], &rule.to_string());
    let plan = said.json();
    assert_eq!((said.code, said.notes.as_str()), (Some(1), ""), "{}", said.text);
    let copies: Vec<_> = plan["copies"].as_array().into_iter().flatten().collect();
    assert_eq!(copies.len(), 1, "{plan}");
    assert_eq!((&copies[0]["namespace"], &copies[0]["action"]), (&json!(PLACE), &json!("create")), "{plan}");
    let rows: Vec<_> = plan["rules"].as_array().into_iter().flatten().collect();
    let row = rows.iter().find(|row| row["name"] == "more").expect("the rule of the file");
    assert_eq!((&row["authority"], &row["reason"]), (&json!("allowed"), &json!("NotServed")), "{plan}");

    story.bed.alice.create(&rule).ok();
    story.until("ConfigMap", PLACE, "more", [("k", "1")]);
    let seen = story.until_condition("CopyratorRule", "more", "Degraded", "True", "NotServed");
    assert_eq!(row["message"], seen["status"]["problems"][0]["message"], "{seen}");
    story.bed.alice.delete("CopyratorRule", HOME, "more").ok();
    story.until_gone("ConfigMap", PLACE, "more");

    // What alice may not do in a namespace of the list is refused with a Role that she lacks there, and the plan says it before.
    let elsewhere = ours(
        "CopyratorRule",
        OUTSIDE,
        "theirs",
        json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [PLACE] }] }),
    );
    let said = told(story, alice, &["plan", "-f", "-", "-o", "json"], &elsewhere.to_string());
    assert_eq!(said.json()["rules"][0]["reason"], "NotServed", "{}", said.text);
}

fn a_change_is_followed_to_its_restart(home: &Story<'_>, place: &Story<'_>, alice: &Path, pod: &str) {
    let changed = config_map(HOME, "app", [("k", "2")]);
    let said = told(home, alice, &["plan", "-f", "-", "-o", "json"], &changed.to_string());
    let plan = said.json();
    assert_eq!(plan["files"][0]["action"], "change", "{plan}{}", said.notes);
    assert_eq!(plan["copies"][0]["action"], "change", "{plan}");
    assert_eq!(
        (&plan["restarts"][0]["name"], &plan["restarts"][0]["action"]),
        (&json!("web"), &json!("restart")),
        "{plan}"
    );
    home.bed.alice.apply(&changed).ok();
    home.until("ConfigMap", PLACE, "app", [("k", "2")]);
    place.until_restarted("web", pod);
}

/// Bob may write in two of the namespaces, and knows nothing of the operator's own.
fn a_user_who_may_not_read_the_settings_names_the_namespaces(story: &Story<'_>) {
    let bob = kubeconfig(story.bed, "bob");
    let said = told(story, &bob, &["plan"], "");
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.notes.contains("list them with --namespaces"), "{}", said.notes);
    let list = [HOME, PLACE].join(",");
    let said = told(story, &bob, &["plan", "--namespaces", &list, "-o", "json"], "");
    let plan = said.json();
    assert_eq!(
        (&plan["summary"]["current"], &plan["copies"]),
        (&json!(1), &json!([])),
        "{plan}{}",
        said.notes
    );
    assert!(said.notes.contains("cannot verify which objects are copies"), "{}", said.notes);
}

fn what_may_not_be_seen_is_said_once(story: &Story<'_>, alice: &Path) {
    // Of the rules of there one brings something here.
    story.admin().create(&config_map(CLOSED, "theirs", [("k", "1")])).ok();
    let mut theirs = rule("theirs", json!([{ "names": [PLACE] }]));
    theirs["metadata"]["namespace"] = CLOSED.into();
    story.bed.bob.create(&theirs).ok();
    story.until("ConfigMap", PLACE, "theirs", [("k", "1")]);
    story.admin().delete("RoleBinding", CLOSED, "alice-writers").ok();
    for (command, others) in [("plan", "1 not known, 1 in order"), ("status", "1 of 1 copies")] {
        let said = eventually("alice is told what she may not see, and of the others", || {
            let said = told(story, alice, &[command], "");
            let is_told = said.notes.contains("cannot show") && said.text.contains(others);
            if is_told { Ok(said) } else { Err(said.text + &said.notes) }
        });
        assert_eq!(said.code, Some(1), "{}", said.text);
        assert_eq!(said.notes.matches(&format!("cannot show namespace {CLOSED}")).count(), 1);
        assert!(
            said.notes.contains("may not list configmonitors.copyrator.dev or copyratorrules.copyrator.dev"),
            "{}",
            said.notes
        );
        assert!(!said.notes.contains("clusterrole"), "a Role does: {}", said.notes);
    }
    for command in [&["plan"][..], &["status"], &["status", "--wait", "--timeout", "400s"]] {
        let said = told(story, alice, &[command, &["-n", PLACE]].concat(), "");
        assert_eq!(said.code, Some(0), "what is asked about is seen: {}{}", said.text, said.notes);
        assert!(said.text.contains("OutOfSight"), "{}", said.text);
    }
    // Its own words mend it.
    let said = told(story, alice, &["plan"], "");
    let fix = said.notes.lines().find_map(|line| line.split_once("; to allow it: ")).expect("a way out").1;
    for command in fix.split(" && ") {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let output = story.bed.testbed.cluster().kubectl().args(words).output().expect("kubectl runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    eventually("alice sees all of it again", || {
        let said = told(story, alice, &["plan"], "");
        if said.code == Some(0) && said.notes.is_empty() { Ok(()) } else { Err(said.text + &said.notes) }
    });
}

/// To a user who sees the whole cluster, and to alice, who sees these namespaces.
fn doctor_says_of_which_namespace_a_right_is_missing(story: &Story<'_>, alice: &Path) {
    // Once for each: the doctor looks for a quarter of a minute whether somebody renews the Lease.
    let findings = |who: Option<&Path>| -> Vec<Value> {
        let said = run(story, who, &["doctor", "-n", NAMESPACE, "-o", "json"], "");
        said.json()["findings"].as_array().cloned().unwrap_or_default()
    };
    let of = |findings: &[Value], id: &str| -> Vec<Value> {
        findings.iter().filter(|finding| finding["id"] == id).cloned().collect()
    };
    let (all, hers) = (findings(None), findings(Some(alice)));
    assert_eq!(of(&all, "right-missing"), [] as [Value; 0]);
    assert_eq!(of(&all, "right-too-many"), [] as [Value; 0]);
    assert_eq!(of(&hers, "right-missing"), [] as [Value; 0]);
    let unknown = of(&hers, "right-too-many");
    assert_eq!(unknown.len(), 1, "{unknown:#?}");
    assert_eq!(unknown[0]["severity"], "unknown", "{unknown:#?}");

    story.admin().delete("RoleBinding", PLACE, "copyrator").ok();
    for who in [None, Some(alice)] {
        let found = eventually("doctor finds the right that is missing, once RBAC has heard of it", || {
            let found = of(&findings(who), "right-missing");
            if found.len() == 1 { Ok(found) } else { Err(format!("{found:#?}")) }
        });
        let what = found[0]["what"].as_str().unwrap_or_default();
        for part in [
            format!("may not get namespaces/{PLACE}, "),
            format!(" in namespace {PLACE}, "),
            format!("Role {PLACE}/copyrator and the RoleBinding of that name"),
        ] {
            assert!(what.contains(&part), "{part:?} is missing in: {what}");
        }
        assert!(
            found[0]["fix"].as_str().is_some_and(|fix| fix.starts_with("helm upgrade copyrator ")),
            "{found:#?}"
        );
    }
}

fn nothing_was_refused(bed: &Bed, user: &str) {
    let requests = bed.requests();
    let refused: Vec<_> = requests.iter().filter(|it| it.user == user && it.code == 403).collect();
    assert!(refused.is_empty(), "it asked for what {user} may not: {refused:#?}");
    assert!(requests.iter().any(|it| it.user == user && it.verb == "list" && it.namespace == PLACE));
}

fn told(story: &Story<'_>, who: &Path, arguments: &[&str], input: &str) -> Said {
    let mut all = arguments.to_vec();
    all.extend(["--copyrator-namespace", NAMESPACE]);
    run(story, Some(who), &all, input)
}

fn kubeconfig(bed: &Bed, user: &str) -> PathBuf {
    bed.testbed.cluster().user(user).expect("a user of the cluster")
}

/// Binds the Role of the writers there to somebody else, too.
fn also_writers(place: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": { "namespace": place, "name": format!("{user}-writers") },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "writers" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }] })
}

fn rule(name: &str, targets: Value) -> Value {
    let source = json!({ "kind": "ConfigMap", "names": [name] });
    ours("CopyratorRule", HOME, name, json!({ "source": source, "targets": targets, "deletionGrace": "0s" }))
}
