//! The planner: plans, fetches the facts that the plan lacks, and plans again, until the plan lacks no facts.
//! Every key whose plan may lack facts uses the planner. After planning, a handler acts, and remembers the
//! result with one call into `plan/` (`settle_slot`, `settle_workload`, `settle_pods`). Each handler has its
//! own code for acting and remembering: a copy is judged before it is written, a restart reserves its place
//! under the lock under which it is planned once more, and the reports of the handlers differ.

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

/// How often a plan may request more facts before its key waits for an event.
const ROUNDS: usize = 4;
/// Delay until the planner checks again for facts that a watch will soon report.
pub(super) const SOON: Duration = Duration::from_millis(250);

/// A plan that may lack facts.
pub(super) trait Plan {
    /// The facts to fetch before deciding.
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

/// A plan and the facts that it is based on, read under the same lock.
impl<P: Plan, T> Plan for (P, T) {
    fn needs(&self) -> &[Need] {
        self.0.needs()
    }
}

/// Why no complete plan exists.
pub(super) enum Unplanned<P> {
    /// A watch will bring the facts soon.
    Soon,
    /// A watch is about to complete a list, which queues the key.
    Unlisted,
    /// Some facts could not be fetched; contains the plan that lacks these facts.
    Failed(P, FetchError),
}

/// A plan that lacks no facts.
pub(super) struct Planned<P> {
    pub(super) plan: P,
    /// Whether facts were fetched for the plan.
    pub(super) is_news: bool,
}

/// Plans, and fetches what plans lack.
pub(super) struct Planner {
    pub(super) context: Context,
    pub(super) fetcher: Fetcher,
}

impl Planner {
    /// Returns a plan that lacks no facts.
    pub(super) async fn planned<P: Plan>(
        &self,
        plan: impl Fn(&World, Timestamp) -> P,
    ) -> Result<Planned<P>, Unplanned<P>> {
        for round in 0..ROUNDS {
            let plan = plan(&self.context.world(), now());
            if plan.needs().is_empty() {
                return Ok(Planned { plan, is_news: round > 0 });
            }
            match self.fetcher.fetch(plan.needs()).await {
                Ok(Fetched::All) => {}
                Ok(Fetched::Ahead) => return Err(Unplanned::Soon),
                Ok(Fetched::Unlisted) => return Err(Unplanned::Unlisted),
                Err(error) => return Err(Unplanned::Failed(plan, error)),
            }
        }
        Err(Unplanned::Soon)
    }
}
