//! The outcome of a write, from the API server's answer. Only this file classifies answers; the
//! classification was checked on a real API server.

use std::time::Duration;

use kube::{Error, error::Status};

use kube::core::response::StatusCause;

use crate::{
    connect::is_refusal,
    model::WriteFault,
    plan::copy::{Acted, Made},
};

/// Number of faults that the message about an invalid object lists.
const MOST_FAULTS: usize = 4;
/// Number of characters that a shortened fault keeps at its beginning, and at its end.
const HALF: usize = 120;

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write is done, or was not needed.
    Done,
    /// The object has changed since the plan. The watch will report the change, and the reconciler plans the
    /// key again.
    Stale,
    /// The namespace is gone or terminating; its events cause a new plan if necessary.
    NamespaceGone,
    /// No update can make the change, only deleting and recreating the object.
    NeedsReplacing(String),
    /// The API server, a policy or a foreign webhook refused the write. The reconciler tries again slowly.
    Refused {
        /// The reason of the refusal.
        reason: WriteFault,
        /// The API server's message, without values.
        message: String,
    },
    /// The write failed and may soon succeed.
    Retry {
        /// The shortest wait before the next try, if the API server gave one.
        after: Option<Duration>,
        /// `Forbidden` if our own account lacks the right, else `Failed`.
        reason: WriteFault,
        /// The API server's message, or the error on the way, without values.
        message: String,
    },
    /// This process is no longer the leader, so nothing was written.
    NotLeading,
}

impl Outcome {
    /// Returns a failure that may soon pass.
    pub fn retry(message: String) -> Self {
        Self::Retry { after: None, reason: WriteFault::Failed, message }
    }

    /// Returns what the slot remembers of the write. `made`: the object as the API server stored it, if
    /// known.
    pub fn of_slot(&self, made: Option<Made>) -> Acted {
        match self.clone() {
            Self::Done => Acted::Done(made),
            Self::Stale | Self::NamespaceGone | Self::NotLeading => Acted::Outdated,
            Self::NeedsReplacing(message) => Acted::NeedsReplacing(message),
            Self::Refused { reason, message } => Acted::Refused(reason, message),
            Self::Retry { reason, message, .. } => Acted::Failed(reason, message),
        }
    }

    /// Returns the value of a metric label.
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

/// Formats an error in a few words, without values.
pub fn brief(error: &Error) -> String {
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
        // For some seconds after its start, an API server has not read its roles, and refuses every user with
        // this answer.
        return Outcome::Retry { after, reason: WriteFault::Forbidden, message };
    }
    match status.code {
        404 if about_namespace => Outcome::NamespaceGone,
        404 => Outcome::Stale,
        403 if caused_by("NamespaceTerminating") => Outcome::NamespaceGone,
        409 => Outcome::Stale,
        413 => Outcome::Refused { reason: WriteFault::TooLarge, message: readable(status) },
        422 if about_field("metadata.uid") => Outcome::Stale,
        // All annotations together, including those of other writers, have 256 KiB at most.
        422 if about_field("metadata.annotations") && caused_by("FieldValueTooLong") => {
            Outcome::Refused { reason: WriteFault::TooLarge, message: readable(status) }
        }
        // An answer can name immutable fields and invalid fields; the immutable fields decide. Among copies,
        // only a ResourceQuota has an immutable field (the spec's scopes), and the API server has accepted
        // the field's value in the source. A template can set `recreate`.
        422 if about_field("immutable")
            || about_field("type")
            || about_field("roleRef")
            || is_immutable_data(status)
            || causes.iter().any(never_changes) =>
        {
            Outcome::NeedsReplacing(readable(status))
        }
        400 | 422 if is_unfit(status) => {
            let of_type = |cause: &StatusCause| cause.reason == "FieldValueTypeInvalid";
            let is_mistyped = status.code == 400 || (!causes.is_empty() && causes.iter().all(of_type));
            let reason = if is_mistyped { WriteFault::Mistyped } else { WriteFault::Unfit };
            Outcome::Refused { reason, message: readable(status) }
        }
        400..=499 if status.code != 429 || is_refusal(status) => {
            let reason = if lacks_room(status) { WriteFault::NoRoom } else { WriteFault::Refused };
            Outcome::Refused { reason, message: readable(status) }
        }
        // A field has a different type in the schema, or is not in the schema; seen on 1.36.3
        // (kubernetes#122480).
        500 if status.message.starts_with("failed to create typed patch object") => {
            Outcome::Refused { reason: WriteFault::Mistyped, message: readable(status) }
        }
        _ => Outcome::Retry { after, reason: WriteFault::Failed, message: readable(status) },
    }
}

/// Whether a quota, or the allocator of the ports and addresses of Services, has no room. Refusals that
/// admission policies word themselves are not recognised.
fn lacks_room(status: &Status) -> bool {
    let said = |words: &str| status.message.contains(words);
    let by_policy = said("denied the request") || said("denied request");
    !by_policy && (said(" is forbidden: exceeded quota: ") || said("already allocated"))
}

