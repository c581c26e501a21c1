//! Assembly of drafts into templates that can be applied. The validator checks each object, and objects that
//! it refuses are left out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use super::{
    expressions::all_of,
    finding::{Finding, Level, Origin, Tool, differs, none},
    imported::{Made, Proposal},
    targets::{MOST, listed, named, without_system},
};
use crate::{
    api::{
        ConflictPolicy, CopyratorTemplate, CopyratorTemplateSpec, DeletionPolicy, ForEach, InstanceSpec,
        Problem, TargetTerm, TemplateObject,
    },
    marks::never_carried,
    names::{Kind, NameKind},
    unique_names::Names,
    validate::CompiledTemplate,
};

/// The request of one policy, before it is validated.
pub(super) struct TemplateDraft {
    pub(super) origin: Origin,
    pub(super) findings: Vec<Finding>,
    pub(super) template: Option<DraftTemplate>,
}

/// A template before it is named and validated.
pub(super) struct DraftTemplate {
    /// The end of the template's name.
    pub(super) stem: String,
    /// The namespace of the template, if the user or the policy names one.
    pub(super) home: Option<String>,
    /// Terms on the namespaces, or on the namespaces of the objects.
    pub(super) terms: Vec<TargetTerm>,
    pub(super) exclude: Vec<String>,
    /// The objects for which the template is rendered, without namespaces; `None` if the template is rendered
    /// for namespaces.
    pub(super) instances: Option<InstanceSpec>,
    /// Conditions on the namespace or object in CEL, all of which must hold.
    pub(super) conditions: Vec<String>,
    pub(super) objects: Vec<DraftObject>,
    pub(super) deletion: DeletionPolicy,
}

/// An object of a template.
pub(super) struct DraftObject {
    /// The field of the policy that declares the object.
    pub(super) about: String,
    pub(super) body: Value,
    /// Findings that count only if the object is made.
    pub(super) findings: Vec<Finding>,
}

impl DraftTemplate {
    pub(super) fn of(stem: String) -> Self {
        Self {
            stem,
            home: None,
            terms: Vec::new(),
            exclude: Vec::new(),
            instances: None,
            conditions: Vec::new(),
            objects: Vec::new(),
            deletion: DeletionPolicy::Delete,
        }
    }

    fn spec(&self, objects: Vec<TemplateObject>) -> CopyratorTemplateSpec {
        let for_each = match &self.instances {
            None => ForEach {
                namespaces: Some(self.terms.clone()),
                exclude_namespaces: self.exclude.clone(),
                objects: None,
            },
            Some(of_kind) => {
                let own = named(self.home.iter().cloned().collect());
                // The template's own namespace need not be named.
                let namespaces = self.terms.iter().filter(|_| !self.terms.iter().eq(&own)).cloned().collect();
                ForEach {
                    objects: Some(InstanceSpec { namespaces, ..of_kind.clone() }),
                    ..ForEach::default()
                }
            }
        };
        CopyratorTemplateSpec {
            for_each,
            objects,
            deletion_policy: self.deletion,
            suspend: true,
            ..CopyratorTemplateSpec::default()
        }
    }
}

impl DraftObject {
    /// Returns an object of this name, without metadata that only the other tool or Kubernetes sets.
    pub(super) fn of(about: &str, body: &Value, name: Value) -> Self {
        let mut findings = Vec::new();
        let mut object: Map<String, Value> = without_nulls(body).as_object().cloned().unwrap_or_default();
        let mut metadata = body["metadata"].as_object().cloned().unwrap_or_default();
        metadata.retain(|field, _| !["namespace", "creationTimestamp"].contains(&field.as_str()));
        metadata.insert("name".into(), name);
        for field in ["labels", "annotations"] {
            let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) else { continue };
            let marks: Vec<String> = entries.keys().filter(|key| never_carried(key)).cloned().collect();
            entries.retain(|key, _| !never_carried(key));
            if !marks.is_empty() {
                let told = "left out by import: the tool that uses this label or annotation would treat the object as its own";
                findings.push(differs(about, format!("{} is {told}", marks.join(", "))));
            }
        }
        object.insert("metadata".into(), metadata.into());
        Self { about: about.into(), body: object.into(), findings }
    }
}

/// Returns the value without null fields.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Names and validates the drafts.
pub(super) fn proposals(mut drafts: Vec<TemplateDraft>) -> Vec<Proposal> {
    drafts.sort_by_cached_key(|draft| draft.origin.clone());
    let mut names = Names::default();
    drafts.into_iter().map(|draft| draft.finish(&mut names)).collect()
}

