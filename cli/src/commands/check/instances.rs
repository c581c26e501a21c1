//! Renders templates for the objects of `--object`, as the operator would for objects of a cluster in which
//! nothing has been rendered yet.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::report::{Becomes, Finding, Rendered, Report};
use crate::{
    api::CopyratorTemplateSpec,
    arguments::UsageError,
    files::{Document, Item, NAMESPACE_NAME, title},
    validate::{CompiledTemplate, Instance, Rendering, unserved},
};

/// The note on a template that needs features which the operator does not serve yet.
const ONLY_CHECKED: &str =
    "check renders it, but the operator does not serve all of it yet, and the webhook refuses it";

/// The objects that templates are rendered for.
pub(super) struct Given {
    objects: Vec<Value>,
    /// Namespaces by name, for their labels.
    namespaces: BTreeMap<String, Value>,
}

impl Given {
    /// Sorts the documents of `--object`. Objects without a namespace belong to `home`.
    ///
    /// # Errors
    /// A document is not an object.
    pub(super) fn new(documents: Vec<Document>, home: &str) -> Result<Self, UsageError> {
        let mut given = Self { objects: Vec::new(), namespaces: BTreeMap::new() };
        for Document { mut value, place, .. } in documents {
            let labels = &value["metadata"]["labels"];
            if !value["metadata"].is_object() || !(labels.is_null() || labels.is_object()) {
                let message = format!("{place}: is not an object: metadata, or its labels, are not a map");
                return Err(UsageError::Value { flag: "object", message });
            }
            let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if is_namespace(&value) {
                // The API server sets this label on every namespace.
                value["metadata"]["labels"][NAMESPACE_NAME] = json!(name);
                given.namespaces.insert(name, value.clone());
            } else if value["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
                value["metadata"]["namespace"] = json!(home);
            }
            given.objects.push(value);
        }
        Ok(given)
    }

    /// Renders a valid template for each object that it selects. Rendered objects and notes go to `report`.
    /// Returns the objects that cannot be rendered.
    pub(super) fn render(&self, item: &Item, report: &mut Report) -> Vec<Finding> {
        let of = &item.of;
        let spec = serde_json::from_value::<CopyratorTemplateSpec>(item.value["spec"].clone());
        let compiled = spec.ok().and_then(|spec| CompiledTemplate::compile(&spec).ok());
        let Some(template) = compiled else {
            // The webhook's code has just compiled this template, so a failure in this function is a finding.
            return vec![Finding::refused(
                "rendering",
                None,
                format!("{of}: cannot be rendered: its spec cannot be read"),
            )];
        };
        let (mut faults, mut selected) = (Vec::new(), 0);
        for object in &self.objects {
            let namespace = self.namespace_of(object);
            if template.selects(&item.of.name.namespace, object, &namespace) {
                selected += 1;
                render_for(&template, item, object, &namespace, &mut report.rendered, &mut faults);
            }
        }
        if let Some(first) = unserved(&template).into_iter().next() {
            report.notices.push(format!("{of}: {ONLY_CHECKED}: {}", first.message));
        }
        if selected == 0 && !self.objects.is_empty() {
            let given = self.objects.len();
            report.notices.push(format!(
                "{of}: spec.forEach selects none of the {given} objects of --object: compare their apiVersion, kind, namespace \
                 and labels with it"
            ));
        }
        faults
    }

    /// The Namespace of an object. If no file has the Namespace, returns a Namespace with only the name.
    fn namespace_of(&self, object: &Value) -> Value {
        let field = if is_namespace(object) { "name" } else { "namespace" };
        let name = object["metadata"][field].as_str().unwrap_or_default();
        let unknown = || {
            let labels = json!({ NAMESPACE_NAME: name });
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        };
        self.namespaces.get(name).cloned().unwrap_or_else(unknown)
    }
}

fn is_namespace(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Namespace"
}

/// Renders a template for one object. Later objects of the template see each rendered object as existing,
/// without a status and with a placeholder as its uid.
fn render_for(
    template: &CompiledTemplate,
    item: &Item,
    object: &Value,
    namespace: &Value,
    all: &mut Vec<Rendered>,
    faults: &mut Vec<Finding>,
) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let named = title(text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    let place = namespace["metadata"]["name"].clone();
    let (mut existing, mut excluded): (BTreeMap<&str, Value>, BTreeSet<&str>) = Default::default();
    let mut add = |id: &str, becomes| {
        let template = item.of.name.to_string();
        all.push(Rendered { template, instance: named.clone(), id: id.to_owned(), becomes });
    };
    let mut fault = |id: &str, error: &dyn std::fmt::Display| {
        faults.push(Finding::refused("rendering", None, format!("{}: for {named}: {id}: {error}", item.of)));
    };
    for wanted in &template.objects {
        match template.render(wanted, &instance(object, namespace, &existing, &excluded)) {
            Ok(Rendering::Object(rendered)) => {
                let mut body = rendered.body;
                body["metadata"]["namespace"] = place.clone();
                add(&wanted.id, Becomes::Object(body.clone()));
                body["metadata"]["uid"] = json!(format!("(uid of {})", wanted.id));
                existing.insert(&wanted.id, body);
            }
            Ok(Rendering::Excluded) => {
                add(&wanted.id, Becomes::Excluded(true));
                excluded.insert(&wanted.id);
            }
            Ok(Rendering::WaitingFor(ids)) => {
                add(&wanted.id, Becomes::WaitingFor(ids.into_iter().collect()));
            }
            Err(error) => fault(&wanted.id, &error),
        }
    }
    match template.render_status(&instance(object, namespace, &existing, &excluded)) {
        Ok(Some(status)) if status != json!({}) => {
            add("writeStatus", Becomes::Object(json!({"status": status})));
        }
        Ok(_) => {}
        Err(error) => fault("writeStatus", &error),
    }
}

fn instance<'i>(
    object: &'i Value,
    namespace: &'i Value,
    existing: &'i BTreeMap<&'i str, Value>,
    excluded: &BTreeSet<&'i str>,
) -> Instance<'i> {
    Instance {
        namespace: Some(namespace),
        object: (!is_namespace(object)).then_some(object),
        existing: existing.iter().map(|(id, object)| (*id, object)).collect(),
        excluded: excluded.clone(),
        ..Instance::default()
    }
}
