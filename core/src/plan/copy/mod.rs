//! Plans one slot, the place of one possible copy, and what a rule's status says about its slots.

pub mod absent;
pub mod claims;
mod conditions;
pub mod copies;
mod copy_cache;
mod count;
pub mod demand;
pub mod granted;
mod guard;
mod hold;
mod intent;
mod list_order;
mod not_kept;
mod problem;
mod remember;
mod removal;
pub mod rule_status;
mod same_value;
mod slot_plan;
pub mod source_index;
mod spread;
pub mod status_kept;
pub mod targets;
mod template_status;
pub mod templates;
mod terminating;
#[cfg(test)]
mod tests;
pub mod unstable;

pub use copies::{as_declared, plan_slot, plan_slots};
pub use count::Tally;
pub use demand::too_many;
pub use guard::{Guards, judged_by};
pub use hold::{AGAIN, is_over, tried_again};
pub use intent::Intent;
pub use not_kept::not_kept;
pub use problem::{CopyProblem, ProblemReason};
pub use remember::{Acted, Made, forget_attempt, settle_compared, settle_examined, settle_slot};
pub use removal::{is_unseen_under, let_go, places, served};
pub use rule_status::{RuleReport, rule_report, rule_status, says_too_many};
pub use slot_plan::{CopyAction, CopyWrite, SlotPlan, SlotState, Version};
pub use source_index::{IndexedSource, SourceIndex, source_index_key};
pub use spread::{LargeSpread, is_calm};
pub use template_status::{status_of, template_report};
