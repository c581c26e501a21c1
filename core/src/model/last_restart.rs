//! The progress of a restart of ours, as seen on the workload and its pods. The progress is kept only for
//! workloads that other workloads wait for; determining the progress again costs one list of pods for each
//! workload.

/// The last restart of a workload, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRestart {
    /// Keyed digest of the content that the restart is for.
    pub content: String,
    /// The result of the restart so far.
    pub result: RestartResult,
}

/// The result of a restart, so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartResult {
    /// The workload's pods are being replaced.
    UnderWay,
    /// All pods of the workload are ready, and must stay ready for a while.
    Soaking,
    /// All pods of the workload stayed ready for long enough.
    Through,
    /// The restart failed, with this fault.
    Failed(RolloutFault),
}

/// The evidence that a restart has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutFault {
    /// The progress deadline of its rollout has passed.
    Deadline,
    /// The rollout has not reached its partition in time.
    Partition,
    /// This pod crashes again and again.
    PodCrashes(String),
    /// This pod was ready and is not ready any more.
    PodNotReadyAnyMore(String),
    /// This pod does not become ready.
    PodNeverReady(String),
}
