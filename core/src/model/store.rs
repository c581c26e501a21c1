//! The stores: sets of facts that must be complete before the planner makes a decision.

use std::collections::BTreeSet;

use crate::{
    api::WorkloadKind,
    names::{Declarer, Kind},
};

/// One set of facts that must be complete before the planner decides: the first list of a watch, or the key
/// of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the plural of the kind that it holds")]
pub enum Store {
    Namespaces,
    ConfigMaps,
    Secrets,
    NetworkPolicies,
    ResourceQuotas,
    LimitRanges,
    PodDisruptionBudgets,
    ServiceAccounts,
    RenderedDeployments,
    RenderedServices,
    RenderedRoleBindings,
    RenderedGranted,
    Deployments,
    StatefulSets,
    DaemonSets,
    CopyratorRules,
    CopyratorTemplates,
    ConfigMonitors,
    ConfigPolicies,
    DigestKey,
    SourceIndex,
}

impl Store {
    /// The store of a kind that Copyrator writes. For kinds that rules do not copy, the store holds only
    /// objects that templates declare, selected by label; [`Self::Deployments`] holds all Deployments, for
    /// restarts. Kinds that are known only at run time share one store. No process waits for the shared
    /// store, since the API server may not serve these kinds.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::ConfigMap => Self::ConfigMaps,
            Kind::Secret => Self::Secrets,
            Kind::NetworkPolicy => Self::NetworkPolicies,
            Kind::ResourceQuota => Self::ResourceQuotas,
            Kind::LimitRange => Self::LimitRanges,
            Kind::PodDisruptionBudget => Self::PodDisruptionBudgets,
            Kind::ServiceAccount => Self::ServiceAccounts,
            Kind::Deployment => Self::RenderedDeployments,
            Kind::Service => Self::RenderedServices,
            Kind::RoleBinding => Self::RenderedRoleBindings,
            Kind::Granted(_) => Self::RenderedGranted,
        }
    }

    /// The store of the workloads of a kind that may restart.
    pub const fn restarting(kind: WorkloadKind) -> Self {
        match kind {
            WorkloadKind::Deployment => Self::Deployments,
            WorkloadKind::StatefulSet => Self::StatefulSets,
            WorkloadKind::DaemonSet => Self::DaemonSets,
        }
    }

    /// The stores of these kinds that must be listed before the planner decides.
    pub fn needed(kinds: &BTreeSet<Kind>) -> impl Iterator<Item = Self> {
        kinds.iter().copied().map(Self::of).filter(|store| *store != Self::RenderedGranted)
    }

    /// The store of the rule or template of this name.
    pub fn declaring(name: &Declarer) -> Self {
        match name {
            Declarer::Template(_) => Self::CopyratorTemplates,
            _ => Self::CopyratorRules,
        }
    }

    /// Whether the store holds our custom resources. Custom resources are deleted with their
    /// CustomResourceDefinition, and a watch cannot distinguish the deletion of the definition from the
    /// deletion of each resource.
    pub fn is_ours(self) -> bool {
        match self {
            Self::CopyratorRules | Self::CopyratorTemplates | Self::ConfigMonitors | Self::ConfigPolicies => {
                true
            }
            Self::Namespaces
            | Self::ConfigMaps
            | Self::Secrets
            | Self::NetworkPolicies
            | Self::ResourceQuotas
            | Self::LimitRanges
            | Self::PodDisruptionBudgets
            | Self::ServiceAccounts
            | Self::RenderedDeployments
            | Self::RenderedServices
            | Self::RenderedRoleBindings
            | Self::RenderedGranted
            | Self::Deployments
            | Self::StatefulSets
            | Self::DaemonSets
            | Self::DigestKey
            | Self::SourceIndex => false,
        }
    }
}
