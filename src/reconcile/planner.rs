//! plan → fetch what it lacks → plan again, until a plan lacks nothing: the same for every key whose plan may
//! lack facts. A handler then acts, and remembers what became of it by one call into `plan/` (`settle_slot`,
//! `settle_workload`, `settle_pods`). These two steps are each handler's own: a copy is judged before it is written, a restart takes
//! its place under the lock under which it is planned once more, and what is reported of each is another thing.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    context::{Context, now},
    fetch::{FetchError, Fetched, Fetcher},
};
use crate::{
    model::World,
    plan::{
        Need,
        copy::SlotPlan,
        restart::{SelectedPodsPlan, WorkloadPlan},
    },
};

/// How often a plan may ask for more facts before its key waits for an event.
const ROUNDS: usize = 4;
/// When to look again at facts that are on their way through a watch.
pub(super) const SOON: Duration = Duration::from_millis(250);

/// A plan that may lack facts.
pub(super) trait Plan {
    /// What must be fetched to decide.
    fn needs(&self) -> &[Need];
}

impl Plan for SlotPlan {
    fn needs(&self) -> &[Need] {
        &self.needs
    }
}

impl Plan for WorkloadPlan {
    fn needs(&self) -> &[Need] {
        &self.needs
    }
}

impl Plan for SelectedPodsPlan {
    fn needs(&self) -> &[Need] {
        &self.needs
    }
}

/// A plan beside what it was made on, read under the same lock.
impl<P: Plan, T> Plan for (P, T) {
    fn needs(&self) -> &[Need] {
        self.0.needs()
    }
}

/// Why there is no plan that lacks nothing.
pub(super) enum Unplanned<P> {
    /// Facts are on their way through a watch.
    Soon,
    /// They could not be fetched; and the plan that lacks them.
    Failed(P, FetchError),
}

/// A plan that lacks nothing.
pub(super) struct Planned<P> {
    pub(super) plan: P,
    /// Whether facts were fetched for it.
    pub(super) is_news: bool,
}

/// Plans, and fetches what plans lack.
pub(super) struct Planner {
    pub(super) context: Context,
    pub(super) fetcher: Fetcher,
}

impl Planner {
    /// A plan that lacks nothing.
    pub(super) async fn planned<P: Plan>(
        &self,
        plan: impl Fn(&World, Timestamp) -> P,
    ) -> Result<Planned<P>, Unplanned<P>> {
        for round in 0..ROUNDS {
            let plan = {
                let world = self.context.world();
                if world.is_widening() {
                    return Err(Unplanned::Soon);
                }
                plan(&world, now())
            };
            if plan.needs().is_empty() {
                return Ok(Planned { plan, is_news: round > 0 });
            }
            match self.fetcher.fetch(plan.needs()).await {
                Ok(Fetched::All) => {}
                Ok(Fetched::Ahead) => return Err(Unplanned::Soon),
                Err(error) => return Err(Unplanned::Failed(plan, error)),
            }
        }
        Err(Unplanned::Soon)
    }
}
