//! How a restart of ours goes on, as seen on the workload and its pods. Only for workloads of which others
//! wait: forgotten, it costs one list of pods each to find out anew.

/// How the last restart of a workload went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarted {
    /// The content that it is, or was, for: keyed digest.
    pub content: String,
    /// How it went.
    pub went: Went,
}

/// How a restart went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Went {
    /// Its pods are being replaced.
    UnderWay,
    /// All of its pods are ready, and have to stay so for a while.
    Soaking,
    /// They stayed ready.
    Through,
    /// What went wrong.
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
