//! Certificates of an admission webhook: issue, inspect, rotate.
//!
//! The library does not talk to a cluster, start tasks or read a clock: `now` is always an argument.

#![warn(unreachable_pub)]

pub mod bundle;
pub mod ca;
pub mod certificate;
pub mod error;
pub mod inspect;
pub mod key;
pub mod leaf;
pub mod rotation;
pub mod validity;

pub use bundle::{CaSecret, CaSecretError};
pub use ca::Authority;
pub use certificate::Certificate;
pub use error::CertError;
pub use key::PrivateKeyPem;
pub use leaf::{Leaf, service_names};
pub use rotation::{Carried, Rotation, Step, Times};
pub use validity::Validity;
