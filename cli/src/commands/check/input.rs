//! The input of a check: the objects to judge, the policies to judge them by, and the labels of namespaces.

use std::collections::BTreeMap;

use serde_json::Value;

use super::report::{Finding, Judged, Level};
use crate::{
    api::{GROUP, PolicyKind, VERSION},
    arguments::manifests::Document,
    model::Remark,
    validate::{idle_on_jobs, meant},
};

/// Our kinds that users write in files.
const OURS: [&str; 4] = ["CopyratorRule", "ConfigMonitor", "ConfigPolicy", "CopyratorTemplate"];

/// The input of a check.
pub(super) struct Input {
    /// The objects to judge, and the objects that judging needs.
    pub items: Vec<Item>,
    /// The number of objects of each other kind, which were left out.
    pub skipped: BTreeMap<String, usize>,
    /// Findings about objects whose apiVersion or kind looks misspelt, and about Jobs and CronJobs whose
    /// annotations have no effect.
    pub misspelt: Vec<Judged>,
    /// The namespace of Copyrator's own objects.
    pub own_namespace: String,
}

/// An object of a file.
pub(super) struct Item {
    /// The file, as the user named it.
    pub file: String,
    /// Where the object's document begins, from 1.
    pub line: u64,
    /// Which document of the file the object is in, from 1.
    pub document: usize,
    /// The item's index among all documents that were read. Items of a List have the same file, line and
    /// document, and differ only in this index.
    pub position: usize,
    pub kind: &'static str,
    /// The object's namespace; empty for kinds without namespaces.
    pub namespace: String,
    /// The object's name; empty if the API server will generate one.
    pub name: String,
    /// The object as the file has it.
    pub value: Value,
    /// Whether the object only provides its labels, and is not judged.
    pub is_context: bool,
}

impl Item {
    /// The kind, if policies can cover its objects.
    pub(super) fn policed(&self) -> Option<PolicyKind> {
        match self.kind {
            "ConfigMap" => Some(PolicyKind::ConfigMap),
            "Secret" => Some(PolicyKind::Secret),
            "Namespace" => Some(PolicyKind::Namespace),
            _ => None,
        }
    }

    /// `FILE:LINE` of the document.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl Input {
    /// Sorts documents. The check judges all objects of `files`; from `policies`, it uses only ConfigPolicies
    /// and the labels of Namespaces. Objects without a namespace belong to `home`.
    pub(super) fn new(
        files: Vec<Document>,
        policies: Vec<Document>,
        home: &str,
        own_namespace: &str,
    ) -> Self {
        let mut scene = Self {
            items: Vec::new(),
            skipped: BTreeMap::new(),
            misspelt: Vec::new(),
            own_namespace: own_namespace.to_owned(),
        };
        for document in policies {
            match item(document, home) {
                Ok(item) if item.kind == "ConfigPolicy" => scene.items.push(item),
                Ok(item) if item.kind == "Namespace" => {
                    scene.items.push(Item { is_context: true, ..item });
                }
                Ok(item) => scene.skip(item.kind),
                Err(other) => scene.leave_out(other),
            }
        }
        for document in files {
            match item(document, home) {
                Ok(item) => scene.items.push(item),
                Err(other) => scene.leave_out(other),
            }
        }
        scene.items.iter_mut().enumerate().for_each(|(position, item)| item.position = position);
        scene
    }

    /// Counts an object that the webhook does not judge, or reports it: as misspelt, or as a Job whose
    /// annotations have no effect.
    fn leave_out(&mut self, Document { file, line, number, value, .. }: Document) {
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        let annotations =
            value.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
        let idle = ["Job", "CronJob"].contains(&&*kind).then(|| annotations.map(|(key, _)| key.as_str()));
        let finding = match (idle.and_then(|keys| idle_on_jobs(&kind, keys)), looks_like(&version, &kind)) {
            (Some(idle), _) => {
                Finding::warned("annotations", format!("{}: {idle}", Remark::MALFORMED_ANNOTATION))
            }
            (None, Some(meant)) => {
                let what =
                    format!("apiVersion {version:?}, kind {kind:?} is not known, and not judged; {meant}");
                Finding::refused("manifest", None, what)
            }
            (None, None) => return self.skip(if kind.is_empty() { "(no kind)" } else { &kind }),
        };
        self.misspelt.push(Judged {
            file,
            line,
            document: number,
            position: 0,
            kind,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            allowed: finding.level != Level::Refused,
            findings: vec![finding],
        });
    }

    fn skip(&mut self, kind: &str) {
        *self.skipped.entry(kind.to_owned()).or_default() += 1;
    }
}

/// The kinds of Kubernetes itself that the check judges.
const CORE: [&str; 3] = ["ConfigMap", "Secret", "Namespace"];

/// Returns a hint if the apiVersion or kind of an unknown object looks misspelt.
fn looks_like(version: &str, kind: &str) -> Option<String> {
    let ours = format!("{GROUP}/{VERSION}");
    let (group, _) = version.split_once('/').unwrap_or((version, ""));
    let kind_of_ours = meant(kind, OURS);
    if group == GROUP
        || group.starts_with("copyrator")
        || kind_of_ours.is_some()
        || meant(version, [&*ours]).is_some()
    {
        let kinds = kind_of_ours.map_or_else(|| OURS.join(", "), str::to_owned);
        return Some(format!("did you mean apiVersion {ours}, kind {kinds}?"));
    }
    // Other API groups have kinds of these names, too.
    let is_core = ["", "v1", "V1"].contains(&version);
    let core = meant(kind, CORE).filter(|_| is_core)?;
    Some(format!("did you mean apiVersion v1, kind {core}?"))
}

/// Returns an item if the webhook judges this kind; otherwise the document unchanged.
fn item(document: Document, home: &str) -> Result<Item, Document> {
    let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let known = match version {
        "v1" => CORE.into_iter().find(|known| *known == kind),
        _ if version == format!("{GROUP}/{VERSION}") => OURS.into_iter().find(|known| *known == kind),
        _ => None,
    };
    let Some(kind) = known else { return Err(document) };
    let namespace = match (kind, text("/metadata/namespace")) {
        ("Namespace" | "ConfigPolicy", _) => "",
        (_, "") => home,
        (_, own) => own,
    };
    let (namespace, name) = (namespace.to_owned(), text("/metadata/name").to_owned());
    let Document { file, line, number, value, .. } = document;
    Ok(Item { file, line, document: number, position: 0, kind, namespace, name, value, is_context: false })
}
