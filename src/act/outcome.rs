//! What an answer of the API server means for a write of ours. Named once, here; tried on a real server.

use std::time::Duration;

use kube::{Error, error::Status};

use crate::cluster::is_refusal;

/// The reason of a problem that our own account lacks a right: the administrator of the cluster mends that.
pub(crate) const FORBIDDEN: &str = "Forbidden";
/// The reason of a problem that passes, or that the API server says nothing useful of.
pub(crate) const FAILED: &str = "Failed";

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, or there is nothing left to do.
    Done,
    /// What it was decided on has changed: the watch tells, and the key is planned again.
    Stale,
    /// The namespace is gone or going; an event of it plans again if need be.
    NamespaceGone,
    /// An update can't do it: only deletion and creation anew.
    NeedsReplacing(String),
    /// The API server, a policy or another webhook refused it; tried again slowly.
    Refused {
        /// One word for the status.
        reason: &'static str,
        /// What the API server said, without values.
        message: String,
    },
    /// It may succeed soon.
    Retry {
        /// Not before this has passed, where the API server said so.
        after: Option<Duration>,
        /// One word for the status: `Forbidden` where our own account lacks the right, else `Failed`.
        reason: &'static str,
        /// What went wrong.
        message: String,
    },
    /// We do not lead any more: nothing was written.
    NotLeading,
}

impl Outcome {
    /// It did not succeed, and may soon.
    pub(crate) fn retry(message: String) -> Self {
        Self::Retry { after: None, reason: FAILED, message }
    }

    /// A word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::NamespaceGone => "namespace_gone",
            Self::NeedsReplacing(_) => "needs_replacing",
            Self::Refused { .. } => "refused",
            Self::Retry { .. } => "retry",
            Self::NotLeading => "not_leading",
        }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) => api_outcome(&status),
            other => Self::retry(other.to_string()),
        }
    }
}

/// An error in a few words, without values.
pub(super) fn brief(error: &Error) -> String {
    match error {
        Error::Api(status) => readable(status),
        other => other.to_string(),
    }
}

fn api_outcome(status: &Status) -> Outcome {
    let details = status.details.as_ref();
    let causes = details.map_or(&[][..], |details| &details.causes);
    let about_namespace = details.is_some_and(|details| details.kind == "namespaces");
    let caused_by = |reason: &str| causes.iter().any(|cause| cause.reason == reason);
    let about_field = |field: &str| causes.iter().any(|cause| cause.field == field);
    let retry_after = details.map_or(0, |details| details.retry_after_seconds);
    let after = (retry_after > 0).then(|| Duration::from_secs(retry_after.into()));
    if let Some(message) = lacking_right(status) {
        // Also what an API server says to everybody until it has read its roles, some seconds after its
        // start.
        return Outcome::Retry { after, reason: FORBIDDEN, message };
    }
    match status.code {
        404 if about_namespace => Outcome::NamespaceGone,
        404 => Outcome::Stale,
        403 if caused_by("NamespaceTerminating") => Outcome::NamespaceGone,
        409 => Outcome::Stale,
        413 => Outcome::Refused { reason: "TooLarge", message: readable(status) },
        422 if about_field("metadata.uid") => Outcome::Stale,
        // Both together happen; what is impossible for an update decides.
        422 if about_field("immutable") || about_field("type") || is_immutable_data(status) => {
            Outcome::NeedsReplacing(readable(status))
        }
        400..=499 if status.code != 429 || is_refusal(status) => {
            Outcome::Refused { reason: "Refused", message: readable(status) }
        }
        _ => Outcome::Retry { after, reason: FAILED, message: readable(status) },
    }
}

/// The right that our own account lacks for a request, and what mends it, if that is why the API server
/// refused it.
pub(crate) fn lacking(error: &Error) -> Option<String> {
    let Error::Api(status) = error else { return None };
    lacking_right(status)
}

