//! Selects the objects and namespaces that a template is rendered for, and finds the fields that its
//! expressions read.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

use super::{
    CompiledObject, CompiledTemplate, Instances,
    node::{Formula, Node},
    object::pods_of,
    served::{declared_kind, unserved, unserved_in},
};
use crate::{
    api::{ConflictPolicy, CopyratorTemplateSpec, DeletionPolicy, Problem},
    marks::MARK,
    names::{InstanceKind, Kind, TemplateKind},
    validate::{CompiledTarget, Globs, Selector},
};

impl CompiledTemplate {
    /// Returns the kind of the objects that the template is rendered for; `None` for a template that is
    /// rendered for namespaces.
    pub fn instance_kind(&self) -> Option<&InstanceKind> {
        match &self.instances {
            Instances::Namespaces { .. } => None,
            Instances::Objects { kind, .. } => Some(kind),
        }
    }

    /// Returns the kind of the instances that own a rendered object with this `deletionPolicy`, so that
    /// Kubernetes deletes the object with its instance. `None` if the object must stay, or if the template
    /// may have taken it over.
    pub fn owning_kind(&self, own: Option<DeletionPolicy>) -> Option<&InstanceKind> {
        let goes =
            own.unwrap_or(self.deletion) == DeletionPolicy::Delete && self.conflict == ConflictPolicy::Refuse;
        self.instance_kind().filter(|_| goes)
    }

    /// Returns the kind of the instances if they own at least one of the rendered objects.
    pub fn owning_any(&self) -> Option<&InstanceKind> {
        self.objects.iter().find_map(|object| self.owning_kind(object.deletion))
    }

    /// Whether an expression of a different object or of `writeStatus` reads the object with this id, or its
    /// pods.
    pub fn reads(&self, id: &str) -> bool {
        self.read_variables.contains(id) || self.reads_pods(id)
    }

    /// Whether an expression reads the pods of any object of the template.
    pub fn reads_any_pods(&self) -> bool {
        self.objects.iter().any(|object| self.reads_pods(&object.id))
    }

    /// Whether an expression reads the pods of the object of this id.
    pub fn reads_pods(&self, id: &str) -> bool {
        self.read_variables.contains(&pods_of(id))
    }

    /// Whether the template has a `writeStatus`.
    pub fn writes_status(&self) -> bool {
        self.status.is_some()
    }

    /// Returns the status fields that the template writes. Each field is listed with the fields of the same
    /// status that its value comes from: fields that its own expressions read, or fields of objects that
    /// these expressions read. A template that writes a status reads neither the whole object nor its whole
    /// status.
    pub fn status_flows(&self) -> Vec<(&str, BTreeSet<&str>)> {
        let mut objects: Vec<(&CompiledObject, BTreeSet<&str>)> = Vec::new();
        // Each object comes after the objects that it reads.
        for object in &self.objects {
            let read = status_read(object.formulas(), &objects);
            objects.push((object, read));
        }
        let Some(Node::Fields(fields)) = &self.status else { return Vec::new() };
        fields.iter().map(|(name, node)| (name.as_str(), status_read(node.formulas(), &objects))).collect()
    }

