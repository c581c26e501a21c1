//! Everything that the checks look at, read once.

use std::collections::BTreeMap;

use copyrator_certs::Rotation;
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde_json::Value;

use super::rights::Right;
use crate::{
    api::ConfigPolicy,
    crds::KubeVersion,
    model::Definition,
    names::{NamespacedName, ObjectKey},
};

/// What a look gave, or why it gave nothing.
pub(super) type Seen<T> = Result<T, Unread>;

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// What would have to be allowed.
    pub(super) verb: &'static str,
    /// As `kubectl auth can-i` takes it: `leases.coordination.k8s.io/copyrator-reconciler`.
    pub(super) resource: String,
    /// Where; `None`: in the whole cluster.
    pub(super) namespace: Option<String>,
    /// What the API server said, where it is not that the right is missing.
    pub(super) failure: Option<String>,
}

impl Unread {
    pub(super) fn object(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}: {}", self.resource),
            None => self.resource.clone(),
        }
    }

    pub(super) fn what(&self) -> String {
        let place = match &self.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in the whole cluster".to_owned(),
        };
        let attempt = format!("{} {} {place}", self.verb, self.resource);
        match &self.failure {
            Some(failure) => format!("not looked at, since {attempt} failed: {failure}"),
            None => format!("not looked at, since you may not {attempt}: ask somebody who may"),
        }
    }

    pub(super) fn fix(&self) -> String {
        let place = match &self.namespace {
            Some(namespace) => format!("-n {namespace}"),
            None => "-A".to_owned(),
        };
        format!("kubectl auth can-i {} {} {place}", self.verb, self.resource)
    }
}

/// The CA's Secret.
#[derive(Clone, Debug)]
pub(super) enum Ca {
    Absent,
    /// It holds no CA, for this reason.
    Torn(String),
    There(Box<Rotation>),
}

/// Who leads.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseFacts {
    /// Who holds it; empty: nobody.
    pub(super) holder: String,
    /// Whether the holder still writes into it.
    pub(super) is_renewed: bool,
    /// Whether the holder is a pod of our namespace with the reconciler's account.
    pub(super) is_ours: bool,
    /// When the holder last wrote into it, by its own clock.
    pub(super) renewed_at: Option<Timestamp>,
}

/// Copies that nobody wants and that stay, because their rules may have gone with their definition.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The present one.
    pub(super) definition: Definition,
    /// How many, by the rule that is not there.
    pub(super) rules: BTreeMap<NamespacedName, usize>,
}

/// An object of ours as it should be, and as it is.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) wanted: Value,
    pub(super) live: Seen<Option<Value>>,
}

/// The cluster, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Where we are installed.
    pub(super) namespace: String,
    pub(super) now: Timestamp,
    pub(super) server: Seen<KubeVersion>,
    /// Ours.
    pub(super) deployments: Seen<Vec<Deployment>>,
    /// Our definitions, by name.
    pub(super) definitions: Vec<(String, Seen<Option<CustomResourceDefinition>>)>,
    /// Our admission policies and their bindings, as far as this server knows them.
    pub(super) admission: Vec<Pair>,
    /// Every webhook configuration, of either kind.
    pub(super) hooks: Seen<Vec<Value>>,
    /// Whether the Services of foreign hooks have a ready endpoint, by namespace and name.
    pub(super) endpoints: BTreeMap<(String, String), Seen<bool>>,
    pub(super) policies: Seen<Vec<ConfigPolicy>>,
    /// Whether a dry run reached the webhook, or what happened instead; not tried without hooks.
    pub(super) canary: Option<Seen<Result<(), String>>>,
    pub(super) ca: Seen<Ca>,
    /// Whether it is there.
    pub(super) digest_key: Seen<bool>,
    pub(super) lease: Seen<LeaseFacts>,
    /// What our accounts may, of what matters.
    pub(super) rights: Vec<(Right, Seen<bool>)>,
    /// The ClusterRole that our webhook configurations name as their owner.
    pub(super) owner: Seen<Option<ClusterRole>>,
    /// Copies that are held; `None` where there is no definition of rules.
    pub(super) held: Seen<Option<Held>>,
    /// Objects whose annotations ask for something and do not count, since they lack the label beside.
    pub(super) unlabelled: Seen<Vec<ObjectKey>>,
}