/// The same of the API server's answer: nobody looked at what was to be written.
fn lacking_right(status: &Status) -> Option<String> {
    if status.code != 403 {
        return None;
    }
    let (_, said) = status.message.split_once("is forbidden: User \"")?;
    let (user, said) = said.split_once("\" cannot ")?;
    let (verb, said) = said.split_once(" resource \"")?;
    let (resource, said) = said.split_once('"')?;
    let namespace = said.split_once("in the namespace \"").and_then(|(_, said)| said.split_once('"'));
    let place = namespace.map_or_else(String::new, |(namespace, _)| format!(" in namespace {namespace}"));
    Some(format!(
        "Copyrator's own account {user} may not {verb} {resource}{place}: its role lacks that right; `copyrator doctor` \
         names the role and what mends it"
    ))
}

fn is_immutable_data(status: &Status) -> bool {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    causes.iter().any(|cause| {
        cause.reason == "FieldValueForbidden"
            && matches!(cause.field.as_str(), "data" | "binaryData" | "stringData")
    })
}

/// An answer in words. The API server's message for an invalid object can quote values ("Invalid value: …"),
/// so there only code, reason and fields are given.
fn readable(status: &Status) -> String {
    let is_validation = status.reason == "Invalid" && !status.message.contains("ValidatingAdmissionPolicy");
    if !is_validation {
        let text: String = status.message.chars().take(512).collect();
        return format!("{text} ({} {})", status.code, status.reason);
    }
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let fields: Vec<String> =
        causes.iter().map(|cause| format!("{} ({})", cause.field, cause.reason)).collect();
    format!("the API server finds it invalid: {} ({})", fields.join(", "), status.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(json: serde_json::Value) -> Outcome {
        let status: Status = serde_json::from_value(json).unwrap();
        Outcome::from(Error::Api(status.boxed()))
    }

    #[test]
    fn answers_mean_what_was_seen_on_a_real_server() {
        let gone = serde_json::json!({"code": 403, "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
        assert_eq!(outcome(gone), Outcome::NamespaceGone);
        let no_namespace =
            serde_json::json!({"code": 404, "reason": "NotFound", "details": {"kind": "namespaces"}});
        assert_eq!(outcome(no_namespace), Outcome::NamespaceGone);
        assert_eq!(outcome(serde_json::json!({"code": 409, "reason": "Conflict"})), Outcome::Stale);
        let immutable = serde_json::json!({"code": 422, "reason": "Invalid", "message": "data: Forbidden: field is immutable",
            "details": {"causes": [{"reason": "FieldValueForbidden", "field": "data"}]}});
        assert!(matches!(outcome(immutable), Outcome::NeedsReplacing(_)));
        let busy = serde_json::json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}});
        assert!(
            matches!(outcome(busy), Outcome::Retry { after: Some(after), .. } if after == Duration::from_secs(3))
        );
    }

    /// A copy must not wait five minutes because the API server was restarted.
    #[test]
    fn a_right_that_is_not_known_yet_is_tried_again_soon() {
        let forbidden = |message: &str| {
            outcome(serde_json::json!({"code": 403, "reason": "Forbidden", "message": message}))
        };
        let account = "system:serviceaccount:copyrator-system:copyrator-reconciler";
        let starting = forbidden(&format!(
            "configmaps \"app\" is forbidden: User \"{account}\" cannot patch resource \"configmaps\" in API group \"\" in \
             the namespace \"shop\""
        ));
        let Outcome::Retry { after: None, reason: "Forbidden", message } = &starting else {
            panic!("{starting:?}")
        };
        assert_eq!(
            *message,
            format!(
                "Copyrator's own account {account} may not patch configmaps in namespace shop: its role lacks that right; \
                 `copyrator doctor` names the role and what mends it"
            )
        );
        for message in [
            "configmaps \"app\" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: 1, limited: 1",
            "admission webhook \"guard.example.com\" denied the request: no",
        ] {
            assert!(matches!(forbidden(message), Outcome::Refused { reason: "Refused", .. }), "{message}");
        }
    }

    /// ClusterSecret's debug log and API errors that quote values: nothing of a value gets out.
    #[test]
    fn an_invalid_value_is_not_quoted() {
        let invalid = serde_json::json!({"code": 422, "reason": "Invalid", "message": "Secret is invalid: data[tls.key]: Invalid value: \"hunter2\"",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "data[tls.key]", "message": "Invalid value: \"hunter2\""}]}});
        let Outcome::Refused { message, .. } = outcome(invalid) else { panic!() };
        assert!(!message.contains("hunter2"), "{message}");
        assert!(message.contains("data[tls.key]"), "{message}");
    }
}
