//! The objects that benchmarks set up.

use serde_json::{Map, Value, json};

/// Where sources and rules live.
pub(crate) const HOME: &str = "platform";
/// The path of templates in [`HOME`].
pub(crate) const TEMPLATES: &str = "/apis/copyrator.dev/v1alpha1/namespaces/platform/copyratortemplates";

/// A path of the core API.
pub(crate) fn path(namespace: &str, plural: &str, name: &str) -> String {
    format!("{}/{name}", collection(namespace, plural))
}

/// A collection of the core API.
pub(crate) fn collection(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

/// A namespace with labels.
pub(crate) fn namespace(name: &str, labels: &[&str]) -> Value {
    let labels: Map<String, Value> = labels.iter().map(|key| ((*key).to_owned(), json!("yes"))).collect();
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// A Secret of four keys with 1 KiB in all, another content for each `version`.
pub(crate) fn source(name: &str, version: &str) -> Value {
    let value = |key: &str| (key.to_owned(), json!(text(256, &format!("{version} {key}"))));
    let data = ["ca.crt", "password", "url", "user"].into_iter().map(value).collect();
    secret(HOME, name, data)
}

/// A Secret with one value of `bytes` bytes.
pub(crate) fn big_secret(namespace: &str, name: &str, bytes: usize) -> Value {
    secret(namespace, name, Map::from_iter([("value".to_owned(), json!(text(bytes, name)))]))
}

fn secret(namespace: &str, name: &str, data: Map<String, Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace}, "stringData": data,
    })
}

/// A ConfigMap with one short value.
pub(crate) fn config_map(namespace: &str, name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": name}})
}

/// A Deployment without replicas that uses a ConfigMap.
pub(crate) fn deployment(namespace: &str, name: &str, config_map: &str) -> Value {
    let labels = json!({"app": name});
    let container = json!({
        "name": "app", "image": "registry.example.com/app:1.0.0",
        "envFrom": [{"configMapRef": {"name": config_map}}],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

/// A rule that copies the Secrets of [`HOME`] whose names match to the namespaces that `target` (a term) means.
pub(crate) fn rule(name: &str, sources: &str, target: Value) -> Value {
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"source": {"kind": "Secret", "names": [sources]}, "targets": [target]},
    })
}

/// Rules where there are many.
pub(crate) const OF_SCALE: usize = 50;

/// A rule with a template of names, of one source (`app-NN-a`) to two fifths of the namespaces that have [`scale_labels`].
pub(crate) fn named_rule(number: usize) -> Value {
    let wave = format!("wave-{}", number % 5);
    let mut rule = rule(
        &format!("rule-{number:02}"),
        &format!("app-{number:02}-*"),
        json!({"names": ["team-*"], "namespaceSelector": {"matchLabels": {wave: "yes"}}}),
    );
    rule["spec"]["copy"] = json!({"name": "{namespace}-{name}"});
    rule
}

/// The labels of a namespace that two fifths of those rules select.
pub(crate) fn scale_labels(number: usize) -> [String; 2] {
    [number, number + 1].map(|number| format!("wave-{}", number % 5))
}

/// Exactly so many bytes, another text for each `seed`.
pub(crate) fn text(bytes: usize, seed: &str) -> String {
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}")
    };
    let mut text: String = (0..bytes.div_ceil(16)).map(|_| next()).collect();
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_length_and_is_another_for_another_seed() {
        assert_eq!(text(100, "a").len(), 100);
        assert_eq!(text(100, "a"), text(100, "a"));
        assert_ne!(text(100, "a"), text(100, "b"));
        assert_ne!(text(100, "a")[..50], text(100, "a")[50..]);
    }
}
