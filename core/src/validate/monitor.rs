//! A `ConfigMonitor`, understood.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{CompiledStage, CompiledWindow, Globs, Selector, invalid};
use crate::{
    api::{ConfigMonitorSpec, Problem, Span, StrategyType, WorkloadKind},
    names::Kind,
};

/// How long content must stay unchanged before a restart, where a monitor does not say.
pub const QUIET_PERIOD: Duration = Duration::from_secs(2);
/// The least time between two restarts of a workload, where a monitor does not say.
pub const MIN_INTERVAL: Duration = Duration::from_secs(30);

/// A `ConfigMonitor`, understood.
#[derive(Clone, Debug)]
pub struct CompiledMonitor {
    /// The watched objects.
    pub watch: Vec<CompiledWatch>,
    /// What restarts.
    pub workloads: WorkloadChoice,
    /// How.
    pub strategy: StrategyType,
    /// How long content must stay unchanged first.
    pub quiet_period: Duration,
    /// The least time between two restarts of one workload.
    pub min_interval: Duration,
    /// Who restarts after whom; `None`: nobody waits for anybody.
    pub stage: Option<CompiledStage>,
    /// When restarts may begin; `None`: at any time.
    pub window: Option<CompiledWindow>,
    /// Act with this account.
    pub service_account: Option<String>,
    /// Restart nothing.
    pub suspend: bool,
}

/// One set of watched objects.
#[derive(Clone, Debug)]
pub struct CompiledWatch {
    /// Their kind.
    pub kind: Kind,
    /// Their names.
    pub names: Globs,
    /// The keys that count; `None`: all.
    pub keys: Option<Globs>,
}

/// What restarts.
#[derive(Clone, Debug)]
pub enum WorkloadChoice {
    /// Whatever references a watched object.
    References,
    /// By labels of the pods: understood, and as written for the API server's own lists.
    Pods(Selector, LabelSelector),
    /// By kind and name.
    Names(Vec<(WorkloadKind, String)>),
}

impl CompiledMonitor {
    /// Understands a spec, or says everything that is wrong with it.
    ///
    /// # Errors
    /// At least one problem, each naming its field and the fix.
    pub fn compile(spec: &ConfigMonitorSpec) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if spec.watch.is_empty() {
            problems.push(invalid("spec.watch", "needs at least one entry"));
        }
        let watch = spec.watch.iter().enumerate().map(|(index, term)| {
            let at = format!("spec.watch[{index}]");
            CompiledWatch {
                kind: term.kind,
                names: Globs::compile(&format!("{at}.names"), &term.names, &mut problems),
                keys: term
                    .keys
                    .as_ref()
                    .map(|keys| Globs::compile(&format!("{at}.keys"), keys, &mut problems)),
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
                    for one in names.iter().filter(|one| one.name.contains(['*', '?', '['])) {
                        let what = format!(
                            "{:?} is no name of a workload (globs are not taken here); write the whole name, or use \
                             podSelector",
                            one.name
                        );
                        problems.push(invalid("spec.workloads.names", what));
                    }
                    WorkloadChoice::Names(names.iter().map(|one| (one.kind, one.name.clone())).collect())
                }
                _ => {
                    problems.push(invalid("spec.workloads", "needs exactly one of podSelector and names"));
                    WorkloadChoice::Names(Vec::new())
                }
            },
        };
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

    /// Every term that watches this object.
    pub fn terms(&self, kind: Kind, name: &str) -> impl Iterator<Item = &CompiledWatch> {
        self.watch.iter().filter(move |term| term.kind == kind && term.names.matches(name))
    }

    /// The term that watches this object, if any.
    pub fn watches(&self, kind: Kind, name: &str) -> Option<&CompiledWatch> {
        self.watch.iter().find(|term| term.kind == kind && term.names.matches(name))
    }
}