    /// Returns a hash of the values that expressions read of an object. `seen` is the part of the object that
    /// they see.
    pub fn read_of(&self, seen: &Value) -> u64 {
        let mut hasher = DefaultHasher::new();
        for steps in &self.reads_object {
            let value = steps.iter().try_fold(seen, |value, step| value.get(step));
            value.map(Value::to_string).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether the template is rendered for a namespace of this name and with these labels.
    pub fn selects_namespace(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        match &self.instances {
            Instances::Namespaces { terms, exclude } => {
                !exclude.matches(name) && selected(terms, name, labels)
            }
            Instances::Objects { .. } => false,
        }
    }

    /// Whether the template's objects can be in a namespace with this name and these labels.
    pub fn goes_into(&self, home: &str, name: &str, labels: &BTreeMap<String, String>) -> bool {
        match &self.instances {
            Instances::Namespaces { .. } => self.selects_namespace(name, labels),
            Instances::Objects { namespaces, .. } => match namespaces.as_slice() {
                [] => name == home,
                terms => selected(terms, name, labels),
            },
        }
    }

    /// Whether the template is rendered for an object of its `forEach` kind with this name and these labels,
    /// in a namespace that [`Self::goes_into`] accepts. `true` if the labels are unknown: the rendered
    /// objects stay, and a message reports the unknown labels.
    pub fn selects_object(&self, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        match &self.instances {
            Instances::Namespaces { .. } => false,
            Instances::Objects { names, selector, .. } => {
                let matches = |selector: &Selector| {
                    labels.is_none_or(|labels| selector.matches(|key| labels.get(key).map(String::as_str)))
                };
                names.as_ref().is_none_or(|names| names.matches(name))
                    && selector.as_ref().is_none_or(matches)
            }
        }
    }

    /// Compiles a spec, if the operator supports all of it.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile_served(spec: &CopyratorTemplateSpec) -> Result<Self, Vec<Problem>> {
        let compiled = Self::compile(spec)?;
        let unserved = unserved(&compiled);
        if unserved.is_empty() { Ok(compiled) } else { Err(unserved) }
    }

    /// Checks a spec as [`Self::compile_served`] does, for a caller that writes manifests and no spec.
    ///
    /// # Errors
    /// All problems, at least one; a field of a manifest is named by its path in the manifest.
    pub fn check_manifests(spec: &CopyratorTemplateSpec) -> Result<(), Vec<Problem>> {
        let compiled = Self::compile_in(spec, |_| String::new())?;
        let unserved = unserved_in(&compiled, |_| String::new());
        if unserved.is_empty() { Ok(()) } else { Err(unserved) }
    }

    /// Returns the kinds of the template's objects, except kinds that templates may not declare with these
    /// `granted`.
    pub fn kinds(&self, granted: &BTreeSet<TemplateKind>) -> impl Iterator<Item = Kind> {
        self.objects.iter().filter_map(|object| declared_kind(object, granted))
    }

    /// Returns the terms that select namespaces.
    pub fn namespace_terms(&self) -> &[CompiledTarget] {
        let (Instances::Namespaces { terms, .. } | Instances::Objects { namespaces: terms, .. }) =
            &self.instances;
        terms
    }

    /// Returns the namespaces that the template can ever be rendered for, if it names all of them literally.
    /// Without terms, the set is empty: the only namespace is the template's own, and the template is deleted
    /// together with its namespace.
    pub fn literal_namespaces(&self) -> Option<BTreeSet<String>> {
        let named = self.namespace_terms().iter().map(|term| term.names.as_ref().and_then(Globs::literals));
        named.collect::<Option<Vec<_>>>().map(|names| names.into_iter().flatten().cloned().collect())
    }

    /// Whether the template names this namespace literally; a glob or selector is not a literal name.
    pub fn names_namespace(&self, namespace: &str) -> bool {
        let named = self
            .namespace_terms()
            .iter()
            .filter_map(|term| term.names.as_ref())
            .flat_map(|names| names.names());
        named.into_iter().any(|name| name == namespace)
    }

    /// Whether a template of namespace `home` is rendered for this object, which is in a namespace with the
    /// labels of `namespace`; or, with `forEach.namespaces`, for this Namespace itself.
    pub fn selects(&self, home: &str, object: &Value, namespace: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        if object["metadata"]["annotations"].get(MARK).is_some() {
            // Skip rendered objects: a chain of templates could create objects without end.
            return false;
        }
        let labels_of = |object: &Value| {
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        let (version, is_of) = (text("/apiVersion"), text("/kind"));
        match &self.instances {
            Instances::Namespaces { .. } => {
                version == "v1" && is_of == "Namespace" && self.selects_namespace(name, &labels_of(object))
            }
            Instances::Objects { kind, .. } => {
                version == &*kind.api_version
                    && is_of == &*kind.kind
                    && self.goes_into(home, text("/metadata/namespace"), &labels_of(namespace))
                    && self.selects_object(name, Some(&labels_of(object)))
            }
        }
    }
}

/// Returns the status fields that these expressions read, directly or through other objects that they read.
fn status_read<'t>(
    formulas: impl IntoIterator<Item = &'t Formula>,
    objects: &[(&'t CompiledObject, BTreeSet<&'t str>)],
) -> BTreeSet<&'t str> {
    let mut fields = BTreeSet::new();
    for formula in formulas {
        fields.extend(formula.reads_status());
        let read = objects.iter().filter(|(object, _)| object.is_read_by(formula));
        fields.extend(read.flat_map(|(_, fields)| fields.iter().copied()));
    }
    fields
}

fn selected(terms: &[CompiledTarget], name: &str, labels: &BTreeMap<String, String>) -> bool {
    terms.iter().any(|term| term.selects(name, |key| labels.get(key).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_a_change_it_is_rendered_again_every_ten_seconds_at_most() {
        let resync = |resync: &str| {
            let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            let objects = json!([{"id": "a", "template": template}]);
            let spec = json!({"forEach": {"namespaces": [{"namespaceSelector": {}}]}, "objects": objects, "resync": resync});
            CompiledTemplate::compile(&serde_json::from_value(spec).unwrap()).map(|compiled| compiled.resync)
        };
        assert_eq!(resync("1h").unwrap(), Some(std::time::Duration::from_secs(3_600)));
        let problems = resync("9s").map(drop).unwrap_err();
        assert!(problems[0].message.starts_with("spec.resync: is less than 10s: "), "{problems:?}");
    }

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
