//! Rules and monitors that the annotations of an object declare. Changes of the statuses of these rules and
//! monitors become Events on the object, and the proof of a grant is written to an annotation of the object.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Again,
    context::{Context, now},
    large_spreads::{LargeSpreads, StatusWrite},
    metrics::Tallies,
    pace::StatusPace,
    status::note_room,
};
use crate::{
    act::{copies::CopyWriter, report::Reporter},
    api::ConfigMonitorStatus,
    digest::DigestKey,
    dry_run::outcome::Outcome,
    explain::{MonitorReport, monitor_report},
    marks::AUTHORIZED,
    model::{Authority, Declared, MonitorFacts, RuleFacts, World},
    names::{Declarer, ObjectKey},
    plan::{
        Key, Reason, StatusEvent,
        copy::{RuleReport, Version, rule_report, says_too_many, targets::bounds},
        status_events,
    },
};

/// The proof of a grant, to be written to an object.
struct Grant {
    version: Version,
    proof: String,
    identity: String,
}

/// Reconciles the statuses of rules and monitors that annotations declare.
pub(super) struct AnnotatedHandler {
    pub(super) context: Context,
    pub(super) pace: Arc<StatusPace>,
    pub(super) copies: CopyWriter,
    pub(super) reporter: Reporter,
    pub(super) tallies: Arc<Tallies>,
    pub(super) large_spreads: Arc<LargeSpreads>,
}

impl AnnotatedHandler {
    pub(super) async fn rule(&self, key: &Key, rule: &Declarer, source: &ObjectKey) -> Again {
        let (report, uid) = {
            let world = self.context.world();
            let Some(facts) = world.rules().get(rule) else {
                self.tallies.set(rule, None);
                self.large_spreads.forget(rule);
                return self.pace.forget(key);
            };
            (rule_report(&world, rule, now()), facts.uid.clone())
        };
        let Some(RuleReport { status: after, ready: (ready, _), tally, large }) = report else {
            return Again::OnChange;
        };
        let (before, grant) = {
            let world = &mut *self.context.world_mut();
            let is_listed = |facts: &&RuleFacts| world.recalls(rule, facts) == Some(true);
            let grant = world.rules().get(rule).filter(is_listed).and_then(|facts| {
                let bounds = bounds(world, rule, facts.compiled.as_ref().ok()?);
                let is_proven = |key: &DigestKey, written: &str| facts.is_proven(key, written, &bounds);
                grant(world, source, is_proven, &facts.annotations, &after.conditions, &after.identity)
            });
            let facts = world.rules().get(rule);
            let is_same =
                facts.is_some_and(|it| it.uid == uid && Some(it.generation) == after.observed_generation);
            let Some(before) = is_same.then(|| world.set_rule_status(rule, after.clone())).flatten() else {
                // The rule changed meanwhile, and that change queues this key again.
                return Again::OnChange;
            };
            (before.unwrap_or_default(), grant)
        };
        self.tallies.set(rule, Some(tally));
        // The status of a rule in annotations is only in memory, so writing the status always succeeds.
        let is_news = self.large_spreads.is_news(rule, large.is_some(), StatusWrite::Written);
        note_room(&self.context, rule, Some(&before), says_too_many(&after));
        let large = large.as_ref().filter(|_| is_news);
        let events = status_events((&before).into(), (&after).into(), ready, large);
        self.tell(key, source, events, grant).await
    }

    pub(super) async fn monitor(&self, key: &Key, monitor: &Declarer, object: &ObjectKey) -> Again {
        let (report, uid) = {
            let world = self.context.world();
            let Some(facts) = world.monitors().get(monitor) else { return self.pace.forget(key) };
            (monitor_report(&world, monitor, now()), facts.uid.clone())
        };
        let Some(MonitorReport { status: after, ready: (ready, _), .. }) = report else {
            return Again::OnChange;
        };
        let (before, grant) = {
            let world = &mut *self.context.world_mut();
            let is_listed = |facts: &&MonitorFacts| world.recalls(monitor, facts) == Some(true);
            let grant = world.monitors().get(monitor).filter(is_listed).and_then(|facts| {
                let is_proven = |key: &DigestKey, written: &str| facts.is_proven(key, written);
                grant(world, object, is_proven, &facts.annotations, &after.conditions, &after.identity)
            });
            let facts = world.monitors().get(monitor);
            let is_same =
                facts.is_some_and(|it| it.uid == uid && Some(it.generation) == after.observed_generation);
            let store = |facts: &mut MonitorFacts| {
                // A report does not contain `pods_applied`, the record of the content that the pods run with:
                // keep it.
                let pods_applied = facts.status.as_ref().and_then(|status| status.pods_applied.clone());
                facts.status.replace(ConfigMonitorStatus { pods_applied, ..after.clone() })
            };
            let Some(before) = is_same.then(|| world.edit_monitor(monitor, store)).flatten() else {
                return Again::OnChange;
            };
            (before.unwrap_or_default(), grant)
        };
        let events = status_events((&before).into(), (&after).into(), ready, None);
        self.tell(key, object, events, grant).await
    }

