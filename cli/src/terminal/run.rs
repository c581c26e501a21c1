//! Runs the future of a command.

use super::{console::fail, exit::Exit};

/// Runs a future to its end. Commands for people need only one thread.
pub fn block_on(threads: Threads, future: impl Future<Output = Exit>) -> Exit {
    let built = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    match built {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => fail(&error, Exit::Findings),
    }
}

/// How many threads run the tasks of a command.
pub enum Threads {
    /// One thread.
    One,
    /// As many threads as the machine has processors.
    Many,
}
