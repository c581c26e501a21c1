//! An upgrade that brought the binary and not the definitions.

use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, version};
use crate::bed::{Story, eventually, private, same};
use crate::other_writers::replaced;

const DEFINITION: &str = "configpolicies.copyrator.dev";
const FIELD: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits";

/// The API server drops what its definitions lack without a word; who looks for the reason finds it, and nobody is
/// locked out meanwhile.
#[test]
fn a_binary_newer_than_its_definitions_says_so_and_serves() {
    let bed = private("old-definitions");
    let patch = |operation: Value| {
        let patch = json!([operation]).to_string();
        bed.kubectl(&["patch", "crd", DEFINITION, "--type=json", "--patch", &patch], &Value::Null);
    };
    let all = bed.kubectl(&["get", "crd", DEFINITION, "--output=json"], &Value::Null);
    let all: Value = serde_json::from_str(&all).unwrap();
    patch(json!({ "op": "remove", "path": FIELD }));
    let crew = bed.man();
    let readiness = || crew.webhook.ask("/readyz").expect("the webhook answers");
    eventually("readiness names the field that is dropped", || {
        let (code, said) = readiness();
        let told = said.contains("definitions: the CustomResourceDefinitions are older than this binary")
            && said.contains("drops ConfigPolicy.spec.limits:");
        if code == 200 && told { Ok(()) } else { Err(format!("{code} {said}")) }
    });
    patch(json!({ "op": "add", "path": FIELD, "value": all.pointer(FIELD).unwrap() }));
    eventually("readiness has nothing to tell", || {
        let (code, said) = readiness();
        if (code, said.as_str()) == (200, "ready\n") { Ok(()) } else { Err(format!("{code} {said}")) }
    });
}

/// As when only the image was changed (`--set image.tag`), or the chart came with `crds.enabled=false`.
#[test]
fn this_version_runs_on_the_definitions_of_the_one_before() {
    let bed = private("earlier-definitions");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/previous/definitions.yaml");
    // The API server still writes what has become of those that came with the chart.
    let replace = || {
        let mut kubectl = bed.testbed.cluster().kubectl();
        kubectl.args(["replace", "--filename", file]);
        kubectl
    };
    replaced(replace, "");
    let crew = bed.man();
    let story = Story::new(&bed, "on-earlier");
    let target = story.target("a");
    eventually("readiness names what is dropped", || {
        let (code, said) = crew.reconciler.ask("/readyz").map_err(|error| error.to_string())?;
        let told = said.contains("the CustomResourceDefinitions are older than this binary")
            && said.contains("CopyratorRule.spec.source.prefer");
        if code == 200 && told { Ok(()) } else { Err(format!("{code} {said}")) }
    });

    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&config_map(&target, "wrong", [("url", "nonsense")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    story.deploy("web", &["app"]);
    bed.admin.create(&story.monitor(&["app"], Value::Null)).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    bed.admin.merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "2" } })).ok();
    story.until_restarted("web", &before);

    let spec = json!({ "match": {}, "data": [{ "name": "url", "keys": ["url"], "format": "url" }] });
    bed.admin.create(&story.policy(&["ConfigMap"], spec)).ok();
    let bad = config_map(&target, "bad", [("url", "nonsense")]);
    eventually("the policy judges", || match bed.admin.try_create(&bad).code {
        403 => Ok(()),
        other => Err(other.to_string()),
    });
    eventually("the policy tells what breaks it already", || {
        let policy = bed.admin.get("ConfigPolicy", "", "on-earlier").ok_or("it is gone")?;
        same(condition(&policy, "Degraded"), Some(("True".into(), "Violations".into())))
    });
    // What is dropped each time is no change: nobody who watches is woken.
    let stored = || version(&bed.admin.get("ConfigPolicy", "", "on-earlier").expect("the policy"));
    story.marker("once");
    let before = stored();
    story.until_later(6);
    story.marker("twice");
    assert_eq!(stored(), before, "the status is written again and again");
}
