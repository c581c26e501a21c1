//! The result of a check: the objects that were judged, and the findings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    admit::decide::{Breach, Effect},
    files::{Place, title},
};

/// The result of a check. It contains no value of a Secret.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Check")]
pub struct Report {
    /// Every object that was judged, by file, line and document.
    pub objects: Vec<Judged>,
    /// How many objects of which other kinds were left out.
    pub skipped: BTreeMap<String, usize>,
    /// What the templates render for the objects of `--object`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rendered: Vec<Rendered>,
    /// Notes about the files for a reader of the findings.
    pub notices: Vec<String>,
}

/// One object that a template renders for an instance.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// The template, as `namespace/name`.
    pub template: String,
    /// What it is rendered for: `Kind namespace/name`.
    pub instance: String,
    /// The id of the object in the template; `writeStatus` for fields of the instance's status.
    pub id: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub becomes: Becomes,
}

/// What becomes of one object of a template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Becomes {
    /// It is wanted as this.
    Object(Value),
    /// It is not wanted: its `includeWhen` is false, or it reads an object that is not wanted.
    Excluded(bool),
    /// It waits until these ids exist, and have a status where it reads that.
    WaitingFor(Vec<String>),
}

/// An object of a file, and the findings about it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    #[serde(flatten)]
    pub place: Place,
    pub kind: String,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name, or the prefix of the one that will be generated.
    pub name: String,
    /// Whether the webhook would accept it, as far as that can be told.
    pub allowed: bool,
    /// What was found, in the order in which the webhook names it.
    pub findings: Vec<Finding>,
}

/// One finding about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Verdict")]
pub struct Finding {
    /// What the finding means for the write.
    pub level: Level,
    /// The policy, if a policy found it.
    pub policy: Option<String>,
    /// The policy's rule, by name or by field; else `spec`, `annotations` or `manifest`, for what is wrong
    /// with the object itself.
    pub rule: String,
    pub key: Option<String>,
    /// The line in the key's value, from 1.
    pub line: Option<u64>,
    /// The column in it, from 1.
    pub column: Option<u64>,
    /// The sentence that the webhook says.
    pub message: String,
    /// What to do about it, where the message does not end with it.
    pub fix: Option<String>,
}

/// What a finding means for the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The object would be refused.
    Refused,
    /// Its writer would be warned.
    Warned,
    /// The audit log would tell of it.
    Noted,
    /// A policy that cannot be judged offline.
    Unknown,
}

impl Finding {
    /// A refusal that the object itself causes, not a policy.
    pub fn refused(rule: &str, key: Option<&str>, message: String) -> Self {
        let key = key.map(str::to_owned);
        Self {
            level: Level::Refused,
            policy: None,
            rule: rule.into(),
            key,
            line: None,
            column: None,
            message,
            fix: None,
        }
    }

    /// A warning about the object itself, not from a policy.
    pub(super) fn warned(rule: &str, message: String) -> Self {
        Self { level: Level::Warned, ..Self::refused(rule, None, message) }
    }

    /// A policy that cannot be judged, since no file has the labels that it depends on.
    pub(super) fn unknown(policy: &str, message: String) -> Self {
        let rule = "match.namespaceSelector";
        Self { level: Level::Unknown, policy: Some(policy.into()), ..Self::refused(rule, None, message) }
    }
}

impl Finding {
    /// A stable id of the broken rule: `POLICY/RULE`, or `copyrator/RULE` for findings without a policy.
    pub(super) fn rule_id(&self) -> String {
        format!("{}/{}", self.policy.as_deref().unwrap_or("copyrator"), self.rule)
    }
}

impl From<Breach> for Finding {
    fn from(breach: Breach) -> Self {
        let Breach { policy, violation, effect, message } = breach;
        Self {
            level: match effect {
                Effect::Refused => Level::Refused,
                Effect::Warned => Level::Warned,
                Effect::Noted => Level::Noted,
            },
            policy: Some(policy.to_string()),
            rule: violation.rule,
            key: violation.key,
            line: violation.place.map(|place| place.line),
            column: violation.place.map(|place| place.column),
            message,
            fix: Some(violation.fix.into_owned()),
        }
    }
}

impl Judged {
    /// The object as messages name it: `Kind namespace/name`.
    pub(super) fn title(&self) -> String {
        title(&self.kind, &self.namespace, &self.name)
    }

    /// How many findings have this level.
    pub(super) fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Whether the object does not pass the check.
    pub(super) fn is_failed(&self, strict: bool) -> bool {
        !self.allowed || strict && !self.findings.is_empty()
    }
}

impl Report {
    /// Whether the check does not pass.
    pub(super) fn is_failed(&self, strict: bool) -> bool {
        self.objects.iter().any(|object| object.is_failed(strict))
    }

    /// The objects with findings.
    pub(super) fn found(&self) -> impl Iterator<Item = &Judged> {
        self.objects.iter().filter(|object| !object.findings.is_empty())
    }

    /// How many findings of all objects have this level.
    pub(super) fn count(&self, level: Level) -> usize {
        self.objects.iter().map(|object| object.count(level)).sum()
    }
}
