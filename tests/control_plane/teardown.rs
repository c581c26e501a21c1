//! However the installation goes, what it made for people stays.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, as_saved, config_map, uid, version};
use crate::bed::{Bed, Story, eventually, private};

const RULES: &str = "copyratorrules.copyrator.dev";

/// `kubectl delete crd` looks like every rule being deleted, and must not be taken for it. When the kind and the rules
/// come back, from a backup say, everything is as before.
#[test]
fn deleting_the_crds_removes_no_copy() {
    let bed = private("crds");
    let mut crew = bed.man();
    let (target, copy) = copied(&bed, "bereft");
    let home = "bereft-home";
    // Between the kind's return and the rules' nobody wants the copies: that is what the grace is for.
    let copy = with_grace(&bed, home, &target, &copy, "5m");
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
    eventually("rules are served, and taken", || {
        let answer = bed.admin.create(&rule);
        if answer.code < 300 { Ok(()) } else { Err(answer.body.to_string()) }
    });
    bed.admin.apply(&config_map(home, "app", [("k", "2")])).ok();
    let copy = eventually("the copy follows its source again", || {
        let copy = bed.admin.get("ConfigMap", &target, "app").ok_or("it is gone")?;
        let leaves = annotation(&copy, "copyrator.dev/remove-after").is_some();
        if copy["data"]["k"] == "2" && !leaves { Ok(copy) } else { Err(copy.to_string()) }
    });
    let copy = with_grace(&bed, home, &target, &copy, "0s");

    for plural in ["copyratorrules", "configmonitors", "configpolicies"] {
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
    record.never_gone(&copy);
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

/// The copy, once it carries another grace of its rule.
fn with_grace(bed: &Bed, home: &str, target: &str, copy: &Value, grace: &str) -> Value {
    bed.admin.merge("CopyratorRule", home, "rule", &json!({ "spec": { "deletionGrace": grace } })).ok();
    eventually("the copy carries the grace", || {
        let now = bed.admin.get("ConfigMap", target, "app").ok_or("it is gone")?;
        let says = annotation(&now, "copyrator.dev/on-removal").unwrap_or_default().to_owned();
        if says == format!("Delete/{grace}") && uid(&now) == uid(copy) { Ok(now) } else { Err(says) }
    })
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
