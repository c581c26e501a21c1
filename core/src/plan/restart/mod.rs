//! Whether one workload, or the pods that one monitor selects, must restart now. docs/restart-model.md
//! describes the decision on one page.

mod applied;
mod backoff;
mod brake;
mod budget;
mod case;
mod cause;
mod gates;
mod inputs;
mod line;
mod misspelt;
mod nudge;
mod own_gates;
mod pods;
mod progress;
pub mod reach;
mod readiness;
mod remember;
mod restarts;
mod retry;
mod selected;
mod soak;
mod stage;
mod state;
mod taken_back;
mod window;
mod workload_plan;

pub use brake::{Pace, Wait};
pub use budget::{next_in_line, under_way};
pub use cause::{Cause, because};
pub use gates::model;
pub use inputs::missing;
pub use inputs::{InputDigest, Inputs};
pub(crate) use line::Lines;
pub use misspelt::{misspelt, remark};
pub use pods::{Removal, RemovePod};
pub use reach::{monitors_reaching, monitors_watching, workloads_of, workloads_using};
pub use remember::{
    Acted, Turn, reserve, settle_pods, settle_stage_failures, settle_unplanned, settle_workload,
};
pub(crate) use restarts::plan_in_line;
pub use restarts::{plan_workload, restarting_for};
pub(crate) use selected::selects_pods;
pub use selected::{SelectedPodsAction, SelectedPodsPlan, plan_selected_pods};
pub use stage::whose_turn;
pub use state::{Concern, Failure, Overwritten, RestartState, TakenBack};
pub use workload_plan::{RestartAction, WorkloadPlan};
