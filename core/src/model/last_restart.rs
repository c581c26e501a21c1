//! How a restart of ours goes on, as seen on the workload and its pods. Only for workloads of which others
//! wait: forgotten, it costs one list of pods each to find out anew.

/// The last restart of a workload, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRestart {
    /// The content that it is, or was, for: keyed digest.
    pub content: String,
    /// Its result so far.
    pub result: RestartResult,
}

/// The result of a restart, so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartResult {
    /// Its pods are being replaced.
    UnderWay,
    /// All of its pods are ready, and have to stay so for a while.
    Soaking,
    /// All of its pods stayed ready for long enough.
    Through,
    /// It failed, by this fault.
    Failed(RolloutFault),
}

/// What shows that a restart has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutFault {
    /// The progress deadline of its rollout has passed.
    Deadline,
    /// The rollout has not come to its partition in time.
    Partition,
    /// This pod crashes again and again.
    PodCrashes(String),
    /// This pod was ready and is not any more.
    PodNotReadyAnyMore(String),
    /// This pod does not become ready.
    PodNeverReady(String),
}