impl TemplateDraft {
    fn finish(mut self, names: &mut Names) -> Proposal {
        let template =
            self.template.take().and_then(|draft| checked(draft, self.origin.tool, &mut self.findings));
        if template.is_none() {
            // Without a template, only the reason for that matters, and not the findings about the template's
            // behaviour.
            let why = self.findings.iter().map(|finding| finding.level).min();
            self.findings.retain(|finding| Some(finding.level) == why);
        }
        let made = template.map(|(home, stem, spec)| {
            let metadata = names.take(&home, None, self.origin.tool, &stem);
            Made::Template(CopyratorTemplate { metadata, spec, status: None })
        });
        self.findings.sort();
        self.findings.dedup();
        Proposal { origins: vec![self.origin], findings: self.findings, made }
    }
}

/// Returns the template, if it can be applied and selects something; otherwise adds a finding.
fn checked(
    mut draft: DraftTemplate,
    tool: Tool,
    findings: &mut Vec<Finding>,
) -> Option<(String, String, CopyratorTemplateSpec)> {
    draft.terms = listed(without_system(std::mem::take(&mut draft.terms), findings));
    if draft.terms.is_empty() {
        findings
            .push(none("namespaces", "the template would select no namespace, so import makes no template"));
        return None;
    }
    let condition = all_of(&draft.conditions);
    if let Some(wrong) = bounds(&draft, condition.as_deref()) {
        findings.push(none("template", format!("import makes no template: {wrong}")));
        return None;
    }
    let mut objects: Vec<TemplateObject> = Vec::new();
    for DraftObject { about, body, findings: if_made } in std::mem::take(&mut draft.objects) {
        let id = id(&body, &objects);
        let object = TemplateObject {
            id,
            include_when: condition.clone(),
            template: body,
            ..TemplateObject::default()
        };
        match CompiledTemplate::check_manifests(&draft.spec(vec![object.clone()])) {
            Ok(()) => {
                objects.push(object);
                findings.extend(if_made);
            }
            Err(problems) => {
                let told = |one: &Problem| none(&about, format!("import skips this object: {}", one.message));
                findings.extend(problems.iter().map(told));
            }
        }
    }
    if objects.is_empty() {
        return None;
    }
    let Some(home) = draft.home.clone().filter(|home| NameKind::Namespace.is_name(home)) else {
        let told = "import makes no template, because the source is cluster-scoped and a template is namespaced: pass --source-namespace \
         NAMESPACE (or -n), where you will apply the template";
        findings.push(none("metadata.namespace", told));
        return None;
    };
    let mut spec = draft.spec(objects);
    if let Some(of_kind) = &mut spec.for_each.objects {
        of_kind.object_selector.take_if(|labels| *labels == LabelSelector::default());
    }
    // An adopted object gets no owner, so Kubernetes would not delete the adopted object together with its
    // instance.
    if spec.for_each.objects.is_none() && spec.objects.iter().all(is_taken_over) {
        spec.conflict_policy = ConflictPolicy::Adopt;
    }
    findings.extend(behaviour(&spec, tool));
    match CompiledTemplate::compile_served(&spec) {
        Ok(_) => Some((home, draft.stem, spec)),
        Err(problems) => {
            let told = problems
                .into_iter()
                .map(|one| none("template", format!("import makes no template: {}", one.message)));
            findings.extend(told);
            None
        }
    }
}

/// Returns why the schema or the API server would refuse a draft that the validator accepts.
fn bounds(draft: &DraftTemplate, condition: Option<&str>) -> Option<&'static str> {
    let of_objects = draft.instances.iter().filter_map(|of_kind| of_kind.names.as_ref()).flatten();
    let names = draft.terms.iter().filter_map(|term| term.names.as_ref()).flatten();
    let mut globs = names.chain(&draft.exclude).chain(of_objects.clone());
    if !NameKind::Object.is_name(&draft.stem) {
        Some("the template's name is not a valid object name")
    } else if draft.terms.len() > MOST || draft.exclude.len() > MOST {
        Some("the template has more than 64 terms or exclusions: select the namespaces by label")
    } else if of_objects.count() > MOST {
        Some("the template has more than 64 names of objects: select the objects by label")
    } else if globs.any(|glob| glob.len() > 253) {
        Some("a glob in the template has more than 253 characters")
    } else if condition.is_some_and(|condition| condition.len() > 4096) {
        Some("the template's conditions have more than 4,096 characters")
    } else {
        None
    }
}

/// Whether Copyrator adopts an existing object of this kind that has the same content.
fn is_taken_over(object: &TemplateObject) -> bool {
    kind(object).is_some_and(Kind::is_copied)
}

