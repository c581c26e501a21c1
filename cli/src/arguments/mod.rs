//! Flags and arguments that several commands share.

mod cluster;
mod copy_kinds;
mod endpoint;
mod install_namespace;
mod labels;
mod named;
pub mod output;
mod template_kinds;
mod usage;

pub use cluster::{ClusterArgs, Scope, connect, seconds};
pub use copy_kinds::CopyKinds;
pub use endpoint::endpoint;
pub(crate) use endpoint::service;
pub use install_namespace::InstallNamespace;
pub(crate) use labels::{LabelArgs, Labels};
pub use named::{Named, Sort};
pub use output::Output;
pub use template_kinds::TemplateKinds;
pub use usage::{UsageError, duration, namespaces, non_empty, trusted_writers};
