//! What to do about what is known. Pure: no async, client, clock, environment, randomness or logging; now is a
//! value. Every function here answers for one key, reads the whole [`World`](crate::model::World), and gives
//! the same answer for the same world.

mod affected;
mod alike;
mod applied;
mod backoff;
mod brake;
mod budget;
mod cause;
pub mod claims;
mod clock;
mod copies;
mod difference;
mod foresee;
mod hold;
mod inputs;
mod intent;
mod misspelt;
mod monitor_status;
mod need;
mod news;
mod nudge;
mod on_change;
mod outlook;
mod pods;
mod policy_status;
mod progress;
mod pulling;
mod reach;
mod removal;
mod replacing;
mod restart_outlook;
mod restart_words;
mod restarts;
mod rule_status;
mod scan;
mod selected;
mod soak;
mod source_index;
mod spread;
mod stage;
pub mod targets;
#[cfg(test)]
mod tests;
mod why_not;
mod window;
mod workload_plan;

pub use affected::{Changed, Key, affected, everything, slots_to_check};
pub use brake::{Pace, Wait, WaitReason};
pub use budget::{next_in_line, under_way};
pub use cause::{Cause, because, restarting_for};
pub use clock::at_after;
pub use copies::{CopyAction, CopyWrite, SlotPlan, SlotState, Version, plan_slot};
pub use difference::Difference;
pub use foresee::{Foreseen, carry_out, foresee_pods, foresee_workload, records};
pub use hold::{AGAIN, is_over, repaired, tried_again};
pub use inputs::{Content, Inputs};
pub use intent::Intent;
pub use misspelt::misspelt;
pub use monitor_status::monitor_status;
pub use need::Need;
pub use news::{News, Said, news};
pub use on_change::{OnChange, on_change};
pub use outlook::{Course, Outlook, outlooks};
pub use pods::{Removal, RemovePod};
pub use policy_status::policy_status;
pub use reach::{monitors_reaching, monitors_watching, workloads_of, workloads_using};
pub use restart_outlook::{
    Around, RestartCourse, RestartOutlook, RestartState, Restartable, pods_outlook, workload_outlook,
};
pub use restarts::plan_workload;
pub use rule_status::{Tally, large_spread, rule_report, rule_status};
pub use scan::{Judges, Scan, is_unscanned};
pub use selected::{SelectedPodsAction, SelectedPodsPlan, SelectedPodsState, plan_selected_pods};
pub use source_index::{IndexedSource, SourceIndex, source_index_key};
pub use spread::{is_calm, spread};
pub use stage::whose_turn;
pub use why_not::{Brings, brings};
pub use workload_plan::{RestartAction, WorkloadPlan, WorkloadState};
