//! The parts of a template that the operator supports so far. The compiler understands more, so that the
//! command `check` can judge and render it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    CompiledObject, CompiledTemplate, manifest_in_spec,
    node::{Node, below},
};
use crate::{
    api::{ConflictPolicy, Problem, TemplateObject},
    names::{Kind, TemplateKind, rendered_kind},
    paths::is_content,
    validate::invalid,
};

/// Returns the kind of a template's object; `None` if templates may not declare objects of this kind in this
/// installation.
pub fn declared_kind(object: &CompiledObject, granted: &BTreeSet<TemplateKind>) -> Option<Kind> {
    rendered_kind(&object.api_version, &object.kind, granted)
}

/// Like [`declared_kind`], for an object that is not compiled.
pub fn written_kind(object: &TemplateObject, granted: &BTreeSet<TemplateKind>) -> Option<Kind> {
    let text = |field: &str| object.template[field].as_str().unwrap_or_default();
    rendered_kind(text("apiVersion"), text("kind"), granted)
}

/// Returns a problem for each part of a template that the operator does not support yet. Admission refuses
/// such a template, and the operator does not render it.
pub fn unserved(template: &CompiledTemplate) -> Vec<Problem> {
    unserved_in(template, |id| manifest_in_spec(id))
}

/// Like [`unserved`]. `manifest_at` gives the path of an object's manifest by the object's id.
pub(super) fn unserved_in(template: &CompiledTemplate, manifest_at: impl Fn(&str) -> String) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_copied = |object: &&CompiledObject| {
        Kind::written_as(&object.api_version, &object.kind).is_some_and(Kind::is_copied)
    };
    let unseen = template.objects.iter().find(|object| !is_copied(object));
    if let (Some(object), ConflictPolicy::Adopt | ConflictPolicy::Overwrite) = (unseen, template.conflict) {
        let what = format!(
            "only Refuse is allowed with a {}: Copyrator neither adopts nor overwrites objects of this kind",
            object.kind
        );
        problems.push(invalid("spec.conflictPolicy", what));
    }
    for object in &template.objects {
        let at = manifest_at(&object.id);
        let names: Vec<&str> = match &object.body {
            Node::Fields(fields) => fields.iter().map(|(name, _)| name.as_str()).collect(),
            Node::Literal(Value::Object(fields)) => fields.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let left_out = names
            .iter()
            .filter(|name| !is_content(name) && !["apiVersion", "kind", "metadata"].contains(name));
        problems.extend(left_out.map(|name| {
            let what = "is not allowed: controllers and the namespace's owner set this field; remove it";
            invalid(&below(&at, name), what)
        }));
        // Every user who may read the template could read the values of a rendered Secret in the template.
        if Kind::written_as(&object.api_version, &object.kind) == Some(Kind::Secret) {
            let what = "a template cannot render a Secret: copy one with a CopyratorRule, so that no template contains its values";
            problems.push(invalid(&below(&at, "kind"), what));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An unsupported field must be reported, with or without an expression in it: otherwise the rendered
    /// object would silently lack the field.
    #[test]
    fn what_is_left_to_others_is_refused_in_a_literal_object_too() {
        for name in ["ci", "${namespaceObject.metadata.name}"] {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
                "imagePullSecrets": [{"name": "registry"}]});
            let spec = json!({"forEach": {"namespaces": [{"namespaceSelector": {}}]}, "objects": [{"id": "a", "template": object}]});
            let problems = CompiledTemplate::compile_served(&serde_json::from_value(spec).unwrap())
                .map(drop)
                .unwrap_err();
            let told = &problems[0].message;
            assert!(
                told.starts_with("spec.objects[a].template.imagePullSecrets: is not allowed: controllers"),
                "{name}: {told}"
            );
        }
    }
}
