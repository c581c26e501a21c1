//! The planners, which decide the next actions from the known state of the cluster. Pure: no async, client,
//! clock, environment, randomness or logging; the current time is an argument. Every function of a planner
//! decides for one key, reads the whole [`World`](crate::model::World), and gives the same result for the
//! same world.
//!
//! Three planners: [`copy`], [`restart`] and [`policy`]. The planners share the files of this folder: the
//! keys that a change affects, the facts that a decision lacks, and the Events about a status.

pub mod copy;
pub mod policy;
pub mod restart;

mod affected;
mod changed;
mod clock;
mod data_need;
mod need;
mod reason;
mod status_events;

pub use affected::{Key, affected, every_slot, everything, listed_anew, slots_to_check};
pub use changed::{Changed, unread};
pub use clock::{at_after, at_before, is_younger};
pub use data_need::{needed, needed_by};
pub use need::Need;
pub use reason::Reason;
pub use status_events::{StatusEvent, StatusParts, status_events};
