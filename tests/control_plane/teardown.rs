//! However the installation goes, what it made for people stays.

use serde_json::Value;

use crate::bed::objects::{config_map, version};
use crate::bed::{Bed, Story, eventually, private};

/// `kubectl delete crd` looks like every rule being deleted, and must not be taken for it.
#[test]
fn deleting_the_crds_removes_no_copy() {
    let bed = private("crds");
    let mut crew = bed.man();
    let (target, copy) = copied(&bed, "bereft");
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