/// Whether the API server itself finds the object invalid. Admission policies and webhooks also refuse with
/// the status codes of an invalid object, but may soon answer differently. The allocator of the ports and
/// addresses of Services may soon answer differently, too.
fn is_unfit(status: &Status) -> bool {
    let others = ["denied the request", "denied request", "already allocated", "does not support dry run"];
    ["BadRequest", "Invalid"].contains(&&*status.reason)
        && !others.iter().any(|said| status.message.contains(said))
}

/// Returns the right that our own account lacks and how to grant it, if the API server refused the request
/// for that reason.
pub fn lacking(error: &Error) -> Option<String> {
    let Error::Api(status) = error else { return None };
    lacking_right(status)
}

/// Returns the missing right from the status. A refusal by RBAC shows nothing about the object in the request.
fn lacking_right(status: &Status) -> Option<String> {
    if status.code != 403 {
        return None;
    }
    if status.message.contains("is attempting to grant RBAC permissions not currently held") {
        let message = "Copyrator's ServiceAccount may not bind the role of this RoleBinding: let an administrator add the role to the \
         chart's value copies.bind, or name another role";
        return Some(message.to_owned());
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

/// Whether a field is immutable. The API server has no reason code for immutable fields, so this function
/// looks for the API server's words (1.36.3), and for words that definitions of kinds use by convention. For
/// a validation rule without a message, the API server returns the rule's expression.
fn never_changes(cause: &StatusCause) -> bool {
    const ENDS: [&str; 7] = [
        "is immutable",
        "are immutable",
        "immutable once set",
        "immutable after creation",
        "may not change once set",
        "cannot be changed",
        "failed rule: self == oldSelf",
    ];
    const BEGINS: [&str; 2] = [
        "Forbidden: updates to statefulset spec for fields other than ",
        "Forbidden: spec is immutable after creation except ",
    ];
    let said = cause.message.trim_end_matches('.');
    !cause.field.starts_with("metadata")
        && (ENDS.iter().any(|end| said.ends_with(end)) || BEGINS.iter().any(|begin| said.starts_with(begin)))
}

/// Formats an answer. Messages about an invalid ConfigMap or Secret can quote values ("Invalid value: …").
/// For ConfigMaps, Secrets and unknown kinds, the text has only code, fields and reasons.
fn readable(status: &Status) -> String {
    let is_validation = status.reason == "Invalid" && !status.message.contains("ValidatingAdmissionPolicy");
    if !is_validation {
        let text: String = status.message.chars().take(512).collect();
        return format!("{text} ({} {})", status.code, status.reason);
    }
    let details = status.details.as_ref();
    let causes = details.map_or(&[][..], |details| &details.causes);
    let kind = details.map_or("", |details| &details.kind);
    let may_quote = ["", "ConfigMap", "Secret"].contains(&kind);
    let fault = |cause: &StatusCause| match may_quote || cause.message.is_empty() {
        true => format!("{} ({})", cause.field, cause.reason),
        false => format!("{}: {}", cause.field, shortened(&cause.message)),
    };
    let faults: Vec<String> = causes.iter().take(MOST_FAULTS).map(fault).collect();
    let kind = if kind.is_empty() { "object" } else { kind };
    format!("the API server finds the {kind} invalid: {} ({})", faults.join(", "), status.code)
}

/// Cuts the middle out of a long message: the beginning shows the value, and the end shows the fault.
fn shortened(said: &str) -> String {
    let length = said.chars().count();
    if length <= 2 * HALF {
        return said.to_owned();
    }
    let (begin, end): (String, String) =
        (said.chars().take(HALF).collect(), said.chars().skip(length - HALF).collect());
    format!("{begin} … {end}")
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
        let full = serde_json::json!({"code": 422, "reason": "Invalid", "details": {"causes": [
            {"reason": "FieldValueTooLong", "field": "metadata.annotations"}]}});
        assert!(matches!(outcome(full), Outcome::Refused { reason: WriteFault::TooLarge, .. }));
        let immutable = serde_json::json!({"code": 422, "reason": "Invalid", "message": "data: Forbidden: field is immutable",
            "details": {"causes": [{"reason": "FieldValueForbidden", "field": "data"}]}});
        assert!(matches!(outcome(immutable), Outcome::NeedsReplacing(_)));
        for (field, said, is_stuck) in [
            ("spec.scopes", "Invalid value: [\"BestEffort\"]: field is immutable", true),
            ("spec.selector", "Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable", true),
            ("spec.clusterIPs[0]", "Invalid value: [\"10.96.0.78\"]: may not change once set", true),
            ("spec.told", "Invalid value: \"b\": told is immutable", true),
            ("spec.fixed", "Invalid value: \"b\": failed rule: self == oldSelf", true),
            ("spec", "Invalid value: spec cannot be changed.", true),
            (
                "spec",
                "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template' are forbidden",
                true,
            ),
            (
                "spec",
                "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                 claims\n@@ -1,6 +1,6 @@\n",
                true,
            ),
            ("metadata.labels", "Invalid value: \"b\": label is immutable", false),
            ("spec.mode", "Invalid value: \"b\": mode is immutable while pods run", false),
            ("spec.replicas", "Invalid value: -1: must be greater than or equal to 0", false),
        ] {
            let causes =
                serde_json::json!([{"reason": "FieldValueInvalid", "field": field, "message": said}]);
            let invalid = serde_json::json!({"code": 422, "reason": "Invalid", "message": format!("{field}: {said}"),
                "details": {"causes": causes}});
            assert_eq!(matches!(outcome(invalid), Outcome::NeedsReplacing(_)), is_stuck, "{field}");
        }
        let misspelt = serde_json::json!({"code": 500, "message": "failed to create typed patch object (shop/web; apps/v1, \
            Kind=Deployment): .spec.replica: field not declared in schema"});
        assert!(matches!(outcome(misspelt), Outcome::Refused { reason: WriteFault::Mistyped, .. }));
        let busy = serde_json::json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}});
        assert!(
            matches!(outcome(busy), Outcome::Retry { after: Some(after), .. } if after == Duration::from_secs(3))
        );
    }

    /// A refusal by admission may pass soon; an invalid object stays invalid.
    #[test]
    fn what_is_invalid_is_told_from_what_admission_refuses() {
        for (code, reason, message, expected) in [
            (
                422,
                "Invalid",
                "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be …",
                WriteFault::Unfit,
            ),
            (
                400,
                "BadRequest",
                "Deployment in version \"v1\" cannot be handled as a Deployment",
                WriteFault::Mistyped,
            ),
            (
                400,
                "BadRequest",
                "admission webhook \"old.example.com\" does not support dry run",
                WriteFault::Refused,
            ),
            (
                422,
                "Invalid",
                "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few' denied request: no more than 3",
                WriteFault::Refused,
            ),
            (400, "", "admission webhook \"guard.example.com\" denied the request: no", WriteFault::Refused),
            (
                422,
                "Invalid",
                "admission webhook \"guard.example.com\" denied the request: no",
                WriteFault::Refused,
            ),
            (
                422,
                "Invalid",
                "Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
                WriteFault::NoRoom,
            ),
        ] {
            let said = outcome(serde_json::json!({"code": code, "reason": reason, "message": message}));
            let Outcome::Refused { reason, .. } = said else { panic!("{message}: {said:?}") };
            assert_eq!(reason, expected, "{message}");
        }
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
        let Outcome::Retry { after: None, reason: WriteFault::Forbidden, message } = &starting else {
            panic!("{starting:?}")
        };
        assert_eq!(
            *message,
            format!(
                "Copyrator's own account {account} may not patch configmaps in namespace shop: its role lacks that right; \
                 `copyrator doctor` names the role and what mends it"
            )
        );
        let binding = forbidden(
            "rolebindings.rbac.authorization.k8s.io \"team\" is forbidden: user \"x\" (groups=[\"y\"]) is attempting to grant RBAC \
             permissions not currently held:\n{APIGroups:[\"\"]}",
        );
        assert!(
            matches!(&binding, Outcome::Retry { reason: WriteFault::Forbidden, message, .. } if message.contains("copies.bind")),
            "{binding:?}"
        );
        let quota = "configmaps \"app\" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: 1, limited: 1";
        let policy = format!("admission webhook \"guard.example.com\" denied the request: {quota}");
        for (message, expected) in [(quota, WriteFault::NoRoom), (&*policy, WriteFault::Refused)] {
            let Outcome::Refused { reason, .. } = forbidden(message) else { panic!("{message}") };
            assert_eq!(reason, expected, "{message}");
        }
    }

    /// People search for the API server's words. For ConfigMaps and Secrets, these words may quote values.
    #[test]
    fn what_the_api_server_says_is_kept_but_for_kinds_with_values() {
        let said = |kind: &str| {
            let message = "Invalid value: 30123: provided port is already allocated";
            let cause = serde_json::json!({"reason": "FieldValueInvalid", "field": "spec.ports[0].nodePort", "message": message});
            let status = serde_json::json!({"code": 422, "reason": "Invalid", "message": format!("x: {message}"),
                "details": {"kind": kind, "causes": [cause]}});
            let Outcome::Refused { message, .. } = outcome(status) else { panic!("{kind}") };
            message
        };
        assert_eq!(
            said("Service"),
            "the API server finds the Service invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already \
             allocated (422)"
        );
        for kind in ["Secret", "ConfigMap", ""] {
            assert!(!said(kind).contains("30123"), "{}", said(kind));
        }
        let long = shortened(&format!("Invalid value: {}: must be short", "x".repeat(9000)));
        assert!(long.chars().count() < 250 && long.ends_with("xxx: must be short"), "{long}");
    }

    /// ClusterSecret's debug log and some API errors quote values. Ours never do.
    #[test]
    fn an_invalid_value_is_not_quoted() {
        let invalid = serde_json::json!({"code": 422, "reason": "Invalid", "message": "Secret is invalid: data[tls.key]: Invalid value: \"hunter2\"",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "data[tls.key]", "message": "Invalid value: \"hunter2\""}]}});
        let Outcome::Refused { message, .. } = outcome(invalid) else { panic!() };
        assert!(!message.contains("hunter2"), "{message}");
        assert!(message.contains("data[tls.key]"), "{message}");
    }
}
