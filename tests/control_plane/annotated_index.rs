//! The webhook watches neither ConfigMaps nor Secrets, and knows all the same which of them ask to be copied.

use serde_json::json;

use crate::bed::objects::{data, namespace, secret};
use crate::bed::{Story, eventually, peaceful, same};

#[test]
fn the_author_of_a_namespace_is_told_of_annotated_sources() {
    let story = Story::new(peaceful(), "indexed");
    let mut source = secret(&story.home, "app", [("k", "swordfish")]);
    source["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": story.called("*") });
    source["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    story.admin().create(&source).ok();
    let told = |wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        eventually(&format!("the warning is {wanted:?}"), || {
            let answer = story.admin().try_create(&namespace(&story.called("new"), &data([])));
            same(answer.warnings, wanted.clone())
        });
    };
    told(&["copyrator: 1 object will be created in this namespace (1 rule)"]);
    let index = story.admin().get("ConfigMap", "copyrator-system", "copyrator-annotated-sources");
    let index = index.expect("the index is there").to_string();
    assert!(index.contains("indexed-home"), "{index}");
    assert!(!index.contains("swordfish") && !index.contains("c3dvcmRmaXNo"), "{index}");

    let none = json!({ "metadata": { "annotations": { "copyrator.dev/copy-to": null } } });
    story.admin().merge("Secret", &story.home, "app", &none).ok();
    told(&[]);
}
