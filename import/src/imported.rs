//! The result of an import: rules, templates and monitors that can be applied, with their differences from
//! the other tool.

use kube::core::ObjectMeta;
use serde::Serialize;

use super::finding::{Finding, Level, Origin};
use crate::api::{ConfigMonitor, CopyratorRule, CopyratorTemplate};

/// The result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Rules first, then templates and monitors, in order of namespace and name; objects from which the
    /// import made no rule, template or monitor come last.
    pub proposals: Vec<Proposal>,
}

/// A rule, template or monitor, or the reasons why the import made none.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The objects that request the rule, template or monitor, each with its tool.
    pub origins: Vec<Origin>,
    /// The differences from the other tool's behaviour, the worst first.
    pub findings: Vec<Finding>,
    /// The suspended object, accepted by the validator; `None` if a finding prevents the object.
    pub made: Option<Made>,
}

/// A rule, template or monitor that can be applied.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Made {
    /// A rule, which copies.
    Rule(CopyratorRule),
    /// A template, which declares objects.
    Template(CopyratorTemplate),
    /// A monitor, which restarts workloads.
    Monitor(ConfigMonitor),
}

impl Made {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Rule(rule) => &rule.metadata,
            Self::Template(template) => &template.metadata,
            Self::Monitor(monitor) => &monitor.metadata,
        }
    }

    /// Namespace and name of the object.
    pub fn place(&self) -> (&str, &str) {
        let meta = self.metadata();
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl Imported {
    /// Whether any part of the input has no equivalent.
    pub fn lacks_something(&self) -> bool {
        self.count(Level::NoEquivalent) > 0
    }

    /// How many findings have this level.
    pub fn count(&self, level: Level) -> usize {
        self.proposals.iter().flat_map(|one| &one.findings).filter(|finding| finding.level == level).count()
    }

    /// How many rules there are.
    pub fn rules(&self) -> usize {
        self.made().filter(|one| matches!(one, Made::Rule(_))).count()
    }

    /// How many templates there are.
    pub fn templates(&self) -> usize {
        self.made().filter(|one| matches!(one, Made::Template(_))).count()
    }

    /// How many monitors there are.
    pub fn monitors(&self) -> usize {
        self.made().filter(|one| matches!(one, Made::Monitor(_))).count()
    }

    /// All objects that can be applied.
    pub fn made(&self) -> impl Iterator<Item = &Made> {
        self.proposals.iter().filter_map(|one| one.made.as_ref())
    }
}
