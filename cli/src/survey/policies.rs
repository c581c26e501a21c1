//! Judges planned copies by the policies in the cluster, as the reconciler does before it writes, and plans
//! the consequences of a refusal.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::Client;

use super::{SurveyError, content::AT_ONCE, lists};
use crate::{
    api::ConfigPolicy,
    authority::Subject,
    dry_run::manifest::{as_it_is, as_it_will_be},
    installed::ReadScope,
    intake::AsWritten,
    model::{World, WriteFault},
    names::{Declarer, ObjectKey},
    plan::{
        Need,
        copy::{Acted, CopyAction, CopyWrite, Guards, SlotPlan, plan_slot, settle_slot},
    },
    read::{
        content::{Content, ContentError, Contents},
        listing::{ListError, list},
    },
};

/// The content of files that are not applied yet. `Content` has no `Debug`, so it cannot reach a formatter.
pub(super) type FileContents = BTreeMap<ObjectKey, Content>;

/// Reads the policies, if Copyrator judges by them. Returns a note if the caller may not read policies.
pub(super) async fn take(
    client: &Client,
    world: &mut World,
    read_scope: &ReadScope,
    caller: &Subject,
    now: Timestamp,
) -> Result<Option<String>, SurveyError> {
    if read_scope.namespaces().is_some() {
        return Ok(None);
    }
    match list::<AsWritten<ConfigPolicy>>(client, None).await {
        Ok(policies) => {
            lists::put(world, policies, now);
            Ok(None)
        }
        Err(ListError::Refused { .. }) => {
            let way_out = lists::lacks(caller, [("list", ("copyrator.dev", "configpolicies"), "")]);
            Ok(Some(format!("the plan does not check these copies against ConfigPolicies: {way_out}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The copies that are about to be written, in one namespace or all. Policies judge only these copies.
pub(super) fn writes<'a>(
    plans: &'a BTreeMap<ObjectKey, SlotPlan>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = (&'a ObjectKey, &'a CopyWrite)> {
    plans.iter().filter_map(move |(slot, plan)| match &plan.action {
        Some(CopyAction::Write(write)) if concerns(namespace, slot, plan.rule.as_ref()) => {
            Some((slot, &**write))
        }
        _ => None,
    })
}

/// The input for judging copies by the policies.
pub(super) struct PolicyCheck<'a> {
    /// The client that reads the content of copies and sources.
    pub client: &'a Client,
    /// The content of files that are not applied yet.
    pub contents_of_files: &'a FileContents,
    /// The account that writes the copies.
    pub account: &'a str,
    /// The namespace whose copies are judged; `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// The time of the survey.
    pub now: Timestamp,
}

/// Judges every copy that the account would write, and plans refused copies again. Stores in `unread` why a
/// copy could not be judged.
pub(super) async fn judge(
    check: &PolicyCheck<'_>,
    world: &mut World,
    plans: &mut BTreeMap<ObjectKey, SlotPlan>,
    unread: &mut BTreeMap<Need, String>,
) -> Result<(), SurveyError> {
    let PolicyCheck { client, contents_of_files, account, namespace, now } = *check;
    let guarded = writes(plans, namespace).filter_map(|(slot, write)| {
        Some((slot.clone(), write.clone(), Guards::of(world, slot, write, account)?))
    });
    let guarded: Vec<_> = guarded.collect();
    let contents = Contents::new(client.clone());
    let (seen, contents) = (&*world, &contents);
    let judged: Vec<_> = stream::iter(guarded)
        .map(|(slot, write, guards)| async move {
            let refusal = refusal(seen, contents, contents_of_files, &slot, &write, &guards, now).await;
            (slot, write, refusal)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (slot, write, refusal) in judged {
        match refusal {
            Ok(None) => {}
            Ok(Some(message)) => {
                let refused = Acted::Refused(WriteFault::RefusedByPolicy, message);
                settle_slot(world, &slot, &CopyAction::Write(Box::new(write)), refused, now);
                let plan = plan_slot(world, &slot, now);
                plans.insert(slot, plan);
            }
            Err(ContentError::Fetch { source, object }) if !matches!(&*source, kube::Error::Api(_)) => {
                return Err(ContentError::Fetch { source, object }.into());
            }
            Err(error) => {
                let need = Need::Fingerprint(slot.clone());
                unread.insert(need.clone(), format!("cannot check the copy against the policies: {error}"));
                if let Some(plan) = plans.get_mut(&slot) {
                    (plan.action, plan.needs) = (None, vec![need]);
                }
            }
        }
    }
    Ok(())
}

async fn refusal(
    world: &World,
    contents: &Contents,
    contents_of_files: &FileContents,
    slot: &ObjectKey,
    write: &CopyWrite,
    guards: &Guards,
    now: Timestamp,
) -> Result<Option<String>, ContentError> {
    let fetched;
    let existing = match world.object(slot).filter(|_| write.replaces.is_some()) {
        None => None,
        Some(facts) => match contents_of_files.get(slot) {
            Some(content) => Some((facts, content)),
            None => {
                fetched = contents.fetch(slot).await?;
                Some((facts, &fetched))
            }
        },
    };
    let with = |source: &Content| as_it_will_be(slot, write, source, existing).to_string();
    let new = match contents_of_files.get(&write.source) {
        Some(content) => with(content),
        None => {
            let source = contents.of_write(slot, write).await?;
            with(&*source.ok_or_else(|| ContentError::Gone(write.source.clone()))?)
        }
    };
    let old = existing.map(|(facts, content)| as_it_is(slot, facts, content).to_string());
    // A copy that cannot be judged is not written either.
    let refusal = guards.refusal(&new, old.as_deref(), now);
    Ok(refusal.unwrap_or_else(|error| Some(error.to_string())))
}

/// Whether a copy is in this namespace or belongs to a rule of the namespace; always true without a
/// namespace.
pub(super) fn concerns(namespace: Option<&str>, slot: &ObjectKey, rule: Option<&Declarer>) -> bool {
    namespace
        .is_none_or(|name| *slot.namespace == *name || rule.is_some_and(|rule| **rule.namespace() == *name))
}
