//! One slot: plan, fetch lacking facts, write, and remember the result.

use std::{sync::Arc, time::Duration};

use super::{
    Again, Lane,
    context::{Context, now},
    guard::CopyGuard,
    lag::Lag,
    pace::STATUS_AFTER,
    planner::{Planned, Planner, SOON, Unplanned},
    trial::TemplateTrial,
};
use crate::{
    act::{
        copies::{CopyOutcome, CopyWriter},
        report::{Reporter, Told},
    },
    dry_run::outcome::Outcome,
    model::World,
    names::ObjectKey,
    plan::{
        Key,
        copy::{
            ACTION_GATES, AGAIN, Check, CopyAction, DueAction, Made, SlotPlan, SlotState, claims::claims_on,
            forget_attempt, plan_slot, settle_slot,
        },
    },
    read::{
        crds::{Definitions, RULES, TEMPLATES},
        listing::is_instance_live,
    },
};

/// Wait before the next attempt to remove a copy while one of our CustomResourceDefinitions is missing.
const WHEN_INTACT: Duration = Duration::from_secs(30);

/// The result of an action whose gate is shut.
enum Shut {
    /// The handler plans the slot again.
    Wait(Again),
    /// The memory keeps this outcome, as if the API server had refused the action.
    Refused(Outcome),
}

/// Reconciles slots: copies are written, marked and deleted.
pub(super) struct SlotHandler {
    pub(super) context: Context,
    pub(super) planner: Arc<Planner>,
    /// The user name that writes copies.
    pub(super) account: String,
    pub(super) guard: CopyGuard,
    pub(super) trial: TemplateTrial,
    pub(super) copies: CopyWriter,
    /// Checks that our CustomResourceDefinitions exist and are not being deleted.
    pub(super) definitions: Definitions,
    pub(super) reporter: Reporter,
    pub(super) lag: Arc<Lag>,
}

impl SlotHandler {
    pub(super) async fn handle(&self, slot: &ObjectKey) -> Again {
        let planned = self.planner.planned(|world, now| plan_slot(world, slot, now)).await;
        let Planned { plan, is_news } = match planned {
            Ok(planned) => planned,
            Err(Unplanned::Soon) => return Again::After(SOON),
            Err(Unplanned::Unlisted) => return Again::OnChange,
            Err(Unplanned::Failed(plan, error)) => {
                tracing::warn!(%slot, error = &error as &dyn std::error::Error, "cannot plan this copy");
                self.tell_rules(slot, &plan);
                return Again::Backoff(None);
            }
        };
        self.lag.planned(slot, &plan, self.context.queue().waited(&Key::Slot(slot.clone())));
        let is_asked = |world: &World| world.object(slot).is_some_and(|facts| facts.seen.is_only_asked());
        if matches!(plan.state, SlotState::Nothing) && is_asked(&self.context.world()) {
            self.context.world_mut().forget_asked(slot);
        }
        let is_news = is_news || self.is_news(slot, &plan);
        let again = self.carry_out(slot, &plan).await;
        if is_news {
            self.tell_rules(slot, &plan);
        }
        again
    }

    /// Whether the statuses of the slot's rules may have changed. A sweep that finds nothing to do changes no
    /// status: each status plans all slots of its rule, and the sweep requests each status itself.
    fn is_news(&self, slot: &ObjectKey, plan: &SlotPlan) -> bool {
        // A blocked slot's message may change though nothing is written.
        plan.action.is_some()
            || matches!(plan.state, SlotState::Blocked(_))
            || self.context.world().memory().slot(slot).attempt().is_some()
            || self.context.queue().lane_of(&Key::Slot(slot.clone())) != Some(Lane::Sweep)
    }

