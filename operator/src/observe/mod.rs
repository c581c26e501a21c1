//! Watches the API server, and stores the facts in the [`World`](crate::model::World). This module neither
//! writes to the API server nor makes decisions.

pub(crate) mod data_watches;
pub(crate) mod dynamic;
pub(crate) mod existing;
mod health;
pub(crate) mod hooks;
pub(crate) mod namespace;
pub(crate) mod observer;
pub(crate) mod pages;
pub(crate) mod reads;
pub(crate) mod served;
pub(crate) mod watch;
