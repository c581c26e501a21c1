//! Which objects and namespaces a template is rendered for.

use serde_json::Value;

use super::{CompiledTemplate, Instances};
use crate::marks::MARK;

impl CompiledTemplate {
    /// Whether a template of namespace `home` is rendered for this object, which is in a namespace with the
    /// labels of `namespace`; or, with `forEach.namespaces`, for this Namespace itself.
    pub fn selects(&self, home: &str, object: &Value, namespace: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        if object["metadata"]["annotations"].get(MARK).is_some() {
            // A chain of templates could make objects without end.
            return false;
        }
        match &self.instances {
            Instances::Namespaces { terms, exclude } => {
                text("/apiVersion") == "v1"
                    && text("/kind") == "Namespace"
                    && !exclude.matches(name)
                    && terms.iter().any(|term| {
                        term.selects(name, |key| {
                            object["metadata"]["labels"].get(key).and_then(Value::as_str)
                        })
                    })
            }
            Instances::Objects { api_version, kind, namespaces, names, selector } => {
                let place = text("/metadata/namespace");
                let is_there = match namespaces.as_slice() {
                    [] => place == home,
                    terms => terms.iter().any(|term| {
                        term.selects(place, |key| {
                            namespace["metadata"]["labels"].get(key).and_then(Value::as_str)
                        })
                    }),
                };
                text("/apiVersion") == api_version
                    && text("/kind") == kind
                    && is_there
                    && names.as_ref().is_none_or(|names| names.matches(name))
                    && selector.as_ref().is_none_or(|selector| {
                        selector.matches(|key| object["metadata"]["labels"].get(key).and_then(Value::as_str))
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_terms_of_for_each_decide() {
        let compiled = |for_each: Value| {
            let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            let spec = json!({"forEach": for_each, "objects": [{"id": "a", "template": template}]});
            CompiledTemplate::compile(&serde_json::from_value(spec).unwrap()).unwrap()
        };
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "blue"}}});
        let server = json!({"apiVersion": "a.b/v1", "kind": "Server", "metadata": {"name": "web", "namespace": "shop"}});
        let of_kind = |more: Value| {
            let mut objects = json!({"apiVersion": "a.b/v1", "kind": "Server"});
            objects.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            compiled(json!({"objects": objects}))
        };
        assert!(of_kind(json!({})).selects("shop", &server, &shop), "its own namespace is the default");
        assert!(!of_kind(json!({})).selects("platform", &server, &shop));
        let blue = json!([{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]);
        assert!(of_kind(json!({"namespaces": blue})).selects("platform", &server, &shop));
        assert!(!of_kind(json!({"namespaces": [{"names": ["bank"]}]})).selects("platform", &server, &shop));
        assert!(!of_kind(json!({"names": ["db*"]})).selects("shop", &server, &shop));
        assert!(
            !of_kind(json!({"objectSelector": {"matchLabels": {"a": "b"}}})).selects("shop", &server, &shop)
        );
        assert!(!of_kind(json!({})).selects("shop", &shop, &shop), "a Namespace is no Server");
        let mut ours = server.clone();
        ours["metadata"]["annotations"] = json!({MARK: "x"});
        assert!(!of_kind(json!({})).selects("shop", &ours, &shop), "no object of ours is an instance");
        let each = |exclude: &str| compiled(json!({"namespaces": blue, "excludeNamespaces": [exclude]}));
        assert!(each("bank").selects("platform", &shop, &shop));
        assert!(!each("sh*").selects("platform", &shop, &shop));
        assert!(!each("bank").selects("platform", &server, &shop));
    }
}
