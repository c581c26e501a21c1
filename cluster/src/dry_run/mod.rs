//! Dry runs: requests that the API server judges and does not store, what they send, and what an answer
//! means.

pub mod canary;
pub mod copies;
pub mod manifest;
pub mod outcome;