    /// Answers the question of a gate; returns the result for the action if the gate is shut.
    async fn shut(&self, slot: &ObjectKey, check: Check<'_>) -> Option<Shut> {
        Some(match check {
            Check::Rights(rule) => {
                // The rule gets the most urgent lane, because all of the rule's slots wait for the answer.
                self.context.queue().add(Key::Rule(rule.clone()), Lane::NewNamespace);
                Shut::Wait(Again::After(SOON))
            }
            Check::Definitions { of_template, listed_under, rules_gone } => {
                let name = if of_template { TEMPLATES } else { RULES };
                let missing = self.definitions.missing(rules_gone, name, listed_under.as_ref()).await?;
                tracing::warn!(%slot, %missing, "nothing is removed while our own kinds are not all there");
                Shut::Wait(Again::After(WHEN_INTACT))
            }
            Check::Instance(kind, name, uid) => {
                match is_instance_live(&self.planner.fetcher.client, &kind, &name, &uid).await {
                    Ok(true) => return None,
                    // The watch of the instances shows the deletion soon.
                    Ok(false) => Shut::Wait(Again::After(SOON)),
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(%slot, error, "cannot read the instance of this object");
                        Shut::Wait(Again::Backoff(None))
                    }
                }
            }
            Check::Policies(write, guards) => Shut::Refused(self.guard.refusal(slot, write, *guards).await?),
            Check::Types(trial) => Shut::Refused(self.trial.refusal(slot, &trial).await?),
        })
    }

    /// Returns the result for the action of the first gate that is shut.
    async fn first_shut(&self, slot: &ObjectKey, plan: &SlotPlan) -> Option<Shut> {
        for gate in &ACTION_GATES {
            let check = {
                let world = &self.context.world();
                (gate.ask)(&DueAction { world, slot, plan, account: &self.account, now: now() })
            };
            let Some(check) = check else { continue };
            if let Some(shut) = self.shut(slot, check).await {
                tracing::debug!(%slot, gate = gate.name, "the action waits");
                return Some(shut);
            }
        }
        None
    }

    async fn carry_out(&self, slot: &ObjectKey, plan: &SlotPlan) -> Again {
        let Some(action) = &plan.action else {
            let in_time = plan.recheck.map(|at| at.duration_since(now()));
            // Only if an attempt exists: using the write lock for every slot of a sweep would delay other
            // handlers.
            if plan.recheck.is_none() && self.context.world().memory().slot(slot).attempt().is_some() {
                forget_attempt(&mut self.context.world_mut(), slot);
            }
            return in_time.map_or(Again::OnChange, |wait| Again::After(wait.try_into().unwrap_or_default()));
        };
        let CopyOutcome { outcome, made, deleted } = match self.first_shut(slot, plan).await {
            None => self.copies.act(slot, action).await,
            Some(Shut::Wait(again)) => return again,
            Some(Shut::Refused(outcome)) => outcome.into(),
        };
        self.lag.acted(slot, action, &outcome);
        if let Some(Made { not_kept, .. }) = made.as_ref().filter(|made| !made.not_kept.is_empty()) {
            tracing::warn!(%slot, fields = ?not_kept, "written, and the API server does not keep all of it");
        }
        let is_news = settle_slot(&mut self.context.world_mut(), slot, action, outcome.of_slot(made), now());
        self.reporter.copy(slot, plan, action, &Told { outcome: &outcome, is_news, deleted }).await;
        match outcome {
            // The next leader plans everything again.
            Outcome::NotLeading => Again::OnChange,
            Outcome::Done | Outcome::NamespaceGone => {
                plan.recheck.map_or(Again::OnChange, |_| Again::After(SOON))
            }
            Outcome::NeedsReplacing(_) if !matches!(action, CopyAction::Write(write) if write.anew) => {
                Again::After(Duration::ZERO)
            }
            Outcome::NeedsReplacing(_) | Outcome::Refused { .. } => Again::After(self.until_next_try(slot)),
            Outcome::Stale => self.look_again(slot).await,
            Outcome::Retry { after, .. } => Again::Backoff(after),
        }
    }

    /// Reads the object after a write that met a version other than the planned one, if no watch shows the
    /// object.
    async fn look_again(&self, slot: &ObjectKey) -> Again {
        let known = self.context.world().object(slot).map(|facts| facts.seen.is_only_asked());
        if known == Some(false) || slot.kind.data().is_none() {
            return Again::Backoff(None);
        }
        match self.planner.fetcher.existing(slot).await {
            // An object that somebody keeps changing must not keep the reconciler busy.
            Ok(true) if known.is_none() => Again::After(Duration::ZERO),
            Ok(_) => Again::Backoff(None),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%slot, error, "cannot read the object in the way of this copy");
                Again::Backoff(None)
            }
        }
    }

    /// Returns how long a refused action waits until the next attempt.
    fn until_next_try(&self, slot: &ObjectKey) -> Duration {
        let world = self.context.world();
        let next = world.memory().slot(slot).attempt().map(|last| last.retry_at);
        next.map_or(AGAIN, |next| next.duration_since(now()).try_into().unwrap_or_default())
    }

    /// Queues the statuses of the rules that this slot concerns.
    fn tell_rules(&self, slot: &ObjectKey, plan: &SlotPlan) {
        let rules: Vec<_> = {
            let world = self.context.world();
            let claiming = claims_on(&world, slot).into_iter().map(|claim| claim.rule.clone());
            claiming.chain(plan.rule.clone()).collect()
        };
        for rule in rules {
            self.context.queue().add_by(Key::RuleStatus(rule), STATUS_AFTER);
        }
    }
}
