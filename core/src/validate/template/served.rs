//! What the operator acts on so far. The compiler understands more, so that `check` can judge and render it.

use super::{CompiledObject, CompiledTemplate, node::Node};
use crate::{
    api::{ConflictPolicy, Problem, ResourceType, TemplateObject},
    names::Kind,
    paths::is_content,
    validate::invalid,
};

/// The kind of an object of a template; `None` where objects of that kind are not rendered yet.
pub fn rendered_kind(object: &CompiledObject) -> Option<Kind> {
    kind_of(&object.api_version, &object.kind)
}

/// The same of an object as it is written.
pub fn written_kind(object: &TemplateObject) -> Option<Kind> {
    let text = |field: &str| object.template[field].as_str().unwrap_or_default();
    kind_of(text("apiVersion"), text("kind"))
}

/// The kinds that are written, without Secrets: everybody who may read a template would read their values.
fn rendered() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| *kind != Kind::Secret)
}

fn kind_of(api_version: &str, kind: &str) -> Option<Kind> {
    let is_one = |known: &Kind| {
        let resource = known.resource();
        resource.api_version == api_version && resource.kind == kind
    };
    rendered().find(is_one)
}

/// Everything in a template that the operator does not act on yet. Admission refuses it, and a template that
/// has any is not rendered.
pub fn unserved(template: &CompiledTemplate) -> Vec<Problem> {
    let mut problems = Vec::new();
    if template.resync.is_some() {
        problems.push(invalid(
            "spec.resync",
            "is not served yet: objects are rendered when the namespace changes",
        ));
    }
    let named = template.objects.iter().filter_map(rendered_kind).find(|kind| !kind.is_copied());
    if let (Some(kind), ConflictPolicy::Adopt | ConflictPolicy::Overwrite) = (named, template.conflict) {
        let what = format!("only Refuse is taken with a {kind}: of those of others nothing is known");
        problems.push(invalid("spec.conflictPolicy", what));
    }
    for object in &template.objects {
        if let Node::Fields(fields) = &object.body {
            let names = fields.iter().map(|(name, _)| name.as_str());
            let left_out =
                names.filter(|name| !is_content(name) && !["apiVersion", "kind", "metadata"].contains(name));
            problems.extend(left_out.map(|name| {
                let what = "is left to controllers and to the namespace's owner: leave it out";
                invalid(&format!("spec.objects[{}].template.{name}", object.id), what)
            }));
        }
        let at = format!("spec.objects[{}]", object.id);
        if rendered_kind(object).is_none() {
            let kinds: Vec<String> = rendered().map(|kind| kind.resource()).map(said).collect();
            let CompiledObject { kind, api_version, .. } = object;
            let what = format!("{kind} of {api_version} is not served yet: {} are", kinds.join(", "));
            problems.push(invalid(&format!("{at}.template.kind"), what));
        }
    }
    problems
}

fn said(resource: ResourceType) -> String {
    match resource.group {
        "" => resource.kind.to_owned(),
        group => format!("{}.{group}", resource.kind),
    }
}
