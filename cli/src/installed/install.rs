//! The install, according to Copyrator's Deployments.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::EnvVar};
use serde::Deserialize;

use super::serve_settings::ServeSettings;
use crate::{
    arguments,
    config::system_namespaces,
    hooks::Endpoint,
    names::{GrantedKinds, Kind, TemplateKind},
};

/// The value of `app.kubernetes.io/part-of` on every object of the chart.
pub(crate) const PART_OF: &str = "copyrator";

/// The Lease of the reconciler.
pub(crate) const LEASE: &str = "copyrator-reconciler";

/// Copyrator's Deployments, as read.
pub(crate) struct Install<'f> {
    namespace: &'f str,
    deployments: &'f [Deployment],
    granted: GrantedKinds,
}

/// A role of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Webhook,
    Reconciler,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Reconciler => "reconciler",
        }
    }
}

impl<'f> Install<'f> {
    pub(crate) fn new(namespace: &'f str, deployments: &'f [Deployment]) -> Self {
        Self { namespace, deployments, granted: GrantedKinds::default() }
    }

    /// Returns this install with `granted` as the registry of the kinds that are known only at run time.
    pub(crate) fn with_kinds(self, granted: &GrantedKinds) -> Self {
        Self { granted: granted.clone(), ..self }
    }

    /// The namespace of the Deployments.
    pub(crate) fn namespace(&self) -> &'f str {
        self.namespace
    }

    /// The Deployment that serves this role.
    pub(crate) fn serving(&self, role: Role) -> Option<&'f Deployment> {
        let serves = |deployment: &&Deployment| {
            let roles = told(deployment, "roles").unwrap_or_else(|| "webhook,reconciler".into());
            roles.split(',').any(|one| one == role.word())
        };
        self.deployments.iter().find(serves)
    }

    /// The ServiceAccount that serves this role.
    pub(crate) fn account(&self, role: Role) -> String {
        let spec = self.serving(role).and_then(|deployment| deployment.spec.template.spec.as_ref());
        let account = spec.and_then(|spec| spec.service_account_name.clone());
        account.unwrap_or_else(|| format!("{}-{}", self.stem(), role.word()))
    }

    /// The Deployment that serves this role, as kubectl names it.
    pub(crate) fn workload(&self, role: Role) -> String {
        let name = self.serving(role).and_then(|deployment| deployment.metadata.name.clone());
        format!("deployment/{}", name.unwrap_or_else(|| format!("{}-{}", self.stem(), role.word())))
    }

    /// The command that restarts the pods of this role, or starts pods if the Deployment has no replicas.
    pub(crate) fn start(&self, role: Role) -> String {
        let (namespace, workload) = (self.namespace, self.workload(role));
        match self.serving(role).and_then(|deployment| deployment.spec.replicas) {
            Some(0) => format!("kubectl -n {namespace} scale {workload} --replicas=1"),
            _ => format!("kubectl -n {namespace} rollout restart {workload}"),
        }
    }

    /// The value of a flag of `copyrator serve`, in the reconciler's Deployment.
    pub(crate) fn told(&self, flag: &str) -> Option<String> {
        Some(self.expanded(&told(self.reconciling()?, flag)?))
    }

    fn reconciling(&self) -> Option<&'f Deployment> {
        self.serving(Role::Reconciler).or(self.deployments.first())
    }

    fn expanded(&self, value: &str) -> String {
        value.replace("$(POD_NAMESPACE)", self.namespace)
    }

    /// The only namespaces that Copyrator reads; empty: all.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let said = self.reconciling().map(|it| all_told(it, "namespaces")).unwrap_or_default();
        let names = said.iter().flat_map(|names| names.split(',')).map(str::trim);
        names.filter(|name| !name.is_empty()).map(|name| self.expanded(name)).collect()
    }

    /// The settings on which plans depend. A value that cannot be read is treated as not given: `serve` does
    /// not start with such a value either.
    pub(crate) fn settings(&self) -> ServeSettings {
        let grace = self.told("deletion-grace");
        ServeSettings {
            grace: grace.and_then(|text| arguments::duration("deletion-grace", &text).ok()),
            max_bytes: self.told("max-spread-bytes").and_then(|text| text.parse().ok()),
            max_copies: self.told("max-copies-per-rule").and_then(|text| text.parse().ok()),
            annotations: self.told("annotations").map(|text| text == "true"),
            trusted: self.entries("trusted-writers").map(|entries| entries.iter().collect()),
            system_namespaces: self.entries("system-namespaces"),
            account: self.serving(Role::Reconciler).map(|_| self.account(Role::Reconciler)),
        }
    }

    /// The namespaces that never get copies.
    pub(crate) fn system_namespaces(&self) -> BTreeSet<String> {
        system_namespaces(self.namespace, &self.entries("system-namespaces").unwrap_or_default())
    }

    /// The entries of a flag that is a list; `None` without the flag.
    fn entries(&self, flag: &str) -> Option<BTreeSet<String>> {
        let entries = all_told(self.reconciling()?, flag);
        let split = entries.iter().flat_map(|entry| entry.split(',')).map(str::trim);
        let split = split.filter(|entry| !entry.is_empty()).map(|entry| self.expanded(entry));
        (!entries.is_empty()).then(|| split.collect())
    }

    /// Whether the namespaces are set outside the Deployment, in an object that it refers to.
    pub(crate) fn hides_places(&self) -> bool {
        let is_elsewhere = |deployment| {
            all_told(deployment, "namespaces").is_empty()
                && environment(deployment, "namespaces").is_some_and(|entry| entry.value_from.is_some())
        };
        self.reconciling().is_some_and(is_elsewhere)
    }

    /// Whether Copyrator reads only some namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        !self.namespaces().is_empty()
    }

    /// Whether the definitions of our own kinds are read, so that copies whose definition was created again
    /// are held.
    pub(crate) fn reads_definitions(&self) -> bool {
        !self.is_namespaced() || self.told("read-definitions").is_some_and(|told| told == "true")
    }

    /// Whether the webhook's CA is our own, not mounted; `None` without a Deployment.
    pub(crate) fn is_self_managed(&self) -> Option<bool> {
        (!self.deployments.is_empty()).then(|| self.told("tls-dir").is_none())
    }

    /// Whether annotations that declare copies or restarts have an effect.
    pub(crate) fn reads_annotations(&self) -> bool {
        self.told("annotations").is_none_or(|told| told == "true")
    }

    /// The kinds that are written beside ConfigMaps and Secrets.
    pub(crate) fn copy_kinds(&self) -> BTreeSet<Kind> {
        let said = self.told("copy-kinds").unwrap_or_default();
        let kinds = said.split(',').filter_map(|word| Kind::named(word.trim()));
        let rendered = self.template_kinds().into_iter().filter_map(|kind| kind.rendered);
        kinds.filter(|kind| kind.data().is_none()).chain(rendered).collect()
    }

    /// The kinds that are granted to templates.
    pub(crate) fn template_kinds(&self) -> BTreeSet<TemplateKind> {
        let said = self.told("template-kinds").unwrap_or_default();
        said.split(',').filter_map(|word| TemplateKind::read(word, &self.granted).ok()).collect()
    }

    /// The prefix of all names in the chart, which is also the name of the ClusterRole that owns the hooks.
    pub(crate) fn stem(&self) -> String {
        let by_name = || {
            let name = self.serving(Role::Reconciler)?.metadata.name.as_deref()?;
            name.strip_suffix("-reconciler").map(str::to_owned)
        };
        self.told("owner-cluster-role").or_else(by_name).unwrap_or_else(|| "copyrator".into())
    }

    /// The address of the webhook. The process itself reports flags that cannot be read.
    pub(crate) fn endpoint(&self) -> Endpoint {
        if let Some(url) = self.told("webhook-url") {
            return Endpoint::Url(url.trim_end_matches('/').to_owned());
        }
        let service = self.told("webhook-service").unwrap_or_else(|| "copyrator-webhook:443".into());
        arguments::service(&service, self.namespace).unwrap_or_else(|_| Endpoint::Service {
            name: service,
            namespace: self.namespace.to_owned(),
            port: 443,
        })
    }

    /// The command that writes the chart's objects again.
    pub(crate) fn repair(&self) -> String {
        let namespace = self.namespace;
        match self.release() {
            Some(release) => {
                format!("helm upgrade {release} charts/copyrator -n {namespace} --reset-then-reuse-values")
            }
            None => format!(
                "helm upgrade --install copyrator charts/copyrator -n {namespace} --create-namespace --set \
                 image.registry=… --set image.repository=… --set image.tag=…"
            ),
        }
    }

    /// The Helm release that the Deployments belong to.
    fn release(&self) -> Option<&'f str> {
        self.deployments.iter().find_map(|deployment| {
            let annotations = deployment.metadata.annotations.as_ref()?;
            annotations.get("meta.helm.sh/release-name").map(String::as_str)
        })
    }
}