/// Returns the kind of an object, if [`Kind`] has the kind.
pub(super) fn kind(object: &TemplateObject) -> Option<Kind> {
    let text = |field: &str| object.template[field].as_str().unwrap_or_default();
    Kind::written_as(text("apiVersion"), text("kind"))
}

/// Returns an identifier that no other object of the template has: the kind, with a number if several objects
/// have the kind.
fn id(template: &Value, others: &[TemplateObject]) -> String {
    let kind = template["kind"].as_str().unwrap_or_default();
    let kind: String = kind.chars().filter(char::is_ascii_alphanumeric).take(50).collect();
    let mut letters = kind.chars();
    let stem: String =
        letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect();
    let taken = |id: &String| others.iter().any(|other| other.id == *id);
    let numbered = (2..=others.len() + 1).map(|number| format!("{stem}{number}"));
    std::iter::once(stem.clone()).chain(numbered).find(|id| !taken(id)).unwrap_or(stem)
}

/// Returns the differences that apply to every template, and the differences that the template's expressions
/// cause.
fn behaviour(spec: &CopyratorTemplateSpec, tool: Tool) -> Vec<Finding> {
    let (objects, of_kind) = (&spec.objects, spec.for_each.objects.as_ref());
    let of = |object: &TemplateObject| {
        object.template.to_string() + object.include_when.as_deref().unwrap_or_default()
    };
    let text = objects.iter().map(of).collect::<String>();
    let rights = match of_kind {
        None => "create, patch and delete the objects in every namespace that the template selects".into(),
        Some(of_kind) => {
            let place = if of_kind.namespaces.is_empty() {
                "in the template's namespace"
            } else {
                "in the selected namespaces"
            };
            format!(
                "get and list objects of kind {} {place}, and to create, patch and delete the template's objects there",
                of_kind.kind
            )
        }
    };
    let rights = format!(
        "the user who applies the template must be allowed to {rights}; {tool} uses the rights of its own ServiceAccount"
    );
    let mut findings = vec![differs("authority", rights), conflict(spec, tool)];
    let reads_entries = text.contains(".labels[") || text.contains(".annotations[");
    // Every object has these three fields.
    let is_always = |path: &str| {
        ["name", "namespace", "uid"].iter().any(|field| path.starts_with(&format!("metadata.{field}")))
    };
    let reads_fields =
        |path: &str| !["?", "kind", "apiVersion", "metadata."].iter().any(|start| path.starts_with(start));
    let mut paths = text.split("object.").skip(1).filter(|path| !is_always(path));
    if reads_entries || of_kind.is_some() && paths.any(reads_fields) {
        let there = match tool {
            Tool::NamespaceConfig => {
                "writes <no value>, or an empty string for a label or annotation that is read by index"
            }
            _ => "fails the rule",
        };
        let told = match of_kind {
            None => "if a namespace lacks a label or annotation that an expression reads without a default, the template changes nothing \
             there and reports RenderFailed"
                .into(),
            Some(of_kind) => format!(
                "if a {} lacks a label, annotation or field that an expression reads without a default, the template leaves the existing \
                 objects as they are and reports RenderFailed",
                of_kind.kind
            ),
        };
        findings.push(differs("expressions", format!("{told}; {tool} {there}")));
    }
    if text.split(".orValue(").skip(1).any(|rest| !rest.starts_with("'')")) {
        findings.push(differs(
            "expressions",
            match of_kind {
                None => "a default replaces a missing label or annotation; in JMESPath it also replaces an empty one",
                Some(_) => "a default replaces a missing value; in JMESPath it also replaces an empty or false value",
            },
        ));
    }
    findings
}

/// Returns the finding about objects that exist already.
fn conflict(spec: &CopyratorTemplateSpec, tool: Tool) -> Finding {
    if spec.conflict_policy == ConflictPolicy::Adopt {
        let told = format!(
            "Copyrator takes over an existing object with the same content, and reports any other as a conflict. {tool} overwrites it"
        );
        return differs("conflictPolicy", told);
    }
    let foreign: Vec<&str> = spec
        .objects
        .iter()
        .filter(|one| !is_taken_over(one))
        .filter_map(|one| one.template["kind"].as_str())
        .collect();
    let why = match foreign.as_slice() {
        [] => "the template sets the instance as owner of its objects".into(),
        foreign => format!("the template renders a {}", foreign.join(", ")),
    };
    differs(
        "conflictPolicy",
        format!(
            "Copyrator does not take over existing objects, because {why}: it reports each as Conflict. Once {tool} no longer manages the \
             object, delete it; Copyrator creates its own within five minutes"
        ),
    )
}

/// Whether any finding reports a missing equivalent.
pub(super) fn lacks(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::NoEquivalent)
}
