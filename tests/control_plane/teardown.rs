//! However the installation goes, what it made for people stays.

use serde_json::Value;

use crate::bed::objects::{annotation, as_saved, config_map, uid, version};
use crate::bed::{Bed, Story, eventually, private};

const RULES: &str = "copyratorrules.copyrator.dev";

/// `kubectl delete crd` looks like every rule being deleted, and must not be taken for it, whatever the grace. A rule that comes back
/// keeps its copies, and can be deleted then; those of a rule that does not are held until somebody decides.
#[test]
fn deleting_the_crds_removes_no_copy() {
    let bed = private("crds");
    let mut crew = bed.man();
    let [(target, copy), (lost_in, lost)] = ["bereft", "forsaken"].map(|name| copied(&bed, name));
    let home = "bereft-home";
    let record = bed.admin.record("ConfigMap", &copy);

    let saved = |kind, place, name| as_saved(bed.admin.get(kind, place, name).expect("it is there"));
    let definition = saved("CustomResourceDefinition", "", RULES);
    let rule = saved("CopyratorRule", home, "rule");
    bed.admin.delete("CustomResourceDefinition", "", RULES).ok();
    eventually("the kind is gone", || {
        bed.admin
            .get("CustomResourceDefinition", "", RULES)
            .map_or(Ok(()), |definition| Err(definition["status"].to_string()))
    });
    // Who saw the rules go goes on, and takes up the kind again where it comes back.
    bed.admin.create(&definition).ok();
    let uid_of_rules = uid(&bed.admin.get("CustomResourceDefinition", "", RULES).expect("it is back"));
    let story = Story::at_home(&bed, "bereft");
    eventually("rules are served, and taken", || {
        let answer = bed.admin.create(&marker(&story));
        if answer.code < 300 { Ok(()) } else { Err(answer.body.to_string()) }
    });
    story.until("ConfigMap", &target, "marker", [("seen", "yes")]);
    // Everything has been looked at with the rules that are there, and a grace of nothing.
    still_there(&bed, &target, &copy);
    still_there(&bed, &lost_in, &lost);
    let told = eventually("doctor says how many are held, and how they are let go", || {
        let output = bed.testbed.copyrator(&["doctor", "-n", testbed::NAMESPACE, "-o", "json"]).output();
        let report: Value = serde_json::from_slice(&output.expect("it runs").stdout).unwrap_or_default();
        let findings = report["findings"].as_array().cloned().unwrap_or_default();
        let held = findings.into_iter().find(|finding| finding["id"] == "copies-held");
        held.filter(|held| held["what"].to_string().contains("2 copies")).ok_or_else(|| report.to_string())
    });

    bed.admin.create(&rule).ok();
    let noted = eventually("that its rule is back is noted on the copy", || {
        let copy = bed.admin.get("ConfigMap", &target, "app").ok_or("it is gone")?;
        let under = annotation(&copy, "copyrator.dev/definition").map(str::to_owned);
        if under.as_ref() == Some(&uid_of_rules) { Ok(copy) } else { Err(copy["metadata"].to_string()) }
    });
    assert_eq!(uid(&noted), uid(&copy), "the copy was made anew");
    record.never_gone(&noted);
    still_there(&bed, &lost_in, &lost);

    // It is a rule like any other: deleted, it takes its copies along, also if who saw it come back is gone.
    drop(crew.reconciler);
    bed.release_lease();
    bed.admin.delete("CopyratorRule", home, "rule").ok();
    crew.reconciler = bed.reconciler(0);
    story.until_gone("ConfigMap", &target, "app");
    still_there(&bed, &lost_in, &lost);
    let command: Vec<&str> = told["fix"].as_str().expect("a command").split(' ').collect();
    assert_eq!(command[0], "kubectl", "{told}");
    bed.kubectl(&command[1..], &Value::Null);
    story.until_gone("ConfigMap", &lost_in, "app");

    bed.admin.create(&rule).ok();
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    for plural in ["copyratorrules", "configmonitors", "configpolicies", "copyratortemplates"] {
        bed.admin.delete("CustomResourceDefinition", "", &format!("{plural}.copyrator.dev")).ok();
    }
    until_none(&bed, "CustomResourceDefinition");
    // Who saw the rules go may not remove; nor may who starts afterwards and knows of none.
    still_there(&bed, &target, &copy);
    drop(crew.reconciler);
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    eventually("the new reconciler says that a CRD is missing", || {
        let (code, body) = crew.reconciler.ask("/readyz").map_err(|error| error.to_string())?;
        if code == 503 && body.contains("CopyratorRules") { Ok(()) } else { Err(format!("{code} {body}")) }
    });
    still_there(&bed, &target, &copy);
}

#[test]
fn uninstalling_takes_the_hooks_along_and_leaves_copies_and_rules() {
    let bed = private("uninstalled");
    let _crew = bed.man();
    let (target, copy) = copied(&bed, "left-behind");
    let mut helm = bed.testbed.cluster().helm().expect("helm is there");
    let output = helm.args(["uninstall", testbed::RELEASE, "--namespace", testbed::NAMESPACE]).output();
    let output = output.expect("helm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until_none(&bed, "ValidatingWebhookConfiguration");
    until_none(&bed, "MutatingWebhookConfiguration");
    still_there(&bed, &target, &copy);
    assert!(bed.admin.get("CopyratorRule", "left-behind-home", "rule").is_some(), "people's rules are gone");
}

/// A copy, removed at once if it were unwanted, and its namespace.
fn copied(bed: &Bed, name: &'static str) -> (String, Value) {
    let story = Story::new(bed, name);
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    (target, copy)
}

/// A rule whose copy shows that the operator has taken up rules again.
fn marker(story: &Story<'_>) -> Value {
    story.bed.admin.apply(&config_map(&story.home, "marker", [("seen", "yes")])).ok();
    let mut rule = story.rule("ConfigMap", &["marker"]);
    rule["metadata"]["name"] = "marker".into();
    rule
}

fn still_there(bed: &Bed, target: &str, copy: &Value) {
    let still = bed.admin.get("ConfigMap", target, "app").expect("a copy was removed");
    assert_eq!(version(&still), version(copy));
}

fn until_none(bed: &Bed, kind: &str) {
    eventually(&format!("every {kind} is gone"), || {
        let left = bed.admin.list(kind, "", "").len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
}