/// The last value of a flag.
fn told(deployment: &Deployment, flag: &str) -> Option<String> {
    all_told(deployment, flag).pop()
}

/// All values of a flag: as `--flag=value` or as two words, else in the flag's environment variable.
fn all_told(deployment: &Deployment, flag: &str) -> Vec<String> {
    let container = deployment.spec.template.spec.as_ref().and_then(|spec| spec.containers.first());
    let arguments = container.and_then(|container| container.args.as_deref()).unwrap_or_default();
    let joined = format!("--{flag}=");
    let value = |(index, argument): (usize, &String)| match argument.strip_prefix(&joined) {
        Some(value) => Some(value.to_owned()),
        None if *argument == format!("--{flag}") => arguments.get(index + 1).cloned(),
        None => None,
    };
    let mut all: Vec<String> = arguments.iter().enumerate().filter_map(value).collect();
    if all.is_empty() {
        all.extend(environment(deployment, flag).and_then(|entry| entry.value.clone()));
    }
    all.retain(|value| !value.is_empty());
    all
}

/// The environment variable of a flag.
fn environment<'d>(deployment: &'d Deployment, flag: &str) -> Option<&'d EnvVar> {
    let name = format!("COPYRATOR_{}", flag.to_uppercase().replace('-', "_"));
    let container = deployment.spec.template.spec.as_ref()?.containers.first()?;
    container.env.iter().flatten().find(|entry| entry.name == name)
}
