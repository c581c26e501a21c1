//! How a step of a benchmark ends.

use std::error::Error;

/// What may go wrong is told and ends the benchmark.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
