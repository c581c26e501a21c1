//! The facts that the checks examine, read once.

use std::collections::{BTreeMap, BTreeSet};

use copyrator_certs::Rotation;
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde_json::Value;

use crate::{
    api::ConfigPolicy,
    authority::Question,
    crds::KubeVersion,
    model::Definition,
    names::{Declarer, GrantedKinds, Kind, ObjectKey},
};

/// A fact, or why it could not be read.
pub(super) type Readable<T> = Result<T, Unread>;

/// A fact that could not be read, and the missing right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// The verb of the missing right.
    pub(super) verb: &'static str,
    /// The resource in the notation of `kubectl auth can-i`:
    /// `leases.coordination.k8s.io/copyrator-reconciler`.
    pub(super) resource: String,
    /// The namespace; `None`: the whole cluster.
    pub(super) namespace: Option<String>,
    /// The API server's message, if the reason is not a missing right.
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
            None => "in all namespaces".to_owned(),
        };
        let attempt = format!("{} {} {place}", self.verb, self.resource);
        match &self.failure {
            Some(failure) => format!("not checked, because {attempt} failed: {failure}"),
            None => format!("not checked, because you may not {attempt}: ask a user with this right"),
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

/// A right of one of our accounts.
#[derive(Clone, Debug)]
pub(super) struct Right {
    pub(super) question: Question,
    /// The role that gives the right; `None`: the account should not have the right.
    pub(super) role: Option<String>,
}

/// The state of the CA's Secret.
#[derive(Clone, Debug)]
pub(super) enum Ca {
    Absent,
    /// The Secret contains no CA, for this reason.
    Torn(String),
    There(Box<Rotation>),
}

/// The leader, according to the Lease.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseFacts {
    /// The holder's identity; empty: no holder.
    pub(super) holder: String,
    /// Whether the holder was seen to renew the Lease.
    pub(super) is_renewed: bool,
    /// Whether the holder is a pod in our namespace with the reconciler's account.
    pub(super) is_ours: bool,
    /// When the holder last renewed the Lease, by the holder's own clock.
    pub(super) renewed_at: Option<Timestamp>,
}

/// Orphaned objects that stay, because their rules or templates may have been deleted with the
/// CustomResourceDefinition.
#[derive(Clone, Debug)]
pub(super) struct HeldCopies {
    /// The name of the CustomResourceDefinition, of rules or of templates.
    pub(super) of: &'static str,
    /// The current definition.
    pub(super) definition: Definition,
    /// The number of objects by the missing rule or template.
    pub(super) rules: BTreeMap<Declarer, usize>,
    /// The kinds that were checked: the kinds that the API server serves.
    pub(super) kinds: BTreeSet<Kind>,
}

/// A template whose objects Kubernetes deletes together with the instances that they were rendered for.
#[derive(Clone, Debug)]
pub(super) struct OwnedByInstances {
    pub(super) template: Declarer,
    /// The name of the CustomResourceDefinition of its instances.
    pub(super) definition: String,
    /// The number of the template's instances, according to its status.
    pub(super) instances: i64,
    /// How many of the template's objects are in order, according to its status.
    pub(super) objects: i64,
}

/// An object of ours as it should be, and as it is.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) wanted: Value,
    pub(super) live: Readable<Option<Value>>,
}

/// A ConfigPolicy that has no effect, and why. (Other checks find problems of the hooks.)
#[derive(Clone, Debug)]
pub(super) struct InertPolicy {
    /// The policy's name.
    pub(super) name: String,
    /// Whether the policy's `failurePolicy` is `Fail`.
    pub(super) is_strict: bool,
    /// Why the policy has no effect.
    pub(super) why: String,
}

/// Objects and lists that cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct UnreadFacts {
    /// The objects that this command could not read, each with its message.
    pub(super) objects: BTreeMap<String, String>,
    /// Messages of statuses about lists that the reconciler cannot read, each with one object whose status
    /// has it.
    pub(super) lists: BTreeMap<String, String>,
}

/// All facts about the cluster that the checks examine.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The namespace that Copyrator is installed in.
    pub(super) namespace: String,
    /// The kinds that are known only at run time.
    pub(super) kinds: GrantedKinds,
    pub(super) now: Timestamp,
    pub(super) server: Readable<KubeVersion>,
    /// Copyrator's own Deployments, in its namespace.
    pub(super) deployments: Readable<Vec<Deployment>>,
    /// Our definitions, by name.
    pub(super) definitions: Vec<(String, Readable<Option<CustomResourceDefinition>>)>,
    /// Our admission policies and their bindings, as far as this server knows them.
    pub(super) admission: Vec<Pair>,
    /// Every webhook configuration, of either kind.
    pub(super) hooks: Readable<Vec<Value>>,
    /// Whether the Services of foreign hooks have a ready endpoint, by namespace and name.
    pub(super) endpoints: BTreeMap<(String, String), Readable<bool>>,
    /// The policies that are understood, valid or not.
    pub(super) policies: Readable<Vec<ConfigPolicy>>,
    /// The policies that have no effect, whatever the state of the hooks.
    pub(super) inert_policies: Readable<Vec<InertPolicy>>,
    /// Foreign admission policies and hooks that decide by the user who writes ConfigMaps or Secrets.
    pub(super) by_user: Readable<Vec<String>>,
    /// Whether a dry run reached the webhook, or what happened instead; `None` without hooks.
    pub(super) canary: Option<Readable<Result<(), String>>>,
    pub(super) ca: Readable<Ca>,
    /// Whether the Secret with the digest key exists.
    pub(super) digest_key: Readable<bool>,
    pub(super) lease: Readable<LeaseFacts>,
    /// Whether our accounts have the rights that the checks are about.
    pub(super) rights: Vec<(Right, Readable<bool>)>,
    /// The ClusterRole that our webhook configurations name as their owner.
    pub(super) owner: Readable<Option<ClusterRole>>,
    /// Held orphaned objects, per existing definition.
    pub(super) held: Readable<Vec<HeldCopies>>,
    /// Objects with the labels of a copy whose marks belong to a different object; empty if the objects could
    /// not be read.
    pub(super) stray: Vec<ObjectKey>,
    /// Objects whose annotations have no effect, since the label that enables them is missing.
    pub(super) unlabelled: Readable<Vec<ObjectKey>>,
    /// Objects and lists that cannot be read.
    pub(super) unread: Readable<UnreadFacts>,
    /// Templates whose objects are deleted when the definition of their instances' kind is deleted.
    pub(super) owned: Vec<OwnedByInstances>,
}
