//! However the installation goes, what it made for people stays.

use crate::bed::objects::{config_map, version};
use crate::bed::{Story, eventually, private};

/// `kubectl delete crd` looks like every rule being deleted, and must not be taken for it.
#[test]
fn deleting_the_crds_removes_no_copy() {
    let bed = private("teardown");
    let mut crew = bed.man();
    let story = Story::new(&bed, "bereft");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);
    for plural in ["copyratorrules", "configmonitors", "configpolicies"] {
        bed.admin.delete("CustomResourceDefinition", "", &format!("{plural}.copyrator.dev")).ok();
    }
    eventually("the CRDs are gone", || {
        let left = bed.admin.list("CustomResourceDefinition", "", "").len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
    // A removal would have begun with what the watches saw. A new reconciler knows nothing, and removes nothing.
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    eventually("the new reconciler says that a CRD is missing", || {
        let (code, body) = crew.reconciler.ask("/readyz").map_err(|error| error.to_string())?;
        if code == 503 && body.contains("copyratorrules") { Ok(()) } else { Err(format!("{code} {body}")) }
    });
    let still = bed.admin.get("ConfigMap", &target, "app").expect("a copy was removed with its CRD");
    assert_eq!(version(&still), version(&copy));

    // Helm puts everything back, and the copies are where they were.
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
    let mut helm = bed.testbed.cluster().helm().expect("helm is there");
    helm.args(["upgrade", "copyrator", chart, "--namespace", testbed::NAMESPACE, "--reuse-values"]);
    let output = helm.output().expect("helm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let uninstall = |bed: &crate::bed::Bed| {
        let mut helm = bed.testbed.cluster().helm().expect("helm is there");
        let output = helm.args(["uninstall", "copyrator", "--namespace", testbed::NAMESPACE]).output();
        let output = output.expect("helm runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    uninstall(&bed);
    eventually("the hooks go with the release", || {
        let left = bed.admin.list("ValidatingWebhookConfiguration", "", "").len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
    let still = bed.admin.get("ConfigMap", &target, "app").expect("uninstalling removed a copy");
    assert_eq!(version(&still), version(&copy));
}
