//! What is added when missing.

use serde_json::json;

use crate::bed::objects::{annotation, config_map, label};
use crate::bed::{Story, eventually, peaceful};

#[test]
fn missing_labels_and_annotations_are_added_and_present_ones_stay() {
    let story = Story::new(peaceful(), "defaulted");
    let place = story.target("a");
    let spec = json!({
        "match": {},
        "defaults": { "labels": { "team": "unknown" }, "annotations": { "example.com/tier": "3" } },
        // A default can satisfy what is required: mutation comes first.
        "labels": { "required": ["team"] },
    });
    story.admin().create(&story.policy(&["ConfigMap"], spec)).ok();
    let made = eventually("the defaults are added", || {
        // Hooks reach the API server one after the other: the requirement may be there first.
        let made = story.admin().try_create(&config_map(&place, "app", [("k", "v")])).body;
        if label(&made, "team").is_some() { Ok(made) } else { Err(made.to_string()) }
    });
    assert_eq!(label(&made, "team"), Some("unknown"));
    assert_eq!(annotation(&made, "example.com/tier"), Some("3"));
    let mut own = config_map(&place, "app", [("k", "v")]);
    own["metadata"]["labels"] = json!({ "team": "blue" });
    let made = story.admin().create(&own).ok();
    assert_eq!(label(&made, "team"), Some("blue"));
    // The API server has not made up its name yet when defaults are added.
    let mut unnamed = config_map(&place, "", [("k", "v")]);
    unnamed["metadata"] = json!({ "namespace": place, "generateName": "app-" });
    let made = story.admin().create(&unnamed).ok();
    assert_eq!(label(&made, "team"), Some("unknown"));
    let bystander = story.bystander("b");
    let plain = story.admin().create(&config_map(&bystander, "app", [("k", "v")])).ok();
    assert_eq!(label(&plain, "team"), None);
}
