//! Value types: what is known of the cluster, without behaviour beyond constructors and indexes.
//! A [`World`] is the whole of it; the planner and the webhook see nothing else.

mod key;
mod object;
mod restarted;
mod rule;
mod spread;
mod workload;
mod world;

pub use key::{Kind, NamespacedName, ObjectKey, WorkloadKey, WorkloadKind};
pub use object::{Fingerprint, ForeignField, KeyPrint, NamespaceFacts, ObjectFacts, Ownership};
pub use restarted::{Restarted, Went};
pub use rule::{Authority, Declared, MonitorFacts, PolicyFacts, RuleFacts};
pub use spread::{Bytes, BytesError, Spread, SpreadLimits};
pub use workload::{PodFacts, PodsSeen, Reference, RestartAttempt, Rollout, WorkloadFacts};
pub use world::{Attempt, Repairs, Store, World};
