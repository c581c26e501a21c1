//! Assembly of drafts into monitors that can be applied. The assembly sorts watched objects, gives each
//! monitor its own name, and leaves out monitors that the validator or the schema would refuse.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    finding::{Finding, Origin, Tool, differs, none},
    imported::{Made, Proposal},
    workload::AnnotatedWorkload,
};
use crate::{
    api::{ConfigMonitor, ConfigMonitorSpec, DataKind, WatchTerm, WorkloadName, Workloads},
    names::{Kind, NameKind},
    unique_names::Names,
    validate::CompiledMonitor,
};

/// The request of one object, before it is validated.
pub(super) struct MonitorDraft {
    pub(super) origin: Origin,
    pub(super) findings: Vec<Finding>,
    pub(super) monitor: Option<DraftMonitor>,
}

impl MonitorDraft {
    /// Returns a draft without a monitor.
    pub(super) fn nothing(origin: Origin, findings: Vec<Finding>) -> Self {
        Self { origin, findings, monitor: None }
    }
}

/// A monitor before it is named and validated.
pub(super) struct DraftMonitor {
    pub(super) namespace: String,
    /// The name of the monitor, if the input gives a name.
    pub(super) name: Option<String>,
    /// The end of the monitor's name, if the input gives no name.
    pub(super) stem: String,
    pub(super) spec: ConfigMonitorSpec,
}

impl DraftMonitor {
    /// Returns a suspended monitor that restarts one workload.
    pub(super) fn of(workload: &AnnotatedWorkload, watch: Vec<WatchTerm>) -> Self {
        let named = WorkloadName { kind: workload.kind, name: workload.name.clone() };
        let workloads = Workloads { names: Some(vec![named]), pod_selector: None };
        let spec = ConfigMonitorSpec {
            watch,
            workloads: Some(workloads),
            suspend: true,
            ..ConfigMonitorSpec::default()
        };
        Self { namespace: workload.namespace.clone(), name: None, stem: workload.name.clone(), spec }
    }
}

/// The objects and keys that a workload watches: by kind and name or glob; `None` means all keys.
#[derive(Debug, Default)]
pub(super) struct Watched(BTreeMap<(Kind, String), Option<BTreeSet<String>>>);

impl Watched {
    /// Watches all keys of objects that have this name or match this glob.
    pub(super) fn all(&mut self, kind: Kind, name: &str) {
        self.0.insert((kind, name.to_owned()), None);
    }

    /// Watches these keys, in addition to the keys that are watched already.
    pub(super) fn keys(&mut self, kind: Kind, name: &str, keys: Option<&[String]>) {
        let known = self.0.entry((kind, name.to_owned())).or_insert_with(|| Some(BTreeSet::new()));
        match (known.as_mut(), keys) {
            (Some(known), Some(keys)) => known.extend(keys.iter().cloned()),
            _ => *known = None,
        }
    }

    /// Returns one term per kind for the objects whose keys are all watched, and one term for each other
    /// object.
    pub(super) fn terms(self) -> Vec<WatchTerm> {
        let (mut whole, mut parts) = (BTreeMap::<DataKind, Vec<String>>::new(), Vec::new());
        // Workloads use no objects of other kinds.
        let with_data = |((kind, name), keys): ((Kind, String), _)| Some((kind.data()?, name, keys));
        for (kind, name, keys) in self.0.into_iter().filter_map(with_data) {
            match keys {
                None => whole.entry(kind).or_default().push(name),
                Some(keys) => {
                    let keys = Some(keys.into_iter().collect());
                    parts.push(WatchTerm { kind, names: vec![name], keys });
                }
            }
        }
        let chunks = whole.iter().flat_map(|(kind, names)| {
            names.chunks(MOST).map(|names| WatchTerm { kind: *kind, names: names.to_vec(), keys: None })
        });
        let mut terms: Vec<_> = chunks.collect();
        terms.extend(parts);
        terms
    }
}

