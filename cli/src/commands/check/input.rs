//! The input of a check: the objects to judge, the policies to judge them by, and the labels of namespaces.

use std::collections::BTreeMap;

use serde_json::Value;

use super::report::{Finding, Judged, Level};
use crate::{
    files::{Document, FileKind, Item, item, meant_kind},
    model::Remark,
    validate::idle_on_jobs,
};

/// The input of a check.
#[derive(Default)]
pub(super) struct Input {
    /// The objects to judge.
    pub items: Vec<Item>,
    /// Namespaces that only provide their labels.
    pub context: Vec<Item>,
    /// The number of objects of each other kind, which were left out.
    pub skipped: BTreeMap<String, usize>,
    /// Findings about objects whose apiVersion or kind looks misspelt, and about Jobs and CronJobs whose
    /// annotations have no effect.
    pub misspelt: Vec<Judged>,
    /// The namespace of Copyrator's own objects.
    pub own_namespace: String,
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
        let mut input = Self { own_namespace: own_namespace.to_owned(), ..Self::default() };
        for document in policies {
            match item(document, home) {
                Ok(item) if item.of.kind == FileKind::Policy => input.items.push(item),
                Ok(item) if item.of.kind == FileKind::Namespace => input.context.push(item),
                Ok(item) => input.skip(item.of.kind.as_str()),
                Err(other) => input.leave_out(other),
            }
        }
        for document in files {
            match item(document, home) {
                Ok(item) => input.items.push(item),
                Err(other) => input.leave_out(other),
            }
        }
        input
    }

    /// Counts an object that the webhook does not judge, or reports it: as misspelt, or as a Job whose
    /// annotations have no effect.
    fn leave_out(&mut self, document: Document) {
        let (version, kind) = (document.text("/apiVersion"), document.text("/kind"));
        let annotations = document.value.pointer("/metadata/annotations").and_then(Value::as_object);
        let annotations = annotations.into_iter().flatten().map(|(key, _)| key.as_str());
        let idle = if ["Job", "CronJob"].contains(&kind) { idle_on_jobs(kind, annotations) } else { None };
        let finding = match (idle, meant_kind(version, kind)) {
            (Some(idle), _) => {
                Finding::warned("annotations", format!("{}: {idle}", Remark::MALFORMED_ANNOTATION))
            }
            (None, Some(meant)) => {
                let what =
                    format!("apiVersion {version:?}, kind {kind:?} is not known, and not judged; {meant}");
                Finding::refused("manifest", None, what)
            }
            (None, None) => return self.skip(if kind.is_empty() { "(no kind)" } else { kind }),
        };
        self.misspelt.push(Judged {
            kind: kind.to_owned(),
            namespace: document.text("/metadata/namespace").to_owned(),
            name: document.text("/metadata/name").to_owned(),
            allowed: finding.level != Level::Refused,
            findings: vec![finding],
            place: document.place,
        });
    }

    fn skip(&mut self, kind: &str) {
        *self.skipped.entry(kind.to_owned()).or_default() += 1;
    }
}
