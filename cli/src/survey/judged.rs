//! ConfigMaps and Secrets of files, judged by the ConfigPolicies in the cluster and in the files.

use jiff::Timestamp;
use serde_json::Value;

use super::review::review;
use crate::{
    admit::{
        Parties, Purpose,
        decide::{Case, Verdict, read},
        decode::GroupVersionKind,
    },
    authority::Subject,
    model::{World, WriteFault},
    names::ObjectKey,
    plan::{Reason, copy::ProblemReason, policy::scan::is_exempt},
    validate::Candidate,
};

/// Why an object would be refused: reason and message.
pub(super) type Refusal = (Reason, String);

/// Judges a write with the webhook's own code. Returns the policies' warnings, or why a policy refuses the
/// write.
pub(super) fn judge(
    world: &World,
    object: &ObjectKey,
    new: &Value,
    old: Option<&Value>,
    caller: &Subject,
    now: Timestamp,
) -> Result<Vec<String>, Refusal> {
    let unread = |why: String| (Reason::Unread, format!("it cannot be judged by the policies: {why}"));
    let raw = |value: &Value| {
        serde_json::value::to_raw_value(value).map_err(|_| unread("it cannot be written as JSON".into()))
    };
    let (new, old) = (raw(new)?, old.map(raw).transpose()?);
    let Some(covered) = object.kind.data() else { return Ok(Vec::new()) };
    let is_own = Candidate::decode(covered.into(), new.get()).is_ok_and(|it| it.is_kubernetes_own());
    if world.policies().is_empty() || is_exempt(world, &object.namespace) || is_own {
        return Ok(Vec::new());
    }
    let kind =
        GroupVersionKind { group: "".into(), version: "v1".into(), kind: object.kind.to_string().into() };
    let review = review(kind, &object.namespace, &object.name, caller, &new, old.as_deref());
    let (purpose, parties) = (Purpose::Policies, Parties::default());
    let verdict = match read(&review, &purpose, &parties, now) {
        Ok(Case::Write(write)) => write.look(world).map(|known| write.judge(known)),
        Ok(Case::Settled(_) | Case::Instance(_)) => return Ok(Vec::new()),
        Err(error) => Err(error),
    };
    match verdict {
        Ok(Verdict { denial: None, warnings, .. }) => Ok(warnings),
        Ok(Verdict { message, .. }) => {
            Err((ProblemReason::Fault(WriteFault::RefusedByPolicy).into(), message))
        }
        Err(error) => Err(unread(error.to_string())),
    }
}
