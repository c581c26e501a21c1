//! Reads the API server into the [`World`](crate::model::World): watches, and content reduced to digests.
//! This module neither writes to the API server nor makes decisions.

pub(crate) mod content;
mod content_cache;
pub(crate) mod crds;
pub(crate) mod data_watches;
pub(crate) mod decoded;
pub(crate) mod dynamic;
pub(crate) mod existing;
mod fingerprint;
pub(crate) mod granted;
mod health;
pub(crate) mod hindered;
pub(crate) mod hooks;
pub(crate) mod instances;
pub(crate) mod listing;
pub(crate) mod made;
pub(crate) mod mounted;
pub(crate) mod namespace;
pub(crate) mod observer;
pub(crate) mod pages;
pub(crate) mod pods;
pub(crate) mod reads;
pub(crate) mod served;
pub(crate) mod watch;
