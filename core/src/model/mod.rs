//! The model of the cluster: value types without behaviour beyond constructors and indexes. A [`World`]
//! contains the whole model; the planner and the webhook see only a `World`.

mod answers;
mod asked;
mod attempt;
mod changed;
mod changes;
mod cluster;
mod copy_memory;
mod data_changes;
mod data_scope;
mod identity;
mod instances;
mod keeper;
mod labels;
mod last_restart;
mod left_out;
mod memory;
mod namespace_scope;
mod object;
mod objects;
mod pod_labels;
mod policy_state;
mod progress;
mod reads;
mod recalled;
mod recalled_changes;
mod rendered;
mod restart_fields;
mod restart_memory;
mod right;
mod room;
mod rule;
mod rules;
mod settings;
mod shared;
mod sighting;
mod spread;
mod store;
mod track;
mod under_way;
mod unreadable;
mod waits;
mod workload;
mod world;

pub use attempt::{Attempt, Compared, Comparison, Differed, NotKept, Repairs, WriteFault};
pub use changed::ChangedKeys;
pub use copy_memory::{SlotMemory, SourceMemory, StatusMemory};
pub use data_scope::{DATA_KINDS, DataNeed, DataScope, DataWatch, OurLabel, Span};
pub use identity::{ResourceVersion, Uid};
pub use instances::{InstanceFacts, InstancesRead};
pub use keeper::keeper;
pub use labels::Labels;
pub use last_restart::{LastRestart, RestartResult, RolloutFault};
pub use left_out::{CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, is_left_out};
pub use memory::Memory;
pub use namespace_scope::{NamespaceRead, NamespaceScope, Unseen};
pub use object::{
    Deletion, Drift, Examined, ForeignField, NamespaceFacts, ObjectFacts, OwnFields, Owner, Ownership,
    Remark, WriteTrace,
};
pub use pod_labels::{PodLabels, PodSelector};
pub use policy_state::{HookCoverage, ScanResult};
pub use progress::STAMPED_AGAIN;
pub use recalled::ListedGrant;
pub use rendered::{
    Body, ReadInstance, RenderedFault, RenderedObject, RenderedSet, StatusAnswer, StatusFault,
    StatusFaultKind, hash_of,
};
pub use restart_fields::{OtherWriter, RareRestartFields, RestartFields};
pub use restart_memory::{MonitorMemory, RestartMemory};
pub use right::{EVERYWHERE, Right, RightAnswer, RightAnswers};
pub use rule::{
    Authority, Declaration, Declared, Definition, MonitorFacts, PolicyFacts, Refusal, RefusalReason,
    RuleFacts, SpecVersion, TemplateFacts,
};
pub use rules::Rules;
pub use settings::Settings;
pub use sighting::{Seen, SeenBy};
pub use spread::{Bytes, BytesError, Spread, SpreadLimits};
pub use store::Store;
pub use track::TrackRecord;
pub use under_way::UnderWay;
pub use unreadable::{FailingList, ListName, UnreadObject};
pub use waits::{Ending, WaitReason, Waiting};
pub use workload::{
    AttemptFailure, LostRecord, MOST_REFERENCES, PodFacts, PodRemoved, PodsSeen, Reference, RestartAttempt,
    Rollout, WorkloadFacts, digest_of,
};
pub use world::World;
