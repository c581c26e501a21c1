//! A template and an instance, both from the input: the spec as JSON, then the instance as JSON.

use copyrator::{
    api::CopyratorTemplateSpec,
    validate::{CompiledTemplate, Instance, Rendering},
};
use serde_json::{Value, json};

use super::parts;

/// What an expression of an instance never gives, wherever it stands below `spec`.
const KEPT: [&str; 3] = ["serviceAccountName", "hostPath", "securityContext"];

/// A template of the input is rendered for an instance of the input.
pub fn check(input: &[u8]) {
    let Some(parts) = parts(input) else { return };
    let [spec, instance] = &parts[..] else { return };
    let (Ok(spec), Ok(object)) =
        (serde_json::from_str::<CopyratorTemplateSpec>(spec), serde_json::from_str(instance))
    else {
        return;
    };
    let template = match CompiledTemplate::compile(&spec) {
        Ok(template) => template,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.message.is_empty()));
            return;
        }
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "blue"}}});
    let instance = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
    for wanted in &template.objects {
        let first = template.render(wanted, &instance);
        assert_eq!(
            first,
            template.render(wanted, &instance),
            "rendering hangs on what expressions read only"
        );
        let Ok(Rendering::Object(made)) = first else { continue };
        let text = made.body.to_string();
        // Escaping makes a text six times as long at most, and the literal parts are the input's.
        assert!(text.len() <= (8 << 20) + 8 * input.len(), "an object of {} bytes", text.len());
        assert_eq!(made.body["kind"], json!(wanted.kind));
        let metadata = made.body["metadata"].as_object().expect("a rendered object has metadata");
        assert!(
            metadata.keys().all(|field| ["name", "labels", "annotations"].contains(&field.as_str())),
            "{metadata:?}"
        );
        if wanted.kind != "ConfigMap" && wanted.kind != "Secret" {
            let written = serde_json::to_string(&spec).expect("a spec is JSON");
            for field in KEPT.into_iter().filter(|field| !written.contains(field)) {
                assert!(!holds(&made.body["spec"], field), "{field} came from an expression: {text}");
            }
        }
    }
    let _ = template.render_status(&instance);
    let _ = template.selects("shop", &object, &namespace);
}

/// Whether a value has a field of this name, other than a label or annotation.
fn holds(value: &Value, field: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            name == field || !["labels", "annotations"].contains(&name.as_str()) && holds(value, field)
        }),
        Value::Array(items) => items.iter().any(|item| holds(item, field)),
        _ => false,
    }
}
