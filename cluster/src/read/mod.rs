//! Reads objects from the API server: lists, content, pods, definitions, and Copyrator's own Secrets. The
//! content of ConfigMaps and Secrets is reduced to digests for the [`World`](crate::model::World).

pub mod ca;
pub mod content;
mod content_cache;
pub mod crds;
pub mod decoded;
pub mod digest_key;
mod fingerprint;
pub mod granted;
pub mod hindered;
pub mod instances;
pub mod kept;
pub mod listing;
pub mod made;
pub mod pods;
