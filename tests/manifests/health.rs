//! docs/argocd-health.lua, run by the Lua that Argo CD runs it with.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::path;

/// An object as Argo CD has it, and how it is.
fn health(object: &Value) -> (String, String) {
    let script = path("docs/argocd-health.lua");
    let main = tempfile::Builder::new().suffix(".lua").tempfile().unwrap();
    let text = format!(
        "obj = {}\nlocal health = assert(loadfile({:?}))()\nprint(health.status)\nprint(health.message)\n",
        lua(object),
        script.to_string_lossy()
    );
    fs::write(main.path(), text).unwrap();
    let output = Command::new(devcluster::lua().expect("Lua is there")).arg(main.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let (status, message) = said.split_once('\n').unwrap();
    (status.to_owned(), message.trim().to_owned())
}

/// A value as a Lua expression.
fn lua(value: &Value) -> String {
    match value {
        Value::Null => "nil".into(),
        Value::Array(list) => format!("{{{}}}", list.iter().map(lua).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("[{key:?}] = {}", lua(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Each as the planner writes it: type, status, reason, and the generation that it speaks of.
fn object(spec: Value, conditions: &[(&str, &str, &str, i64)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, reason, generation)| {
            json!({ "type": type_, "status": status, "reason": reason, "message": format!("says {type_}"),
                    "observedGeneration": generation })
        })
        .collect();
    json!({ "kind": "CopyratorRule", "metadata": { "generation": 2 }, "spec": spec,
            "status": { "conditions": conditions } })
}

#[test]
fn argo_cd_sees_each_state_as_it_is() {
    let ready = ("Ready", "True", "AllCopied", 2);
    for (spec, conditions, status, message) in [
        (json!({}), vec![], "Progressing", "Copyrator has not looked at it yet"),
        (json!({}), vec![ready], "Healthy", "says Ready"),
        (
            json!({}),
            vec![("Ready", "True", "AllCopied", 1)],
            "Progressing",
            "Copyrator has not looked at it yet",
        ),
        (json!({}), vec![ready, ("Reconciling", "True", "Copying", 2)], "Progressing", "says Reconciling"),
        (json!({}), vec![("Ready", "False", "AuthorityUnknown", 2)], "Progressing", "says Ready"),
        (
            json!({}),
            vec![("Ready", "False", "Forbidden", 2), ("Stalled", "True", "Forbidden", 2)],
            "Degraded",
            "says Stalled",
        ),
        // A source that is named and not there yet is waited for.
        (
            json!({}),
            vec![("Ready", "False", "NoSource", 2), ("Reconciling", "True", "NoSource", 2)],
            "Progressing",
            "says Reconciling",
        ),
        // A monitor whose circuit is open watches all the same.
        (json!({}), vec![ready, ("Stalled", "True", "CircuitOpen", 2)], "Degraded", "says Stalled"),
        (json!({}), vec![ready, ("Degraded", "True", "Conflict", 2)], "Degraded", "says Degraded"),
        (
            json!({}),
            vec![("Ready", "False", "Incomplete", 2), ("Degraded", "True", "Conflict", 2)],
            "Degraded",
            "says Degraded",
        ),
        (json!({}), vec![ready, ("Degraded", "True", "Violations", 2)], "Healthy", "says Ready"),
        // Mended, and not looked at again yet.
        (
            json!({}),
            vec![("Stalled", "True", "Invalid", 1)],
            "Progressing",
            "Copyrator has not looked at it yet",
        ),
        (json!({ "suspend": true }), vec![ready], "Suspended", "spec.suspend is true"),
    ] {
        let object = object(spec, &conditions);
        assert_eq!(health(&object), (status.into(), message.into()), "{object}");
    }
    // Just written.
    let bare = json!({ "metadata": { "generation": 1 }, "spec": {} });
    assert_eq!(health(&bare).0, "Progressing");
}
