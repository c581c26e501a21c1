//! Plans in words and rows, for statuses, Events and the commands that people type. Pure, like the planners;
//! the planners make all decisions.

mod copy_row;
mod copy_state;
mod difference;
mod field_changes;
mod fields;
mod foresee;
mod monitor_status;
mod on_change;
mod pulling;
mod restart_outlook;
mod restart_reason;
mod restartable;
mod said;
mod why_not;

pub use copy_row::{CopyRow, copy_rows};
pub use copy_state::{CopyState, Course};
pub use difference::Difference;
pub use field_changes::{FieldChange, field_changes};
pub use foresee::{Foreseen, carry_out, foresee_pods, foresee_workload};
pub use monitor_status::{MonitorReport, monitor_report, monitor_status};
pub use on_change::{OnChange, on_change};
pub use restart_outlook::{Around, RestartCourse, RestartOutlook, pods_outlook, records, workload_outlook};
pub use restart_reason::RestartReason;
pub use restartable::{RestartCause, Restartable};
pub use said::{About, failed, said};
pub use why_not::{Brings, brings};
