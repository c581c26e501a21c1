//! Helm values that the imported objects need: by default the chart grants no kind but ConfigMap and Secret.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Imported, Made, kinds::plural, templates::kind};
use crate::{api::TemplateObject, names::Kind};

/// Returns the step that grants the needed rights; `None` if no grant is needed.
pub(super) fn values(imported: &Imported) -> Option<String> {
    let (mut kinds, mut bind) = (BTreeSet::new(), BTreeSet::new());
    let mut others: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut granted = |kind: Kind| {
        if kind.data().is_none() {
            kinds.insert(kind.resource().kind);
        }
    };
    for made in imported.made() {
        match made {
            Made::Rule(rule) => Kind::named(&rule.spec.source.kind).into_iter().for_each(&mut granted),
            Made::Template(template) => {
                if let Some(of_kind) = &template.spec.for_each.objects {
                    others.entry((&of_kind.api_version, &of_kind.kind)).or_default().insert("forEach");
                }
                for object in &template.spec.objects {
                    match kind(object) {
                        Some(kind) => granted(kind),
                        None => drop(others.entry(names(object)).or_default().insert("render")),
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
        let is_unknown = others.keys().any(|(api_version, kind)| plural(api_version, kind).is_none());
        let others = others.iter().map(|((api_version, kind), uses)| entry(api_version, kind, uses));
        let others = others.collect::<Vec<_>>().join(", ");
        let hint = if is_unknown { " (kubectl api-resources has the plural)" } else { "" };
        values.push(format!("templates.kinds: [{others}]{hint}"));
    }
    (!values.is_empty()).then(|| {
        format!(
            "Grant Copyrator the kinds: add these values of its chart: {}. The reconciler may then write all objects of each kind; with \
             use: [forEach] alone, it may only read them.",
            values.join("; ")
        )
    })
}

/// Returns the `apiVersion` and the kind of an object.
fn names(object: &TemplateObject) -> (&str, &str) {
    let text = |field: &str| object.template.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

/// Returns an entry of `templates.kinds`. The administrator replaces the placeholder `PLURAL`, which the
/// entry has if the plural is not known.
fn entry(api_version: &str, kind: &str, uses: &BTreeSet<&str>) -> String {
    let resource = plural(api_version, kind).unwrap_or("PLURAL");
    let uses = uses.iter().copied().collect::<Vec<_>>().join(", ");
    format!("{{apiVersion: {api_version}, kind: {kind}, resource: {resource}, use: [{uses}]}}")
}
