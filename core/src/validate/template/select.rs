//! Which objects and namespaces a template is rendered for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    CompiledTemplate, Instances,
    served::{rendered_kind, unserved},
};
use crate::{
    api::{CopyratorTemplateSpec, Problem},
    marks::MARK,
    names::Kind,
    validate::Globs,
};

impl CompiledTemplate {
    /// Whether the template is rendered for a namespace of this name and with these labels.
    pub fn selects_namespace(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        match &self.instances {
            Instances::Namespaces { terms, exclude } => {
                let label = |key: &str| labels.get(key).map(String::as_str);
                !exclude.matches(name) && terms.iter().any(|term| term.selects(name, label))
            }
            Instances::Objects { .. } => false,
        }
    }

    /// Compiles a spec, if the operator serves all of it.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile_served(spec: &CopyratorTemplateSpec) -> Result<Self, Vec<Problem>> {
        let compiled = Self::compile(spec)?;
        let unserved = unserved(&compiled);
        if unserved.is_empty() { Ok(compiled) } else { Err(unserved) }
    }

    /// The kinds of its objects, as far as the operator writes them.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.objects.iter().filter_map(rendered_kind)
    }

    /// The namespaces that the template can ever be rendered for, where it names them all literally.
    pub fn literal_namespaces(&self) -> Option<BTreeSet<String>> {
        let Instances::Namespaces { terms, .. } = &self.instances else { return None };
        let named = terms.iter().map(|term| term.names.as_ref().and_then(Globs::literals));
        named.collect::<Option<Vec<_>>>().map(|names| names.into_iter().flatten().cloned().collect())
    }

    /// Whether the template names this namespace literally; a glob or selector does not count.
    pub fn names_namespace(&self, namespace: &str) -> bool {
        let (Instances::Namespaces { terms, .. } | Instances::Objects { namespaces: terms, .. }) =
            &self.instances;
        let named = terms.iter().filter_map(|term| term.names.as_ref()).flat_map(|names| names.names());
        named.into_iter().any(|name| name == namespace)
    }

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
