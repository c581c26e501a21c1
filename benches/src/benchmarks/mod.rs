//! What is measured: one file each.

mod admission_hook;
mod admission_load;
mod bare;
mod bystander;
mod console;
mod fan_out;
mod instances;
mod memory;
mod new_namespace;
mod new_namespace_bare;
mod planner;
mod rest;
mod restart_apply;
mod restart_bare;
mod restart_downtime;
mod restart_fan_out;
mod restart_flapping;
mod restart_no_ops;
mod restart_places;
mod scale;
mod start_up;
mod starter_kit;
mod templates_at_once;

use crate::Outcome;
use crate::figures::Figures;
use crate::program::Program;
use crate::sizes::Sizes;

/// One benchmark, with a cluster of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Benchmark {
    /// One source to many namespaces: created, and changed; beside a bare client
    FanOut,
    /// A template of five objects to many namespaces: created, and changed; beside a bare client
    StarterKit,
    /// The largest template, of 32 objects, to many namespaces at once, and its removal
    TemplatesAtOnce,
    /// 1,000 custom objects with a Deployment each: one changes; and memory beside other people's Deployments
    Instances,
    /// From a new namespace to the last of its copies; beside a bare client
    NewNamespace,
    /// A start with every copy in place
    StartUp,
    /// Memory beside other people's Secrets
    Memory,
    /// Memory with much to watch and nothing to do
    Rest,
    /// A start and a sweep with 100,000 copies under templates of names
    Scale,
    /// A start and a sweep with 10,000 annotated sources
    ScaleSources,
    /// A start and a sweep with 20,000 Secrets in one namespace
    ScaleObjects,
    /// The planner alone, without a cluster: many copies, many sources, one large namespace
    Planner,
    /// One Secret to many Deployments that restart, the brake off; beside a bare client
    RestartFanOut,
    /// How long the places for restarts hold up who becomes ready at once, and how many begin of those that do not
    RestartPlaces,
    /// Restarts after a crash in which one object of many changed
    RestartDowntime,
    /// Restarts by writes that change no content
    RestartNoOps,
    /// Restarts by a Secret that does not come to rest
    RestartFlapping,
    /// Restarts beside Helm, kubectl apply and GitOps
    RestartApply,
    /// The webhook's endpoint under load: small, large and hostile reviews, up to overload
    AdmissionLoad,
    /// Writes through the API server, with the webhook's hooks and without
    AdmissionHook,
    /// What being installed costs writes that have nothing to do with us, beside an API server before the chart
    Bystander,
    /// The console where there is much to see: one person's pages, and many open ones
    Console,
}

/// All of them, in the order of the table in `docs/benchmarks.md`.
pub(crate) const ALL: [Benchmark; 22] = [
    Benchmark::FanOut,
    Benchmark::StarterKit,
    Benchmark::TemplatesAtOnce,
    Benchmark::Instances,
    Benchmark::NewNamespace,
    Benchmark::StartUp,
    Benchmark::Memory,
    Benchmark::Rest,
    Benchmark::Scale,
    Benchmark::ScaleSources,
    Benchmark::ScaleObjects,
    Benchmark::Planner,
    Benchmark::RestartFanOut,
    Benchmark::RestartPlaces,
    Benchmark::RestartDowntime,
    Benchmark::RestartNoOps,
    Benchmark::RestartFlapping,
    Benchmark::RestartApply,
    Benchmark::AdmissionLoad,
    Benchmark::AdmissionHook,
    Benchmark::Bystander,
    Benchmark::Console,
];

