//! What machines read keeps its form: each command's JSON over the same small world, beside what was recorded.
//!
//! After a change that is meant: `COPYRATOR_BLESS=1 cargo test --test control_plane json_forms`. Fields may come; none goes or changes its meaning
//! without a new version of `cli.copyrator.dev`.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

use crate::bed::objects::{config_map, ours};
use crate::bed::{Story, eventually, peaceful};
use crate::plan::run;

/// What differs from run to run, by the name of its field.
const VARIES: [&str; 4] = ["digest", "running", "wanted", "resourceVersion"];

/// The same, with a word in the place of what differs from run to run.
fn steady(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if VARIES.contains(&name.as_str()) && field.is_string() {
                    *field = json!(name.to_uppercase());
                } else {
                    steady(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => *text = "TIME".to_owned(),
        _ => {}
    }
}

#[test]
fn what_machines_read_keeps_its_form() {
    let story = Story::new(peaceful(), "forms");
    let (home, target) = (&story.home, story.bystander("target"));
    let labels = json!({ "story": "forms" });
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = labels.clone();
        object
    };
    story.admin().create(&config_map(home, "app", [("k", "1")])).ok();
    story.admin().create(&config_map(&target, "taken", [("k", "mine")])).ok();
    story.admin().create(&config_map(home, "taken", [("k", "1")])).ok();
    for name in ["app", "taken"] {
        let spec =
            json!({ "source": { "kind": "ConfigMap", "names": [name] }, "targets": [{ "names": [target] }] });
        story.admin().create(&labelled(ours("CopyratorRule", home, name, spec))).ok();
    }
    // Of this story alone: other stories have an app, too.
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": home } });
    let policy = json!({ "match": { "kinds": ["ConfigMap"], "names": ["app"], "namespaceSelector": here },
        "data": [{ "name": "k", "keys": ["k"], "format": "url" }] });
    let policy = labelled(ours("ConfigPolicy", "", "forms", policy));
    story.admin().create(&policy).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["metadata"]["labels"] = labels;
    story.admin().create(&monitor).ok();
    story.until_adopted("web");
    story.until_running("web");
    story.until_condition("CopyratorRule", "app", "Ready", "True", "AllCopied");
    story.until_condition("CopyratorRule", "taken", "Degraded", "True", "Conflict");
    let cases: [(&str, Vec<&str>); 7] = [
        ("status", vec!["status", "-l", "story=forms"]),
        ("plan", vec!["plan", "-n", home, "-l", "story=forms"]),
        ("tree", vec!["tree", "cm/app", "-n", home]),
        ("why-source", vec!["why", "cm/app", "-n", home]),
        ("why-copy", vec!["why", "cm/app", "-n", &target]),
        ("why-workload", vec!["why", "deploy/web", "-n", home]),
        ("why-not", vec!["why-not", &target, "--rule", "forms-home/taken"]),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control_plane/json_forms");
    for (name, arguments) in &cases {
        let path = folder.join(format!("{name}.json"));
        let look = || {
            let mut seen = run(&story, None, &[&arguments[..], &["-o", "json"]].concat(), "").json();
            steady(&mut seen);
            serde_json::to_string_pretty(&seen).expect("it is JSON") + "\n"
        };
        if env::var_os("COPYRATOR_BLESS").is_some() {
            fs::create_dir_all(&folder).expect("the folder can be made");
            fs::write(&path, look()).expect("the form can be written");
        }
        let recorded = fs::read_to_string(&path).expect("the form is recorded");
        // What the operator reports of itself comes a moment after what it did.
        eventually(&format!("`{name}` prints what was recorded"), || {
            let seen = look();
            if seen == recorded { Ok(()) } else { Err(seen) }
        });
    }
    story.admin().delete("ConfigPolicy", "", "forms").ok();
    // What it finds here hangs on what other stories do.
    let diagnosis = run(&story, None, &["doctor", "-o", "json"], "").json();
    let fields = diagnosis.as_object().expect("an object").keys().map(String::as_str);
    // Without a note there is no such field.
    let fields: Vec<&str> = fields.filter(|field| *field != "notes").collect();
    let expected = ["apiVersion", "findings", "ignored", "inOrder", "kind", "namespace", "server", "version"];
    assert_eq!((diagnosis["kind"].as_str(), fields), (Some("Diagnosis"), expected.to_vec()), "{diagnosis}");
}
