//! The admission webhook without its HTTP server: `decode` reads a review, `decide` decides it from memory,
//! `respond` encodes the answer.

pub mod decide;
pub mod decode;
pub mod respond;

pub use decide::{Parties, Purpose};
pub use decode::UserInfo;

/// The webhook's paths, one for each hook, and the part of a review that each hook decides.
pub const PATHS: [(&str, Purpose); 8] = [
    ("/validate", Purpose::All),
    ("/validate/own-kinds", Purpose::OwnKinds),
    ("/validate/annotations", Purpose::Annotations),
    ("/validate/policies", Purpose::Policies),
    ("/validate/warnings", Purpose::Warnings),
    ("/mutate", Purpose::Defaults),
    ("/mutate/defaults", Purpose::Defaults),
    ("/mutate/author", Purpose::Author),
];
