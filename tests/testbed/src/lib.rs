//! A development cluster with Copyrator installed by its chart, for the control-plane tests and the demo.
//!
//! The chart's Deployments have no replicas there (simulated nodes run no programs). The operator runs as
//! processes of this machine instead: one a role, each as its own ServiceAccount of the chart and with exactly
//! the chart's rights. A process can be killed, paused and started again at will, and ends with the cluster.
//!
//! In a [`Playground`] nothing is installed yet: there the chart comes as people install it, and each of its pods runs
//! as a process by itself. The demo and the tests of the documents happen there.

mod balancer;
mod bed;
mod container;
mod error;
mod kubelet;
mod network;
mod operator;
mod playground;
mod ports;
mod probe;

pub use balancer::Balancer;
pub use bed::{NAMESPACE, PATIENCE, Prepared, RELEASE, Testbed};
pub use error::Error;
pub use operator::{Operator, Role};
pub use playground::Playground;
