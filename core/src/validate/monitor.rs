//! Compiles the spec of a `ConfigMonitor`.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{CompiledStage, CompiledWindow, Globs, Selector, check_name, invalid, never_copied};
use crate::{
    api::{ConfigMonitorSpec, Problem, Span, StrategyType, WorkloadKind},
    names::{Kind, NameKind},
};

/// How long content must stay unchanged before a restart, by default.
pub const QUIET_PERIOD: Duration = Duration::from_secs(2);
/// The shortest time between two restarts of a workload, by default.
pub const MIN_INTERVAL: Duration = Duration::from_secs(30);

/// The compiled spec of a `ConfigMonitor`.
#[derive(Clone, Debug)]
pub struct CompiledMonitor {
    /// The watched objects, one set for each term of `spec.watch`.
    pub watch: Vec<CompiledWatch>,
    /// The workloads that restart.
    pub workloads: WorkloadChoice,
    /// How the workloads restart.
    pub strategy: StrategyType,
    /// How long content must stay unchanged before a restart.
    pub quiet_period: Duration,
    /// The shortest time between two restarts of one workload.
    pub min_interval: Duration,
    /// Order and concurrency of restarts; `None`: each workload restarts on its own.
    pub stage: Option<CompiledStage>,
    /// When restarts may begin; `None`: at any time.
    pub window: Option<CompiledWindow>,
    /// The ServiceAccount to act with; `None`: the author.
    pub service_account: Option<String>,
    /// Whether the monitor is suspended, so that it restarts no workload.
    pub suspend: bool,
}

/// One set of watched objects: a term of `spec.watch`.
#[derive(Clone, Debug)]
pub struct CompiledWatch {
    /// Whether the objects are ConfigMaps or Secrets.
    pub kind: Kind,
    /// Names and globs of the objects.
    pub names: Globs,
    /// The keys whose content causes restarts; `None`: all.
    pub keys: Option<Globs>,
}

/// The workloads that restart.
#[derive(Clone, Debug)]
pub enum WorkloadChoice {
    /// Every workload that references a watched object.
    References,
    /// Pods by their labels: the compiled selector, and the original selector for list requests to the API
    /// server.
    Pods(Selector, LabelSelector),
    /// Workloads by kind and name.
    Names(Vec<(WorkloadKind, String)>),
}

impl CompiledMonitor {
    /// Compiles a spec.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile(spec: &ConfigMonitorSpec) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if spec.watch.is_empty() {
            problems.push(invalid("spec.watch", "needs at least one entry"));
        }
        let watch = spec.watch.iter().enumerate().map(|(index, term)| {
            let at = format!("spec.watch[{index}]");
            never_copied::check(&format!("{at}.names"), term.kind.into(), &term.names, &mut problems);
            CompiledWatch {
                kind: term.kind.into(),
                names: Globs::compile(&format!("{at}.names"), &term.names, NameKind::Object, &mut problems),
                keys: term.keys.as_ref().map(|keys| {
                    Globs::compile(&format!("{at}.keys"), keys, NameKind::DataKey, &mut problems)
                }),
            }
        });
        let watch = watch.collect();
        let workloads = match &spec.workloads {
            None => WorkloadChoice::References,
            Some(workloads) => match (&workloads.pod_selector, &workloads.names) {
                (Some(selector), None) => WorkloadChoice::Pods(
                    Selector::compile("spec.workloads.podSelector", selector, &mut problems),
                    selector.clone(),
                ),
                (None, Some(names)) => {
                    for (index, one) in names.iter().enumerate() {
                        let at = format!("spec.workloads.names[{index}].name");
                        check_name(&at, &one.name, NameKind::Object, &mut problems);
                    }
                    WorkloadChoice::Names(names.iter().map(|one| (one.kind, one.name.clone())).collect())
                }
                _ => {
                    problems.push(invalid("spec.workloads", "needs exactly one of podSelector and names"));
                    WorkloadChoice::Names(Vec::new())
                }
            },
        };
        if let Some(account) = &spec.service_account_name {
            check_name("spec.serviceAccountName", account, NameKind::Object, &mut problems);
        }
        let mut span = |field: &str, span: &Option<Span>, default| match span.as_ref().map(Span::get) {
            None => default,
            Some(Ok(duration)) => duration,
            Some(Err(error)) => {
                problems.push(invalid(field, error));
                default
            }
        };
        let quiet_period = span("spec.pace.quietPeriod", &spec.pace.quiet_period, QUIET_PERIOD);
        let min_interval = span("spec.pace.minInterval", &spec.pace.min_interval, MIN_INTERVAL);
        let stage = CompiledStage::compile(&spec.pace, &mut problems);
        let window = spec.window.as_ref().and_then(|window| CompiledWindow::compile(window, &mut problems));
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            watch,
            workloads,
            strategy: spec.strategy.type_,
            quiet_period,
            min_interval,
            stage,
            window,
            service_account: spec.service_account_name.clone(),
            suspend: spec.suspend,
        })
    }

    /// The terms that watch this object.
    pub fn terms(&self, kind: Kind, name: &str) -> impl Iterator<Item = &CompiledWatch> {
        self.watch.iter().filter(move |term| term.kind == kind && term.names.matches(name))
    }

    /// The first term that watches this object.
    pub fn watches(&self, kind: Kind, name: &str) -> Option<&CompiledWatch> {
        self.watch.iter().find(|term| term.kind == kind && term.names.matches(name))
    }
}
