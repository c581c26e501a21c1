//! Statuses of rules, templates, monitors and policies, written if they differ from the existing statuses.

use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Again, Lane,
    announce::Announcer,
    context::{Context, now},
    large_spreads::{LargeSpreads, StatusWrite},
    metrics::Tallies,
    pace::StatusPace,
};
use crate::{
    act::{
        report::Reporter,
        status::{StatusOf, write_status},
        writer::Writer,
    },
    api::{
        ConfigMonitor, ConfigMonitorStatus, ConfigPolicy, CopyratorRule, CopyratorRuleStatus,
        CopyratorTemplate, CopyratorTemplateStatus,
    },
    dry_run::outcome::Outcome,
    explain::monitor_report,
    names::{Declarer, NamespacedName},
    plan::{
        Key,
        copy::{RuleReport, rule_report, says_too_many, template_report, templates::too_many_objects},
        policy::policy_status,
        slots_to_check,
    },
};

/// Reconciles the statuses of rules, templates, monitors and policies.
pub(super) struct StatusHandler {
    pub(super) context: Context,
    pub(super) pace: Arc<StatusPace>,
    pub(super) writer: Writer,
    pub(super) announcer: Announcer,
    pub(super) reporter: Reporter,
    pub(super) tallies: Arc<Tallies>,
    pub(super) large_spreads: Arc<LargeSpreads>,
}

impl StatusHandler {
    pub(super) async fn rule(&self, key: &Key, rule: &Declarer, name: &NamespacedName) -> Again {
        let (uid, before, report) = {
            let world = self.context.world();
            let Some(facts) = world.rules().get(rule) else {
                self.tallies.set(rule, None);
                self.large_spreads.forget(rule);
                return self.pace.forget(key);
            };
            let begun = Instant::now();
            let report = rule_report(&world, rule, now());
            self.pace.planned(key, begun.elapsed());
            (facts.uid.clone(), facts.status.clone(), report)
        };
        let Some(RuleReport { status, tally, large, .. }) = report else { return Again::OnChange };
        self.tallies.set(rule, Some(tally));
        note_room(&self.context, rule, before.as_ref(), says_too_many(&status));
        let of = StatusOf { namespace: Some(&name.namespace), name: &name.name, uid: &uid };
        let (again, status) = self.write::<CopyratorRule, _>(key, of, before, Some(status)).await;
        let is_news = self.large_spreads.is_news(rule, large.is_some(), status);
        if let Some(large) = large.filter(|_| is_news) {
            self.reporter.large_spread(rule, &large).await;
        }
        again
    }

    pub(super) async fn template(&self, key: &Key, template: &Declarer, name: &NamespacedName) -> Again {
        let (uid, before, is_too_many, report) = {
            let world = self.context.world();
            let Some(facts) = world.templates().get(template) else {
                self.tallies.set(template, None);
                return self.pace.forget(key);
            };
            let begun = Instant::now();
            let report = template_report(&world, template, now());
            self.pace.planned(key, begun.elapsed());
            let compiled = facts.compiled.as_deref();
            let is_too_many =
                compiled.is_ok_and(|compiled| too_many_objects(&world, template, compiled).is_some());
            (facts.uid.clone(), facts.status.clone(), is_too_many, report)
        };
        // The room is noted before the report, because the report waits until everything is rendered.
        note_room(&self.context, template, before.as_ref(), is_too_many);
        let Some(RuleReport { status, tally, .. }) = report else { return Again::OnChange };
        self.tallies.set(template, Some(tally));
        let of = StatusOf { namespace: Some(&name.namespace), name: &name.name, uid: &uid };
        let (before, after) =
            (before.map(CopyratorTemplateStatus::from), CopyratorTemplateStatus::from(status));
        self.write::<CopyratorTemplate, _>(key, of, before, Some(after)).await.0
    }

    pub(super) async fn monitor(&self, key: &Key, monitor: &Declarer, name: &NamespacedName) -> Again {
        let (uid, before, report) = {
            let world = self.context.world();
            let Some(facts) = world.monitors().get(monitor) else { return self.pace.forget(key) };
            // Another writer maintains `pods_applied`, so that field is not compared.
            let before =
                facts.status.clone().map(|status| ConfigMonitorStatus { pods_applied: None, ..status });
            (facts.uid.clone(), before, monitor_report(&world, monitor, now()))
        };
        let of = StatusOf { namespace: Some(&name.namespace), name: &name.name, uid: &uid };
        let (after, failed) = report.map(|report| (report.status, report.stage_failed)).unzip();
        let (again, status) = self.write::<ConfigMonitor, _>(key, of, before.clone(), after).await;
        if let Some(failed) = failed.filter(|_| status == StatusWrite::Written) {
            self.announcer.stage_failures(monitor, before.as_ref(), failed).await;
        }
        again
    }

    pub(super) async fn policy(&self, key: &Key, name: &Arc<str>) -> Again {
        let (uid, before, after) = {
            let world = self.context.world();
            let Some(facts) = world.policies().get(name) else { return self.pace.forget(key) };
            (facts.uid.clone(), facts.status.clone(), policy_status(&world, name, now()))
        };
        let of = StatusOf { namespace: None, name, uid: &uid };
        self.write::<ConfigPolicy, _>(key, of, before, after).await.0
    }

    /// Writes a status if it has changed. Returns when to look again, and the result of the write: some
    /// reports are made only if the status was written.
    async fn write<K, S>(
        &self,
        key: &Key,
        of: StatusOf<'_>,
        before: Option<S>,
        after: Option<S>,
    ) -> (Again, StatusWrite)
    where
        K: Resource<DynamicType = ()>,
        S: Serialize + PartialEq,
    {
        let Some(after) = after.filter(|after| before.as_ref() != Some(after)) else {
            return (Again::OnChange, StatusWrite::Unchanged);
        };
        let again = match write_status::<K>(&self.writer, of, &after).await {
            Outcome::Done => {
                self.pace.told(key);
                return (Again::OnChange, StatusWrite::Written);
            }
            Outcome::NotLeading | Outcome::Stale | Outcome::NamespaceGone => Again::OnChange,
            Outcome::Retry { after, message, .. } => {
                tracing::warn!(name = of.name, %message, "cannot write a status");
                Again::Backoff(after)
            }
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                tracing::error!(name = of.name, %message, "the API server refused a status");
                // An admission policy whose parameters the API server has not read yet refuses everything for
                // a moment.
                Again::Backoff(None)
            }
        };
        (again, StatusWrite::Failed)
    }
}

/// Queues the slots of a rule that no longer has too many copies, so that the lacking copies are made.
pub(super) fn note_room(
    context: &Context,
    rule: &Declarer,
    before: Option<&CopyratorRuleStatus>,
    is_too_many: bool,
) {
    if before.is_some_and(says_too_many) && !is_too_many {
        let slots = slots_to_check(&context.world(), rule);
        let tenant = || Some(rule.namespace().clone());
        slots.into_iter().for_each(|slot| context.queue().add_for(tenant(), slot, Lane::Change));
    }
}
