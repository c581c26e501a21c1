//! What is wrong, on which object, and the command that fixes it.

use clap::ValueEnum;
use serde::Serialize;

use super::facts::Unread;

/// Everything that may be found, by a name that does not change. `docs/doctor.md` says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Id {
    NotInstalled,
    ServerTooOld,
    CrdMissing,
    CrdOld,
    CopiesHeld,
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
    CaNotTrusted,
    WebhookDown,
    PodsNotReady,
    LabelMissing,
    ForeignFailHook,
}

impl Id {
    /// As `-o json`, `--ignore` and the documents name it.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// How bad it is. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    /// Something does not work.
    Error,
    /// It works, and may not for long, or not as safely as it should.
    Warning,
    /// It could not be looked at.
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

/// One thing that is wrong. In the order in which it is shown: the worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) id: Id,
    /// Kind and name, the namespace before it.
    pub(super) object: String,
    /// What is wrong with it, and what that means.
    pub(super) what: String,
    /// A command.
    pub(super) fix: String,
}

/// What is found, one by one.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Whether anything of this sort was found.
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

    /// What could not be looked at is not in order: it is not known.
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

    /// Machines read it: fields may come, none goes or is called otherwise.
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
