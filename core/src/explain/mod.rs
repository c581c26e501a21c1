//! Plans in words and rows, for the commands that people type. Pure, like the planners; nothing here decides.

mod difference;
mod foresee;
mod on_change;
mod outlook;
mod restart_outlook;
mod restart_words;
mod why_not;

pub use difference::Difference;
pub use foresee::{Foreseen, carry_out, foresee_pods, foresee_workload, records};
pub use on_change::{OnChange, on_change};
pub use outlook::{Course, Outlook, outlooks};
pub use restart_outlook::{
    Around, RestartCourse, RestartOutlook, RestartState, Restartable, pods_outlook, workload_outlook,
};
pub use why_not::{Brings, brings};
