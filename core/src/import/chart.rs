//! The values of the chart that what an import makes needs: no kind beside ConfigMap and Secret is granted by default.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Imported, Made, templates::kind};
use crate::{api::TemplateObject, names::Kind};

/// The step that grants what is needed; `None` where nothing is.
pub(super) fn values(imported: &Imported) -> Option<String> {
    let (mut kinds, mut bind, mut others) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut granted = |kind: Kind| {
        if kind.data().is_none() {
            kinds.insert(kind.resource().kind);
        }
    };
    for made in imported.made() {
        match made {
            Made::Rule(rule) => granted(rule.spec.source.kind),
            Made::Template(template) => {
                for object in &template.spec.objects {
                    match kind(object) {
                        Some(kind) => granted(kind),
                        None => drop(others.insert(entry(object))),
                    }
                    let role = &object.template["roleRef"]["name"];
                    bind.extend(role.as_str().filter(|_| kind(object) == Some(Kind::RoleBinding)));
                }
            }
            Made::Monitor(_) => {}
        }
    }
    let mut values = Vec::new();
    for (name, entries) in [("copies.kinds", kinds), ("copies.bind", bind)] {
        if !entries.is_empty() {
            let entries = entries.into_iter().collect::<Vec<_>>().join(", ");
            values.push(format!("{name}: [{entries}]"));
        }
    }
    if !others.is_empty() {
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        values.push(format!("templates.kinds: [{others}] (kubectl api-resources has the plural)"));
    }
    (!values.is_empty()).then(|| {
        format!(
            "Grant Copyrator the kinds, by values of its chart beside those that are set: {}. With each kind the reconciler gets the \
             right to write all objects of it.",
            values.join("; ")
        )
    })
}

/// An entry of `templates.kinds`; the plural is for the administrator to say.
fn entry(object: &TemplateObject) -> String {
    let text = |field: &str| object.template.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    format!("{{apiVersion: {api_version}, kind: {kind}, resource: PLURAL, use: [render]}}")
}
