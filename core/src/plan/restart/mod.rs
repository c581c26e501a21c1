//! Whether one workload, or the pods that one monitor selects, must restart now, and what a monitor's status
//! says.

mod applied;
mod backoff;
mod brake;
mod budget;
mod cause;
mod inputs;
mod misspelt;
mod monitor_status;
mod nudge;
mod pods;
mod progress;
mod pulling;
pub mod reach;
mod replacing;
mod restarts;
mod selected;
mod soak;
mod stage;
mod window;
mod workload_plan;

pub(crate) use brake::ends_by_the_clock;
pub use brake::{Pace, Wait, WaitReason};
pub use budget::{next_in_line, under_way};
pub use cause::{Cause, because, restarting_for};
pub use inputs::missing;
pub use inputs::{Content, Inputs};
pub use misspelt::misspelt;
pub use monitor_status::monitor_status;
pub use pods::{Removal, RemovePod};
pub use reach::{monitors_reaching, monitors_watching, workloads_of, workloads_using};
pub use restarts::plan_workload;
pub use selected::{SelectedPodsAction, SelectedPodsPlan, SelectedPodsState, plan_selected_pods};
pub use stage::whose_turn;
pub use workload_plan::{RestartAction, WorkloadPlan, WorkloadState};
