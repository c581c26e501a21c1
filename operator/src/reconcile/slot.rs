//! One slot: plan, fetch lacking facts, write, and remember the result.

use std::{sync::Arc, time::Duration};

use super::{
    Again, Lane,
    context::{Context, now},
    guard::CopyGuard,
    lag::Lag,
    owner::OwnerCheck,
    pace::STATUS_AFTER,
    planner::{Planned, Planner, SOON, Unplanned},
    trial::TemplateTrial,
};
use crate::{
    access::authority::{can_be_withdrawn, is_too_old},
    act::{
        copies::{CopyOutcome, CopyWriter},
        report::{Reporter, Told},
    },
    dry_run::outcome::Outcome,
    model::World,
    names::{Declarer, ObjectKey},
    plan::{
        Key,
        copy::{
            AGAIN, CopyAction, Made, SlotPlan, SlotState, claims::claims_on, forget_attempt, plan_slot,
            settle_slot,
        },
    },
    read::crds::{Definitions, RULES, TEMPLATES},
};

/// Wait before the next attempt to remove a copy while one of our CustomResourceDefinitions is missing.
const WHEN_INTACT: Duration = Duration::from_secs(30);

/// A gate of the reconciler before an action, after the gates of the planner (`plan/copy/write_gates.rs`).
#[derive(Clone, Copy)]
enum Gate {
    /// The API server has answered recently what the identity of the rule may do.
    FreshRights,
    /// The CustomResourceDefinitions of Copyrator exist. Only removals are checked by this gate.
    DefinitionsThere,
    /// The instance exists and is not being deleted. Only writes that give an object its owner back ask.
    InstanceThere,
    /// No ConfigPolicy refuses the object.
    Policies,
    /// The API server finds no type error in the first instance of a template.
    Types,
}

impl Gate {
    /// All gates, in the order in which the handler asks them.
    const ALL: [Self; 5] =
        [Self::FreshRights, Self::DefinitionsThere, Self::InstanceThere, Self::Policies, Self::Types];

    /// The gate's name in docs/copy-model.md.
    fn name(self) -> &'static str {
        match self {
            Self::FreshRights => "fresh_rights",
            Self::DefinitionsThere => "definitions_there",
            Self::InstanceThere => "instance_there",
            Self::Policies => "policies",
            Self::Types => "types",
        }
    }
}

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
    pub(super) guard: CopyGuard,
    pub(super) owners: OwnerCheck,
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

    /// Returns the rule behind a write, if its rights can be withdrawn and the last answer about them is too
    /// old. Asking again stops the write at once if a right was withdrawn.
    fn rule_to_ask_again(&self, plan: &SlotPlan) -> Option<Declarer> {
        let Some(CopyAction::Write(_)) = plan.action else { return None };
        let rule = plan.rule.clone()?;
        let world = self.context.world();
        // The cheap condition comes first: a template with many objects has many rights.
        let is_due = is_too_old(world.rule_authority(&rule)?, now())
            && can_be_withdrawn(&world, &rule, world.declaration(&rule)?);
        is_due.then_some(rule)
    }

    /// Checks a gate; returns the result for the action if the gate is shut.
    async fn shut(&self, gate: Gate, slot: &ObjectKey, plan: &SlotPlan, action: &CopyAction) -> Option<Shut> {
        let shut = match gate {
            Gate::FreshRights => {
                let rule = self.rule_to_ask_again(plan)?;
                // The rule gets the most urgent lane, because all of the rule's slots wait for the answer.
                self.context.queue().add(Key::Rule(rule), Lane::NewNamespace);
                Shut::Wait(Again::After(SOON))
            }
            Gate::DefinitionsThere => {
                let missing = if action.removes() { self.missing_definition(slot).await } else { None }?;
                tracing::warn!(%slot, %missing, "nothing is removed while our own kinds are not all there");
                Shut::Wait(Again::After(WHEN_INTACT))
            }
            Gate::InstanceThere => {
                let CopyAction::Write(write) = action else { return None };
                match self.owners.may_set(slot, write).await {
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
            Gate::Policies => {
                let CopyAction::Write(write) = action else { return None };
                Shut::Refused(self.guard.refusal(slot, write).await?)
            }
            Gate::Types => Shut::Refused(self.trial.refusal(slot, plan).await?),
        };
        tracing::debug!(%slot, gate = gate.name(), "the action waits");
        Some(shut)
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
        let mut refused = None;
        for gate in Gate::ALL {
            match self.shut(gate, slot, plan, action).await {
                None => {}
                Some(Shut::Wait(again)) => return again,
                Some(Shut::Refused(outcome)) => {
                    refused = Some(outcome);
                    break;
                }
            }
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

    async fn missing_definition(&self, slot: &ObjectKey) -> Option<String> {
        let (rules_gone, name, listed_under) = {
            let world = self.context.world();
            let marks = world.object(slot).and_then(|facts| facts.marks.as_deref());
            let of_template = marks.filter(|marks| marks.rule.as_template().is_some());
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::plan::copy::write_gates;

    /// The page lists every gate with every reason, in the order in which the planner and this handler ask.
    #[test]
    fn the_page_about_what_holds_back_a_copy_has_every_gate_in_its_order() {
        let page =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/copy-model.md")).unwrap();
        let cell = |text: &str| text.trim().trim_matches('`').to_owned();
        let rows = page.lines().filter(|line| line.starts_with('|')).skip(2);
        let rows: Vec<Vec<String>> =
            rows.map(|row| row.trim_matches('|').split('|').map(cell).collect()).collect();
        let of = |asked: &'static str| rows.iter().filter(move |row| row[0] == asked);
        let told: Vec<(&str, &str)> = of("planner").map(|row| (&*row[1], &*row[2])).collect();
        let gates: Vec<(&str, &str)> =
            write_gates().flat_map(|(gate, says)| says.iter().map(move |reason| (gate, *reason))).collect();
        assert_eq!(told, gates);
        let told: Vec<&str> = of("reconciler").map(|row| &*row[1]).collect();
        assert_eq!(told, Gate::ALL.map(Gate::name));
        assert_eq!(rows.len(), rows.iter().map(|row| (&row[1], &row[2])).collect::<BTreeSet<_>>().len());
    }
}
