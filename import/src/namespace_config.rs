//! Import from namespace-configuration-operator: a NamespaceConfig chooses namespaces by labels and
//! annotations, and writes manifests that are Go templates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::{
    expressions::{Expressions, NAMESPACE, required},
    finding::{Finding, Origin, Tool, differs, none},
    go_template::{Manifest, cel, manifest},
    options::Options,
    targets::requirements,
    templates::{DraftObject, DraftTemplate, TemplateDraft, lacks},
};
use crate::api::TargetTerm;

/// Paths that the operator lets other writers change, whatever a template declares.
const ALWAYS_EXCLUDED: [&str; 3] = [".metadata", ".status", ".spec.replicas"];

/// A NamespaceConfig, read from its manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceConfig {
    name: String,
    /// The spec without the templates.
    spec: Value,
    templates: Vec<Manifested>,
}

/// A template of a NamespaceConfig.
#[derive(Clone, Debug, PartialEq)]
enum Manifested {
    /// The text is a manifest of a Secret, whose content is dropped.
    Secret,
    /// The text is not a manifest, even without its actions.
    Unread,
    /// The parsed text, and the paths that other writers may change.
    Read(Manifest, Vec<String>),
}

impl NamespaceConfig {
    pub(super) fn read(document: &Value, name: &str) -> Self {
        let mut spec = document["spec"].clone();
        let templates =
            spec.as_object_mut().and_then(|fields| fields.remove("templates")).unwrap_or_default();
        let read = |template: &Value| {
            let paths = template["excludedPaths"].as_array().into_iter().flatten();
            let paths = paths.filter_map(|path| path.as_str().map(str::to_owned)).collect();
            match manifest(template["objectTemplate"].as_str().unwrap_or_default()) {
                Some(manifest) if manifest.object["kind"] == "Secret" => Manifested::Secret,
                Some(manifest) => Manifested::Read(manifest, paths),
                None => Manifested::Unread,
            }
        };
        let templates = templates.as_array().into_iter().flatten().map(read).collect();
        Self { name: name.into(), spec, templates }
    }
}

/// Converts a NamespaceConfig to a draft.
pub(super) fn draft(config: &NamespaceConfig, options: &Options) -> TemplateDraft {
    let origin = Origin::new(Tool::NamespaceConfig, "NamespaceConfig", "", &config.name);
    let mut findings = Vec::new();
    let mut draft = DraftTemplate::of(config.name.clone());
    draft.home = options.home.clone();
    let known = ["labelSelector", "annotationSelector"];
    for field in config.spec.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if !known.contains(&field.as_str()) {
            let told = "is a field that import does not know, so import makes no template: without this field, the template could select \
             more namespaces";
            findings.push(none(&format!("spec.{field}"), told));
        }
    }
    let mut selector = |field: &str| match &config.spec[field] {
        Value::Null => Some(LabelSelector::default()),
        value => serde_json::from_value(value.clone())
            .map_err(|_| {
                findings.push(none(
                    &format!("spec.{field}"),
                    "is not a label selector, so import makes no template",
                ))
            })
            .ok(),
    };
    let (labels, annotations) = (selector("labelSelector"), selector("annotationSelector"));
    let (Some(labels), Some(annotations), false) = (labels, annotations, lacks(&findings)) else {
        return TemplateDraft { origin, findings, template: None };
    };
    if config.templates.is_empty() {
        findings.push(differs("spec.templates", "is empty, so import makes no template"));
        return TemplateDraft { origin, findings, template: None };
    }
    draft.terms = vec![TargetTerm { namespace_selector: Some(labels), names: None }];
    draft.exclude = ["default", "kube-*", "openshift-*"].map(str::to_owned).to_vec();
    draft.conditions =
        requirements(&annotations).iter().map(|one| required(NAMESPACE, "annotations", one)).collect();
    for (index, template) in config.templates.iter().enumerate() {
        let about = format!("spec.templates[{index}]");
        match template {
            Manifested::Secret => findings.push(none(&about, SECRET)),
            Manifested::Unread => findings.push(none(
                &about,
                "is not a valid manifest without its actions (such as {{ if }} or {{ range }}): write one object for each case, with \
                 includeWhen",
            )),
            Manifested::Read(manifest, paths) => {
                let said = said(&about, manifest, &mut findings);
                draft.objects.extend(said.map(|mut object| {
                    object.findings.push(excluded(&about, paths));
                    object
                }));
            }
        }
    }
    findings.extend([
        differs(
            "excludeNamespaces",
            "the template excludes default, kube-* and openshift-*, as namespace-configuration-operator does unless its \
             ALLOW_SYSTEM_NAMESPACES is set",
        ),
        differs(
            "deletionGrace",
            "Copyrator deletes an object that the template no longer declares for its namespace after 5 minutes, not at once \
             (deletionGrace: 0s)",
        ),
        differs(
            "uninstall",
            "when you delete a NamespaceConfig, its operator deletes its objects, also those that Copyrator has taken over: stop the \
             operator, remove the finalizers from the NamespaceConfig, then delete it",
        ),
    ]);
    TemplateDraft { origin, findings, template: Some(draft) }
}

pub(super) const SECRET: &str = "a template renders no Secret, because everyone who may read the template could read the Secret's values: \
 create the Secret in one namespace, and copy it with a CopyratorRule";

/// Converts a manifest to an object of a template; `None`, with a finding, if the manifest has no equivalent.
fn said(about: &str, manifest: &Manifest, findings: &mut Vec<Finding>) -> Option<DraftObject> {
    let namespace = &manifest.object["metadata"]["namespace"];
    if namespace != "{{ .Name }}" {
        let where_ = match namespace.as_str() {
            Some(_) => "metadata.namespace is not {{ .Name }}",
            None => "metadata.namespace is missing",
        };
        let told =
            format!("{where_}: a template makes objects only in the namespace for which it is rendered");
        findings.push(none(about, told));
        return None;
    }
    let mut expressions = Expressions::new(cel, &[]);
    let body = expressions.value(&manifest.object);
    if !expressions.lost.is_empty() {
        let lost = expressions.lost.join(", ");
        findings.push(none(
            about,
            format!("import skips this object, because it cannot translate these expressions with certainty: {lost}. Write the object by \
             hand, with CEL in ${{…}}"),
        ));
        return None;
    }
    let name = body["metadata"]["name"].clone();
    let mut object = DraftObject::of(about, &body, name);
    if !manifest.bare.is_empty() {
        let bare = manifest.bare.join(", ");
        let told = format!(
            "{bare} has no quotes in the original, so a value like 3 or true is a number or boolean there, but a string in the template: \
             if the field is not a string, write ${{int(…)}} or ${{bool(…)}}"
        );
        object.findings.push(differs(about, told));
    }
    Some(object)
}

fn excluded(about: &str, paths: &[String]) -> Finding {
    let mut all: Vec<&str> = ALWAYS_EXCLUDED.to_vec();
    all.extend(paths.iter().map(String::as_str).filter(|path| !ALWAYS_EXCLUDED.contains(path)));
    differs(
        &format!("{about}.excludedPaths"),
        format!(
            "with namespace-configuration-operator, other writers may change {}; Copyrator restores each field that the template names, \
             so leave out the fields that others are to change",
            all.join(", ")
        ),
    )
}