    async fn tell(
        &self,
        key: &Key,
        object: &ObjectKey,
        events: Vec<StatusEvent<'_>>,
        grant: Option<Grant>,
    ) -> Again {
        for event in events {
            self.pace.told(key);
            self.reporter.status_event(object, event).await;
        }
        match grant {
            Some(grant) => self.write_grant(key, object, grant).await,
            None => Again::OnChange,
        }
    }

    async fn write_grant(&self, key: &Key, source: &ObjectKey, grant: Grant) -> Again {
        match self.copies.grant(source, &grant.version, &grant.proof).await {
            Outcome::Done => {
                self.pace.told(key);
                let message = format!("{} has the rights that the annotations need", grant.identity);
                self.reporter
                    .status_event(
                        source,
                        StatusEvent { is_warning: false, reason: Reason::Allowed.as_str(), message },
                    )
                    .await;
                Again::OnChange
            }
            Outcome::NotLeading | Outcome::NamespaceGone => Again::OnChange,
            // The watch will report a newer version soon.
            Outcome::Stale => Again::Backoff(None),
            Outcome::Retry { after, message, .. } => {
                tracing::warn!(%source, %message, "cannot record the granted rights on the object");
                Again::Backoff(after)
            }
            // Without the proof, the API server is asked about the author once more after the next start.
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                self.pace.told(key);
                tracing::warn!(%source, %message, "cannot record the granted rights on the object");
                Again::Refused
            }
        }
    }
}

/// Returns the proof to write, if the declaration was granted and the object does not have this proof yet.
/// Callers make sure that the index lists the grant: an unlisted proof proves nothing. A proof of an earlier
/// annotation is not valid for the present annotation.
fn grant(
    world: &World,
    object: &ObjectKey,
    is_proven: impl Fn(&DigestKey, &str) -> bool,
    annotations: &BTreeMap<String, String>,
    conditions: &[Condition],
    identity: &Option<String>,
) -> Option<Grant> {
    let is_allowed = conditions.iter().any(|one| one.type_ == "Authorized" && one.status == "True");
    let written = annotations.get(AUTHORIZED).map(String::as_str).unwrap_or_default();
    if !is_allowed || is_proven(world.key()?, written) {
        return None;
    }
    let version = Version::of(world.object(object)?);
    Some(Grant { version, proof: proofs(world, object)?, identity: identity.clone().unwrap_or_default() })
}

/// Returns the proofs of everything that an object's annotations declare and that was granted. Copies and
/// restarts have one proof each, so that refusing copies does not withdraw restarts, or the reverse.
fn proofs(world: &World, object: &ObjectKey) -> Option<String> {
    let key: &DigestKey = world.key()?;
    let name = Declarer::annotated(object.clone());
    let compiled = world.rules().get(&name).and_then(|facts| facts.compiled.as_ref().ok());
    let bounds = compiled.map(|compiled| bounds(world, &name, compiled)).unwrap_or_default();
    let rule = world
        .rules()
        .get(&name)
        .filter(|facts| world.recalls(&name, facts) == Some(true))
        .filter(|facts| facts.is_granted(key, &bounds) || is_allowed(world.rule_authority(&name), facts));
    let monitor = world
        .monitors()
        .get(&name)
        .filter(|facts| world.recalls(&name, facts) == Some(true))
        .filter(|facts| facts.is_granted(key) || is_allowed(world.monitor_authority(&name), facts));
    let proofs = [rule.map(|facts| facts.grant(key, &bounds)), monitor.map(|facts| facts.grant(key))];
    let proofs: Vec<String> = proofs.into_iter().flatten().collect();
    (!proofs.is_empty()).then(|| proofs.join(","))
}

fn is_allowed<S, C, T>(known: Option<&Authority>, facts: &Declared<S, C, T>) -> bool {
    known.is_some_and(|it| it.uid == facts.uid && it.generation == facts.generation && it.answer.is_ok())
}
