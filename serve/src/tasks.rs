//! The supervised tasks of the process, by name: no task is detached or can end unnoticed.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// The error that a task ends with.
pub(crate) type TaskError = Box<dyn Error + Send + Sync>;

/// Why the process ends with a failure, with the name of the task.
#[derive(Debug, thiserror::Error)]
pub enum TasksError {
    /// A task returned before the shutdown.
    #[error("task `{name}` ended unexpectedly")]
    Ended {
        /// Name of the task.
        name: &'static str,
    },
    /// A task returned an error.
    #[error("task `{name}` failed: {source}")]
    Failed {
        /// Name of the task.
        name: &'static str,
        /// The error that the task returned.
        source: TaskError,
    },
    /// A task panicked. The panic hook has logged the place.
    #[error("task `{name}` panicked")]
    Panicked {
        /// Name of the task.
        name: &'static str,
    },
    /// The shutdown took too long, or a second signal ended it.
    #[error("tasks aborted during the shutdown: {}", .names.join(", "))]
    Aborted {
        /// Names of the tasks that were still running, sorted.
        names: Vec<&'static str>,
    },
}

/// A supervised set of named tasks that end together.
#[derive(Debug)]
pub struct Tasks {
    set: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, &'static str>,
    shutdown: CancellationToken,
}

impl Tasks {
    /// Creates an empty set. Tasks must end when `shutdown` is cancelled.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { set: JoinSet::new(), names: HashMap::new(), shutdown }
    }

    /// Returns the token whose cancellation starts the shutdown.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Starts a task that runs until the shutdown. The task must return soon after the token is cancelled; if
    /// it returns earlier, the process ends.
    pub fn spawn<F, E>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<TaskError>,
    {
        let started = self.set.spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(started.id(), name);
    }

    /// Runs until a signal arrives or a task ends, and gives the remaining tasks `grace` to finish. A second
    /// signal aborts these tasks at once.
    ///
    /// # Errors
    /// Returns the first failure.
    pub async fn run(
        mut self,
        signals: impl Stream<Item = &'static str>,
        grace: Duration,
    ) -> Result<(), TasksError> {
        let signals = signals.chain(stream::pending());
        tokio::pin!(signals);
        let mut first = None;
        while first.is_none() && !self.set.is_empty() {
            tokio::select! {
                Some(ended) = self.set.join_next_with_id() => first = self.outcome(ended),
                Some(name) = signals.next() => {
                    info!(signal = name, "shutting down");
                    break;
                }
                () = self.shutdown.cancelled() => break,
            }
        }
        self.shutdown.cancel();
        let too_long = tokio::time::sleep(grace);
        tokio::pin!(too_long);
        while !self.set.is_empty() {
            tokio::select! {
                Some(ended) = self.set.join_next_with_id() => first = first.or(self.outcome(ended)),
                Some(name) = signals.next() => {
                    warn!(signal = name, "second signal: aborting");
                    break;
                }
                () = &mut too_long => break,
            }
        }
        let aborted = self.abort().await;
        first.or(aborted).map_or(Ok(()), Err)
    }

    /// Returns the failure that the end of a task means; `None` if the task ended well during the shutdown.
    /// Logs the failure immediately, since `run` returns only the first failure.
    fn outcome(&mut self, ended: Result<(Id, Result<(), TaskError>), JoinError>) -> Option<TasksError> {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let name = self.names.remove(&id).unwrap_or("?");
        let failure = match ended {
            Ok((_, Ok(()))) if self.shutdown.is_cancelled() => return None,
            Ok((_, Ok(()))) => TasksError::Ended { name },
            Ok((_, Err(source))) => TasksError::Failed { name, source },
            Err(_) => TasksError::Panicked { name },
        };
        error!(error = %failure, "shutting down");
        Some(failure)
    }

    async fn abort(&mut self) -> Option<TasksError> {
        if self.set.is_empty() {
            return None;
        }
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        self.set.shutdown().await;
        Some(TasksError::Aborted { names })
    }
}

