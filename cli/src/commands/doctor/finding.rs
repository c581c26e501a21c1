//! A finding of the doctor: what is wrong, with which object, and the command that fixes it.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::facts::Unread;

/// The checks, by ids that never change. `docs/doctor.md` explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Id {
    NotInstalled,
    ServerTooOld,
    CrdMissing,
    CrdOld,
    CopiesHeld,
    StrayMarks,
    PolicyMissing,
    PolicyChanged,
    RightMissing,
    RightTooMany,
    LeaseStale,
    LeaseStolen,
    DigestKeyMissing,
    CaMissing,
    CaExpiring,
    RotationHeld,
    HooksMissing,
    HooksOff,
    HooksDrifted,
    PolicyOff,
    CaNotTrusted,
    WebhookDown,
    PodsNotReady,
    LabelMissing,
    ObjectUnreadable,
    ListFailing,
    ForeignFailHook,
}

impl Id {
    /// The finding's id in `-o json`, `--ignore` and the documents.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// How serious a finding is. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// It works, and may soon fail, or is less safe than it should be.
    Warning,
    /// It could not be checked.
    Unknown,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
        }
    }
}

/// One finding. Ordered as shown: the worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Finding {
    pub severity: Severity,
    pub id: Id,
    /// Kind and name, after the namespace.
    pub object: String,
    /// What is wrong, and what that means.
    pub what: String,
    /// The command that fixes it.
    pub fix: String,
}

/// The findings of all checks, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Whether a finding has this id.
    pub(super) fn has(&self, id: Id) -> bool {
        self.0.iter().any(|finding| finding.id == id)
    }

    pub(super) fn error(
        &mut self,
        id: Id,
        object: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Error, id, object.into(), what.into(), fix.into());
    }

    pub(super) fn warning(
        &mut self,
        id: Id,
        object: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warning, id, object.into(), what.into(), fix.into());
    }

    /// Marks these checks as unknown, since a fact could not be read.
    pub(super) fn unknown(&mut self, ids: &[Id], unread: &Unread) {
        for id in ids {
            self.add(Severity::Unknown, *id, unread.object(), unread.what(), unread.fix());
        }
    }

    fn add(&mut self, severity: Severity, id: Id, object: String, what: String, fix: String) {
        self.0.push(Finding { severity, id, object, what, fix });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machines read findings: fields may be added, and none removed or renamed.
    #[test]
    fn a_finding_keeps_its_form() {
        let mut found = Findings::default();
        found.warning(Id::ForeignFailHook, "hook theirs", "it may refuse", "kubectl edit");
        let expected = serde_json::json!([{
            "severity": "warning", "id": "foreign-fail-hook", "object": "hook theirs", "what": "it may refuse", "fix": "kubectl edit",
        }]);
        assert_eq!(serde_json::to_value(&found.0).unwrap(), expected);
    }
}
