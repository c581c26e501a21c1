//! Objects that the API server takes and that no decoder of ours would: whatever a tenant writes, others get their copies, their restarts
//! and true statuses, and a new process becomes ready.

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::{config_map, data, deployment, namespace, ours, secret};
use crate::bed::{Bed, Story, eventually, private};
use crate::instances::{CHART, cache, define, everywhere, template};

const FLAGS: [&str; 2] =
    ["--template-kinds", "cache.example.com/v1alpha1/Memcached/memcacheds/forEach+render+statusField"];

/// Fields that are nested this deep.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({ "f:a": inner }))
}

/// The object with an entry of managedFields as anybody may write one.
fn managed(mut object: Value, time: &str, fields: Value) -> Value {
    object["metadata"]["managedFields"] = json!([{ "manager": "evil", "operation": "Update", "apiVersion": object["apiVersion"],
        "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields }]);
    object
}

fn late(object: Value) -> Value {
    managed(object, "9999-12-31T23:59:59Z", json!({ "f:data": { "f:zz": {} } }))
}

/// A ConfigMap in protobuf with an annotation that is no UTF-8, as a Go client writes it that cuts a text in a character.
fn not_text(name: &str, namespace: &str) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| [&[tag << 3 | 2, bytes.len() as u8], bytes].concat();
    let pair = [field(1, b"note"), field(2, b"\xff\xfe bad")].concat();
    let meta = [field(1, name.as_bytes()), field(3, namespace.as_bytes()), field(12, &pair)].concat();
    let r#type = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &r#type), field(2, &field(1, &meta))].concat()
}

/// Everything that a tenant with `edit` can write, and who may patch a namespace.
fn poison(bed: &Bed, story: &Story<'_>) {
    let home = &story.home;
    let rule = json!({ "source": { "kind": "ConfigMap", "names": ["late"] }, "targets": [{ "names": [home] }], "copy": { "name": "other" } });
    let monitor = json!({ "watch": [{ "kind": "ConfigMap", "names": ["late"] }] });
    bed.admin.create(&late(config_map(home, "late", [("k", "v")]))).ok();
    bed.admin.create(&late(secret(home, "late", [("k", "v")]))).ok();
    bed.admin.create(&late(deployment(home, "late", json!({})))).ok();
    bed.admin.create(&late(ours("CopyratorRule", home, "late", rule))).ok();
    let fields = json!({ "f:metadata": { "f:labels": deep(200) } });
    bed.admin
        .create(&managed(ours("ConfigMonitor", home, "deep", monitor), "2026-01-01T00:00:00Z", fields))
        .ok();
    bed.admin.create_encoded("ConfigMap", home, not_text("no-text", home)).ok();
    let mut taken = bed.admin.get("Namespace", "", home).expect("it is there");
    taken["metadata"]["managedFields"][0]["time"] = "9999-12-31T23:59:59Z".into();
    bed.admin.replace(&taken).ok();
    // The watch would meet it again and again.
    bed.admin.create(&late(config_map(home, "soon-gone", [("k", "v")]))).ok();
    bed.admin.delete("ConfigMap", home, "soon-gone").ok();
    // Known to templates until now.
    bed.admin.merge("Memcached", home, "deep", &json!({ "spec": { "pod": deep(300) } })).ok();
}

/// The other tenant's source changes: that is copied, restarts, and is told; a template makes what is new.
fn goes_on(bed: &Bed, story: &Story<'_>, place: &str, value: &str) {
    let before = story.until_running("web");
    story.until_later(1);
    bed.admin.apply(&config_map(&story.home, "app", [("k", value)])).ok();
    story.until("ConfigMap", place, "app", [("k", value)]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    story.until_restarted("web", &before);
    bed.admin.create(&cache(place, &format!("of-{value}"), 3)).ok();
    story.until(
        "ConfigMap",
        place,
        &format!("cache-of-{value}"),
        [("size", "3"), ("of", &*format!("of-{value}"))],
    );
}

#[test]
fn what_cannot_be_read_harms_only_itself() {
    let bed = private("unreadable");
    let kind = json!([{ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "resource": "memcacheds",
        "use": ["forEach", "render", "statusField"] }]);
    let granted = format!("templates.kinds={kind}");
    bed.helm(&["upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values", "--set-json", &granted]);
    define(&bed);
    let crew = bed.man_with(&FLAGS);
    let (other, evil) = (Story::new(&bed, "unread-other"), Story::new(&bed, "unread-evil"));
    let place = other.target("a");
    bed.admin.apply(&namespace(&evil.home, &data([("story", "unread-other")]))).ok();
    bed.admin.create(&config_map(&other.home, "app", [("k", "1")])).ok();
    bed.admin.create(&other.rule("ConfigMap", &["app"])).ok();
    other.deploy("web", &["app"]);
    bed.admin.create(&other.monitor(&["app"], Value::Null)).ok();
    other.until_adopted("web");
    bed.admin.create(&template(&other, "caches", &everywhere(&other), "cache-${object.metadata.name}")).ok();
    bed.admin.create(&cache(&evil.home, "deep", 4)).ok();
    let made = evil.until("ConfigMap", &evil.home, "cache-deep", [("size", "4"), ("of", "deep")]);

    poison(&bed, &evil);
    goes_on(&bed, &other, &place, "2");
    let told = || {
        let template = other.until_condition("CopyratorTemplate", "caches", "Ready", "False", "Unreadable");
        assert!(
            template["status"].to_string().contains("cannot read Memcached unread-evil-home/deep"),
            "{template}"
        );
    };
    told();

    // Processes that have never read any of it.
    drop(crew);
    let crew = bed.man_with(&FLAGS);
    goes_on(&bed, &other, &place, "3");
    told();
    let kept = evil.until("ConfigMap", &evil.home, "cache-deep", [("size", "4"), ("of", "deep")]);
    assert_eq!(kept["metadata"]["uid"], made["metadata"]["uid"], "what was made of it stays");

    other.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let said = |arguments: &[&str]| {
        let output = bed.testbed.copyrator(arguments).output().expect("it runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let status = said(&[&["status", "-A"][..], &FLAGS].concat());
    assert!(
        status.contains("cannot read Memcached unread-evil-home/deep") && status.contains("2 of 2"),
        "{status}"
    );
    let found = said(&["doctor", "-n", NAMESPACE]);
    assert!(
        found.contains("object-unreadable") && found.contains("Memcached unread-evil-home/deep"),
        "{found}"
    );

    // Once it can be read, it is as any other.
    let flat = json!({ "spec": { "pod": null, "size": 5 } });
    bed.admin.merge("Memcached", &evil.home, "deep", &flat).ok();
    evil.until("ConfigMap", &evil.home, "cache-deep", [("size", "5"), ("of", "deep")]);
    eventually("the template is in order", || {
        let template = bed.admin.get("CopyratorTemplate", &other.home, "caches").ok_or("it is gone")?;
        let status = template["status"]["conditions"].to_string();
        if status.contains("AllRendered") { Ok(()) } else { Err(status) }
    });
    drop(crew);
}
