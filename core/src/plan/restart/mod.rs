//! Whether one workload, or the pods that one monitor selects, must restart now. docs/restart-model.md has
//! it on one page.

mod applied;
mod backoff;
mod brake;
mod budget;
mod cause;
mod gates;
mod inputs;
mod misspelt;
mod nudge;
mod pods;
mod progress;
pub mod reach;
mod remember;
mod replacing;
mod restarts;
mod retry;
mod selected;
mod soak;
mod stage;
mod state;
mod window;
mod workload_plan;

pub use brake::{Pace, Wait};
pub use budget::{next_in_line, under_way};
pub use cause::{Cause, because, restarting_for};
pub use gates::model;
pub use inputs::missing;
pub use inputs::{InputDigest, Inputs};
pub use misspelt::misspelt;
pub use pods::{Removal, RemovePod};
pub use reach::{monitors_reaching, monitors_watching, workloads_of, workloads_using};
pub use remember::{Acted, Turn, reserve, settle_pods, settle_unplanned, settle_workload};
pub(crate) use restarts::plan_in_line;
pub use restarts::plan_workload;
pub(crate) use selected::selects_pods;
pub use selected::{SelectedPodsAction, SelectedPodsPlan, plan_selected_pods};
pub(crate) use stage::Lines;
pub use stage::whose_turn;
pub use state::{Concern, Failure, RestartState};
pub use workload_plan::{RestartAction, WorkloadPlan};