/// Returns SIGTERM and SIGINT as a stream of their names. After this call, neither signal ends the process by
/// itself. Call this function before anything else starts: for PID 1, the kernel ignores a signal without a
/// handler.
///
/// # Errors
/// Returns an error if the kernel refuses a handler.
pub fn signals() -> io::Result<impl Stream<Item = &'static str>> {
    let term = signal(SignalKind::terminate())?;
    let int = signal(SignalKind::interrupt())?;
    Ok(stream::unfold((term, int), async |(mut term, mut int)| {
        let name = tokio::select! {
            Some(()) = term.recv() => "SIGTERM",
            Some(()) = int.recv() => "SIGINT",
            else => return None,
        };
        Some((name, (term, int)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A set with one well-behaved task.
    fn tasks() -> Tasks {
        let mut tasks = Tasks::new(CancellationToken::new());
        let shutdown = tasks.shutdown();
        tasks.spawn("good", async move {
            shutdown.cancelled().await;
            Ok::<(), TaskError>(())
        });
        tasks
    }

    async fn run(tasks: Tasks, signals: &[&'static str]) -> Result<(), TasksError> {
        let run = tasks.run(stream::iter(signals.to_vec()), LONG);
        tokio::time::timeout(LONG, run).await.expect("the tasks never ended")
    }

    #[tokio::test]
    async fn a_signal_ends_all_of_them_well() {
        run(tasks(), &["SIGTERM"]).await.unwrap();
    }

    #[tokio::test]
    async fn a_task_that_ends_early_ends_all_and_is_named() {
        let mut tasks = tasks();
        tasks.spawn("early", async { Ok::<(), TaskError>(()) });
        assert!(matches!(run(tasks, &[]).await, Err(TasksError::Ended { name: "early" })));
    }

    #[tokio::test]
    async fn an_error_is_told_with_its_task() {
        let mut tasks = tasks();
        tasks.spawn("failing", async { Err::<(), _>(io::Error::other("no luck")) });
        assert_eq!(run(tasks, &[]).await.unwrap_err().to_string(), "task `failing` failed: no luck");
    }

    #[tokio::test]
    async fn a_panic_ends_all_and_is_named() {
        let mut tasks = tasks();
        tasks.spawn("panicking", async {
            tokio::task::yield_now().await;
            panic!("as the test wants");
            #[expect(unreachable_code, reason = "gives the block its type")]
            Ok::<(), TaskError>(())
        });
        assert!(matches!(run(tasks, &[]).await, Err(TasksError::Panicked { name: "panicking" })));
    }

    #[tokio::test]
    async fn a_second_signal_aborts_what_is_left() {
        let mut tasks = tasks();
        tasks.spawn("stuck", std::future::pending::<Result<(), TaskError>>());
        let aborted = run(tasks, &["SIGTERM", "SIGTERM"]).await.unwrap_err();
        assert!(matches!(aborted, TasksError::Aborted { names } if names.contains(&"stuck")));
    }

    #[tokio::test]
    async fn the_grace_period_aborts_what_is_left() {
        let mut tasks = tasks();
        tasks.spawn("stuck", std::future::pending::<Result<(), TaskError>>());
        let aborted = tasks.run(stream::iter(["SIGTERM"]), Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(aborted, TasksError::Aborted { names } if names == ["stuck"]));
    }

    #[tokio::test]
    async fn a_failure_while_shutting_down_still_counts() {
        let mut tasks = tasks();
        let shutdown = tasks.shutdown();
        tasks.spawn("late", async move {
            shutdown.cancelled().await;
            Err::<(), _>(io::Error::other("cannot flush"))
        });
        assert!(matches!(run(tasks, &["SIGINT"]).await, Err(TasksError::Failed { name: "late", .. })));
    }

    #[tokio::test]
    async fn a_real_signal_arrives() {
        let signals = signals().unwrap();
        tokio::pin!(signals);
        let me = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &me]).status().unwrap();
        assert!(sent.success());
        let name = tokio::time::timeout(LONG, signals.next()).await.expect("no signal arrived");
        assert_eq!(name, Some("SIGTERM"));
    }
}