/// Returns the differences that apply to every workload, whichever tool restarted it.
pub(super) fn behaviour(tool: Tool) -> [Finding; 4] {
    [
        differs(
            "strategy",
            "Copyrator restarts a workload by an annotation on its pod template, copyrator.dev/restarted-for; kubectl apply, Helm and \
             GitOps tools keep this annotation",
        ),
        differs(
            "pace",
            format!(
                "Copyrator waits until the content is unchanged for quietPeriod (2s by default), and at least minInterval (30s) between \
                 two restarts; it never runs two at once, and one restart covers all changes in between. {tool} restarts at every change"
            ),
        ),
        differs(
            "watch",
            "only the content of objects in the workload's namespace counts. Content that changed while Copyrator was not running causes \
             one restart later; the start of Copyrator itself restarts no workload",
        ),
        differs(
            "authority",
            format!(
                "the user who applies the monitor must be allowed to patch the workload; {tool} checks no user's rights"
            ),
        ),
    ]
}

/// Names and validates the drafts.
pub(super) fn proposals(mut drafts: Vec<MonitorDraft>) -> Vec<Proposal> {
    drafts.sort_by_cached_key(|draft| draft.origin.clone());
    let mut names = Names::default();
    drafts.into_iter().map(|draft| finish(draft, &mut names)).collect()
}

fn finish(draft: MonitorDraft, names: &mut Names) -> Proposal {
    let MonitorDraft { origin, mut findings, monitor } = draft;
    let asked = monitor.is_some();
    let monitor = monitor.filter(|monitor| match wrong(monitor) {
        wrong if wrong.is_empty() => true,
        wrong => {
            findings.extend(wrong);
            false
        }
    });
    if asked && monitor.is_none() {
        // Without a monitor, only the reason for that matters, and not the findings about the monitor's
        // behaviour.
        let why = findings.iter().map(|finding| finding.level).min();
        findings.retain(|finding| Some(finding.level) == why);
    }
    let made = monitor.map(|one| {
        let metadata = names.take(&one.namespace, one.name.as_deref(), origin.tool, &one.stem);
        Made::Monitor(ConfigMonitor { metadata, spec: one.spec, status: None })
    });
    findings.sort();
    findings.dedup();
    Proposal { origins: vec![origin], findings, made }
}

/// The most entries that the schema allows in one list.
const MOST: usize = 64;

/// Returns all reasons for which the schema, the API server or the validator would refuse the monitor.
fn wrong(monitor: &DraftMonitor) -> Vec<Finding> {
    if monitor.namespace.is_empty() {
        let told = "is missing: pass -n NAMESPACE, the namespace of the object";
        return vec![none("metadata.namespace", told)];
    }
    let refused = |message: &str| none("monitor", format!("import makes no monitor: {message}"));
    let watch = &monitor.spec.watch;
    let lists = watch.iter().flat_map(|term| [Some(&term.names), term.keys.as_ref()]).flatten();
    let mut names = monitor.name.as_deref().into_iter();
    let bounds = if !NameKind::Namespace.is_name(&monitor.namespace) {
        Some("the monitor's namespace is not a valid namespace name")
    } else if !names.all(|name| NameKind::Object.is_name(name)) {
        Some("the monitor's name is not a valid object name")
    } else if watch.len() > MOST || lists.clone().any(|list| list.len() > MOST) {
        Some("the monitor lists more than 64 objects with keys, or more than 64 keys of one object")
    } else if lists.flatten().any(|entry| entry.len() > 253) {
        Some("a name, glob or key in the monitor has more than 253 characters")
    } else {
        None
    };
    let invalid = CompiledMonitor::compile(&monitor.spec).err().into_iter().flatten();
    bounds
        .map(str::to_owned)
        .into_iter()
        .chain(invalid.map(|one| one.message))
        .map(|it| refused(&it))
        .collect()
}
