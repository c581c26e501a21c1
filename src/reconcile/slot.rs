//! One slot: plan, fetch what is lacking, write, remember what became of it.

use std::{sync::Arc, time::Duration};

use super::{
    Again, Lane,
    authority::{can_be_withdrawn, is_too_old},
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
        outcome::Outcome,
        report::{Reporter, Told},
    },
    names::{NamespacedName, ObjectKey},
    observe::crds::{Definitions, RULES, TEMPLATES},
    plan::{
        Key,
        copy::{
            AGAIN, CopyAction, Made, SlotPlan, SlotState, claims::claims_on, forget_attempt, plan_slot,
            settle_slot,
        },
    },
};

/// Wait before the next attempt to remove a copy while one of our CustomResourceDefinitions is missing.
const WHEN_INTACT: Duration = Duration::from_secs(30);

/// Reconciles slots: copies are written, marked and deleted.
pub(super) struct SlotHandler {
    pub(super) context: Context,
    pub(super) planner: Arc<Planner>,
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
            Err(Unplanned::Failed(plan, error)) => {
                tracing::warn!(%slot, error = &error as &dyn std::error::Error, "cannot plan this copy");
                self.tell_rules(slot, &plan);
                return Again::Backoff(None);
            }
        };
        if let Some(rule) = self.rule_to_ask_again(&plan) {
            // In the most urgent lane: all of the rule's slots wait for the answer.
            self.context.queue().add(Key::Rule(rule), Lane::NewNamespace);
            return Again::After(SOON);
        }
        self.lag.planned(slot, &plan, self.context.queue().waited(&Key::Slot(slot.clone())));
        let is_news = is_news || self.is_news(slot, &plan);
        let again = self.carry_out(slot, &plan).await;
        if is_news {
            self.tell_rules(slot, &plan);
        }
        again
    }

    /// Whether the statuses of the slot's rules may have to say something else. A sweep that finds nothing to do has no news: each
    /// status plans all slots of its rule, and the sweep asks for each status itself.
    fn is_news(&self, slot: &ObjectKey, plan: &SlotPlan) -> bool {
        // A blocked slot's message may change though nothing is written.
        plan.action.is_some()
            || matches!(plan.state, SlotState::Blocked(_))
            || self.context.world().memory().slot(slot).attempt().is_some()
            || self.context.queue().lane_of(&Key::Slot(slot.clone())) != Some(Lane::Sweep)
    }

    /// Returns the rule behind a write, if its rights can be withdrawn and the last answer about them is too
    /// old. Asking again stops the write at once if a right was withdrawn.
    fn rule_to_ask_again(&self, plan: &SlotPlan) -> Option<NamespacedName> {
        let Some(CopyAction::Write(_)) = plan.action else { return None };
        let rule = plan.rule.clone()?;
        let world = self.context.world();
        world.declaration(&rule).filter(|declared| can_be_withdrawn(&world, &rule, *declared))?;
        is_too_old(world.rule_authority(&rule)?, now()).then_some(rule)
    }

    async fn carry_out(&self, slot: &ObjectKey, plan: &SlotPlan) -> Again {
        let Some(action) = &plan.action else {
            let in_time = plan.recheck.map(|at| at.duration_since(now()));
            // Only if there is one: taking the write lock for every slot of a sweep would hold up other handlers.
            if plan.recheck.is_none() && self.context.world().memory().slot(slot).attempt().is_some() {
                forget_attempt(&mut self.context.world_mut(), slot);
            }
            return in_time.map_or(Again::OnChange, |wait| Again::After(wait.try_into().unwrap_or_default()));
        };
        if action.removes()
            && let Some(missing) = self.missing_definition(slot).await
        {
            tracing::warn!(%slot, %missing, "nothing is removed while our own kinds are not all there");
            return Again::After(WHEN_INTACT);
        }
        let mut refused = match action {
            CopyAction::Write(write) => self.guard.refusal(slot, write).await,
            _ => None,
        };
        if refused.is_none() {
            refused = self.trial.refusal(slot, plan).await;
        }
        let CopyOutcome { outcome, made, deleted } = match refused {
            Some(outcome) => outcome.into(),
            None => self.copies.act(slot, action).await,
        };
        self.lag.acted(slot, action, &outcome);
        if let Some(Made { not_kept, .. }) = made.as_ref().filter(|made| !made.not_kept.is_empty()) {
            tracing::warn!(%slot, fields = ?not_kept, "written, and the API server does not keep all of it");
        }
        let is_news = settle_slot(&mut self.context.world_mut(), slot, action, outcome.of_slot(made), now());
        self.reporter.copy(slot, plan, action, &Told { outcome: &outcome, is_news, deleted }).await;
        match outcome {
            // The next leader looks at everything.
            Outcome::NotLeading => Again::OnChange,
            Outcome::Done | Outcome::NamespaceGone => {
                plan.recheck.map_or(Again::OnChange, |_| Again::After(SOON))
            }
            Outcome::NeedsReplacing(_) if !matches!(action, CopyAction::Write(write) if write.anew) => {
                Again::After(Duration::ZERO)
            }
            Outcome::NeedsReplacing(_) | Outcome::Refused { .. } => Again::After(self.until_next_try(slot)),
            Outcome::Stale => Again::Backoff(None),
            Outcome::Retry { after, .. } => Again::Backoff(after),
        }
    }

    /// How long a refused action waits.
    fn until_next_try(&self, slot: &ObjectKey) -> Duration {
        let world = self.context.world();
        let next = world.memory().slot(slot).attempt().map(|last| last.retry_at);
        next.map_or(AGAIN, |next| next.duration_since(now()).try_into().unwrap_or_default())
    }

    async fn missing_definition(&self, slot: &ObjectKey) -> Option<String> {
        let (rules_gone, name, listed_under) = {
            let world = self.context.world();
            let marks = world.object(slot).and_then(|facts| facts.marks.as_deref());
            let of_template = marks.filter(|marks| marks.rule.template().is_some());
            let definition =
                marks.map_or_else(|| world.definition(), |marks| world.definition_of(&marks.rule));
            (world.rules_gone(), of_template.map_or(RULES, |_| TEMPLATES), definition.cloned())
        };
        self.definitions.missing(rules_gone, name, listed_under.as_ref()).await
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
