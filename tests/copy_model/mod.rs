//! The API server, small and pure, and what carries out plans on it: for the tests of the copy planner.

pub mod acting;
pub mod server;
pub mod stored;
