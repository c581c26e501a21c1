//! A copy of a RoleBinding gives the rights of its ClusterRole in the copy's namespace, so the rule's
//! identity must be allowed to `bind` that role in that namespace. The source names the role, and a source in
//! a foreign namespace is not written by the rule's author.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    claims::{Claim, Wants},
    hold::AGAIN,
    problem::CopyProblem,
    rights::{Heard, heard},
    slot_plan::{SlotPlan, SlotState},
};
use crate::{
    digest::Fingerprint,
    model::{Right, World, WriteFault},
    names::{Kind, ObjectKey},
    plan::{Need, at_after},
};

/// The plan that replaces the write if a copy of a RoleBinding may not be written, or if the answer is not
/// known yet. A template needs no such plan: it names its role literally, and the API server was asked about
/// the role when the template was written.
pub(super) fn unbound(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    source: &Fingerprint,
    now: Timestamp,
) -> Option<SlotPlan> {
    if slot.kind != Kind::RoleBinding || matches!(claim.wants, Wants::Object { .. }) {
        return None;
    }
    let blocked = |fault, message: String, recheck| SlotPlan {
        recheck,
        ..SlotPlan::rest(Some(claim.rule), SlotState::Blocked(CopyProblem::fault(slot, fault, message)))
    };
    let Some(role) = &source.role else {
        let message = format!(
            "{} binds a Role of its own namespace, which other namespaces do not have: bind a ClusterRole instead",
            claim.source
        );
        return Some(blocked(WriteFault::Refused, message, None));
    };
    let right = Right::Bind(Arc::from(&**role));
    match heard(world, claim.rule, &right, &slot.namespace, now) {
        Heard::Yes => None,
        Heard::No { refusal, asked } => {
            let message = format!("{} binds ClusterRole {role:?}, and {refusal}", claim.source);
            Some(blocked(WriteFault::Forbidden, message, Some(at_after(asked, AGAIN))))
        }
        Heard::Nothing => Some(SlotPlan {
            needs: vec![Need::Right(claim.rule.clone(), right, slot.namespace.clone())],
            ..SlotPlan::rest(Some(claim.rule), SlotState::Outdated)
        }),
    }
}
