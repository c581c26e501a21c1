//! Finds the programs of a cluster: in `KUBEBUILDER_ASSETS` where that is set, else those we build.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::Error;
use crate::tools::{self, HELM, HELM4, KUBERNETES, KWOK, LUA, Module, NODE};

/// Where each program is.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) etcd: PathBuf,
    pub(crate) api_server: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) scheduler: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) kwok: PathBuf,
    /// kwok's behaviour of nodes and pods.
    pub(crate) stages: Vec<PathBuf>,
}

impl Binaries {
    pub(crate) fn find(environment: &Environment) -> Result<Binaries, Error> {
        let kubernetes = |tool| find(&KUBERNETES, tool, environment);
        // Kubernetes comes first: without Go, that is what to say is missing.
        let kubectl = kubernetes("kubectl")?;
        let kwok = find(&KWOK, "kwok", environment)?;
        Ok(Binaries {
            etcd: kubernetes("etcd")?,
            api_server: kubernetes("kube-apiserver")?,
            controller_manager: kubernetes("kube-controller-manager")?,
            scheduler: kubernetes("kube-scheduler")?,
            kubectl,
            stages: tools::stage_files(kwok.parent().unwrap_or(Path::new("/")))?,
            kwok,
        })
    }
}

/// One program. envtest's folders have no controller-manager and no scheduler, so what is not in
/// `KUBEBUILDER_ASSETS` is built all the same; kwok and helm always are, to have one version of each.
fn find(module: &'static Module, tool: &str, environment: &Environment) -> Result<PathBuf, Error> {
    let given = environment.assets.as_ref().map(|folder| folder.join(tool));
    match given {
        Some(path) if module.name == KUBERNETES.name && path.is_file() => Ok(path),
        _ => Ok(tools::ensure(module, &environment.cache()?)?.join(tool)),
    }
}

/// Where helm is, built if need be.
pub fn helm() -> Result<PathBuf, Error> {
    find(&HELM, "helm", &Environment::read())
}

/// Where helm of the next major version is, built if need be.
pub fn helm4() -> Result<PathBuf, Error> {
    find(&HELM4, "helm", &Environment::read())
}

/// Where a Lua interpreter is, Argo CD's, built if need be.
pub fn lua() -> Result<PathBuf, Error> {
    find(&LUA, "glua", &Environment::read())
}

/// Manifests of other projects' kinds that the chart can write: cert-manager's, the Prometheus operator's.
pub fn foreign_definitions() -> Result<Vec<PathBuf>, Error> {
    tools::foreign_definitions()
}

/// Manifests of the kinds by which Argo CD and Flux are told what to install.
pub fn gitops_definitions() -> Result<Vec<PathBuf>, Error> {
    tools::gitops_definitions()
}

/// Where kubectl is, built if need be.
pub fn kubectl() -> Result<PathBuf, Error> {
    find(&KUBERNETES, "kubectl", &Environment::read())
}

/// Where kubelet is, built if need be.
pub fn kubelet() -> Result<PathBuf, Error> {
    find(&NODE, "kubelet", &Environment::read())
}

/// Where kube-proxy is, built if need be.
pub fn kube_proxy() -> Result<PathBuf, Error> {
    find(&NODE, "kube-proxy", &Environment::read())
}

/// Builds what a cluster and the demo need, as far as it is missing.
pub fn build_for_demo() -> Result<(), Error> {
    Binaries::find(&Environment::read())?;
    helm().map(drop)
}

/// Builds every program that is missing but for those of a real node, also those that only some tests need, which would be
/// built amid the others otherwise: the folders they are in.
pub fn build_everything() -> Result<Vec<PathBuf>, Error> {
    let cache = Environment::read().cache()?;
    tools::foreign_definitions()?;
    tools::gitops_definitions()?;
    let modules = [&KUBERNETES, &KWOK, &HELM, &HELM4, &LUA];
    modules.into_iter().map(|module| tools::ensure(module, &cache)).collect()
}