impl Benchmark {
    /// As on the command line and in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Benchmark::FanOut => "fan-out",
            Benchmark::StarterKit => "starter-kit",
            Benchmark::TemplatesAtOnce => "templates-at-once",
            Benchmark::Instances => "instances",
            Benchmark::NewNamespace => "new-namespace",
            Benchmark::StartUp => "start-up",
            Benchmark::Memory => "memory",
            Benchmark::Rest => "rest",
            Benchmark::Scale => "scale",
            Benchmark::ScaleSources => "scale-sources",
            Benchmark::ScaleObjects => "scale-objects",
            Benchmark::Planner => "planner",
            Benchmark::RestartFanOut => "restart-fan-out",
            Benchmark::RestartPlaces => "restart-places",
            Benchmark::RestartDowntime => "restart-downtime",
            Benchmark::RestartNoOps => "restart-no-ops",
            Benchmark::RestartFlapping => "restart-flapping",
            Benchmark::RestartApply => "restart-apply",
            Benchmark::AdmissionLoad => "admission-load",
            Benchmark::AdmissionHook => "admission-hook",
            Benchmark::Bystander => "bystander",
            Benchmark::Console => "console",
        }
    }

    /// The heading of its table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Benchmark::FanOut => "One source to many namespaces, beside a bare client",
            Benchmark::StarterKit => "A template of five objects to many namespaces, beside a bare client",
            Benchmark::TemplatesAtOnce => "A template of 32 objects to many namespaces at once",
            Benchmark::Instances => {
                "Custom objects with a Deployment each, beside other people's Deployments"
            }
            Benchmark::NewNamespace => "From a new namespace to the last of its copies, beside a bare client",
            Benchmark::StartUp => "A start with every copy in place",
            Benchmark::Memory => "Memory beside other people's Secrets of 32 KiB",
            Benchmark::Scale => "A start and a sweep with 100,000 copies under templates of names",
            Benchmark::ScaleSources => "A start and a sweep with 10,000 annotated sources",
            Benchmark::ScaleObjects => "A start and a sweep with 20,000 Secrets in one namespace",
            Benchmark::Planner => "The planner alone, without a cluster",
            Benchmark::Rest => "Memory with much to watch and nothing to do",
            Benchmark::RestartFanOut => "One Secret to many Deployments that restart, beside a bare client",
            Benchmark::RestartPlaces => "The places for restarts, beside none",
            Benchmark::RestartDowntime => "Restarts after a crash in which one object of many changed",
            Benchmark::RestartNoOps => "Restarts by writes that change no content",
            Benchmark::RestartFlapping => "Restarts by a Secret that does not come to rest",
            Benchmark::RestartApply => "Restarts beside Helm, kubectl apply and GitOps",
            Benchmark::AdmissionLoad => "The webhook's endpoint under load, open loop",
            Benchmark::AdmissionHook => "Writes through the API server, with hooks and without",
            Benchmark::Bystander => "Writes that are not ours, beside an API server before the chart",
            Benchmark::Console => "The console where there is much to see",
        }
    }

    /// Takes the measurement with this program, at these sizes.
    pub(crate) async fn run(self, program: &Program, sizes: &Sizes) -> Outcome<Figures> {
        match self {
            Benchmark::FanOut => fan_out::run(program, sizes).await,
            Benchmark::StarterKit => starter_kit::run(program, sizes).await,
            Benchmark::TemplatesAtOnce => templates_at_once::run(program, sizes).await,
            Benchmark::Instances => instances::run(program, sizes).await,
            Benchmark::NewNamespace => new_namespace::run(program, sizes).await,
            Benchmark::StartUp => start_up::run(program, sizes).await,
            Benchmark::Memory => memory::run(program, sizes).await,
            Benchmark::Rest => rest::run(program, sizes).await,
            Benchmark::Scale => scale::copies(program, sizes).await,
            Benchmark::ScaleSources => scale::sources(program, sizes).await,
            Benchmark::ScaleObjects => scale::objects(program, sizes).await,
            Benchmark::Planner => planner::run(sizes),
            Benchmark::RestartFanOut => restart_fan_out::run(program, sizes).await,
            Benchmark::RestartPlaces => restart_places::run(program, sizes).await,
            Benchmark::RestartDowntime => restart_downtime::run(program, sizes).await,
            Benchmark::RestartNoOps => restart_no_ops::run(program, sizes).await,
            Benchmark::RestartFlapping => restart_flapping::run(program, sizes).await,
            Benchmark::RestartApply => restart_apply::run(program, sizes).await,
            Benchmark::AdmissionLoad => admission_load::run(program, sizes).await,
            Benchmark::AdmissionHook => admission_hook::run(program, sizes).await,
            Benchmark::Bystander => bystander::run(program, sizes).await,
            Benchmark::Console => console::run(program, sizes).await,
        }
    }
}
