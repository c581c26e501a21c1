//! The programs a cluster consists of, built with Go from the modules under `tools/`, once, and kept in the
//! user's cache folder under a hash of what they were built from.

mod definitions;
mod install;
mod progress;
mod stages;

use std::fs;
use std::path::{Path, PathBuf};

use ring::digest;

use crate::error::Error;

pub(crate) use definitions::{files as foreign_definitions, gitops as gitops_definitions};
pub(crate) use install::ensure;
pub(crate) use stages::files as stage_files;

/// Programs that are built together, from one Go module under `tools/` that holds nothing but `tool` directives.
#[derive(Debug)]
pub(crate) struct Module {
    /// What they are called together.
    pub(crate) name: &'static str,
    /// The module's folder under `tools/`. Programs of one module share the versions of all dependencies, so that Go
    /// compiles each once.
    folder: &'static str,
    /// The packages that are built.
    packages: &'static [&'static str],
    /// The programs that come of them.
    pub(crate) tools: &'static [&'static str],
    /// What a person without Go can do instead.
    alternative: &'static str,
    /// The requirement in `go.mod` whose version is the module's.
    requirement: &'static str,
    /// The Go variables that get the version, its major and its minor part.
    version_variables: [Option<&'static str>; 3],
    /// How long a build takes on two cores, after those above it.
    takes: &'static str,
}

/// The module of everything that is built from Kubernetes' libraries. kwok and both Helms are of versions that want the
/// same minor version of them.
const PROGRAMS: &str = "programs";

/// Where Kubernetes' programs keep their version.
const KUBERNETES_VERSION: [Option<&str>; 3] = [
    Some("k8s.io/component-base/version.gitVersion"),
    Some("k8s.io/component-base/version.gitMajor"),
    Some("k8s.io/component-base/version.gitMinor"),
];

/// The control plane.
pub(crate) static KUBERNETES: Module = Module {
    name: "kubernetes",
    folder: PROGRAMS,
    packages: &[
        "go.etcd.io/etcd/server/v3",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kubectl",
    ],
    tools: &["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
    alternative: ", or set KUBEBUILDER_ASSETS",
    requirement: "k8s.io/kubernetes",
    version_variables: KUBERNETES_VERSION,
    takes: "about 6 minutes",
};

/// The simulated nodes.
pub(crate) static KWOK: Module = Module {
    name: "kwok",
    folder: PROGRAMS,
    packages: &["sigs.k8s.io/kwok/cmd/kwok"],
    tools: &["kwok"],
    alternative: "",
    requirement: "sigs.k8s.io/kwok",
    version_variables: [None; 3],
    takes: "about a minute",
};

/// A real node: built only when one is started.
pub(crate) static NODE: Module = Module {
    name: "node",
    folder: PROGRAMS,
    packages: &["k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"],
    tools: &["kubelet", "kube-proxy"],
    alternative: "",
    requirement: "k8s.io/kubernetes",
    version_variables: KUBERNETES_VERSION,
    takes: "about a minute",
};

/// The chart installer.
pub(crate) static HELM: Module = Module {
    name: "helm",
    folder: PROGRAMS,
    packages: &["helm.sh/helm/v3/cmd/helm"],
    tools: &["helm"],
    alternative: "",
    requirement: "helm.sh/helm/v3",
    version_variables: [Some("helm.sh/helm/v3/internal/version.version"), None, None],
    takes: "about a minute",
};

/// The chart installer of the next major version.
pub(crate) static HELM4: Module = Module {
    name: "helm4",
    folder: PROGRAMS,
    packages: &["helm.sh/helm/v4/cmd/helm"],
    tools: &["helm"],
    alternative: "",
    requirement: "helm.sh/helm/v4",
    version_variables: [Some("helm.sh/helm/v4/internal/version.version"), None, None],
    takes: "about a minute",
};

/// The Lua that Argo CD runs health scripts with.
pub(crate) static LUA: Module = Module {
    name: "lua",
    folder: "lua",
    packages: &["github.com/yuin/gopher-lua/cmd/glua"],
    tools: &["glua"],
    alternative: "",
    requirement: "github.com/yuin/gopher-lua",
    version_variables: [None; 3],
    takes: "about a minute",
};

impl Module {
    /// The module's folder in the source tree.
    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(self.folder)
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.source().join(file);
        fs::read_to_string(&path).map_err(Error::file("read", &path))
    }

    /// The word after `name` on its own line of `go.mod`.
    fn version_of(&self, name: &'static str) -> Result<String, Error> {
        let text = self.read("go.mod")?;
        let version = text.lines().find_map(|line| {
            let mut words = line.trim().trim_start_matches("require ").split_whitespace();
            (words.next() == Some(name)).then(|| words.next()).flatten()
        });
        version
            .map(str::to_owned)
            .ok_or_else(|| Error::NoVersion { file: self.source().join("go.mod"), wanted: name })
    }

    /// The oldest Go that can build the module.
    fn go_version(&self) -> Result<String, Error> {
        let version = self.version_of("go")?;
        Ok(version.trim_end_matches(".0").to_owned())
    }

    /// The linker flags: no debug information, and the version that `go install` of a dependency leaves out
    /// (the API server would call itself v0.0.0-master).
    fn linker_flags(&self) -> Result<String, Error> {
        let version = self.version_of(self.requirement)?;
        let mut numbers = version.trim_start_matches('v').split('.');
        let parts = [Some(version.as_str()), numbers.next(), numbers.next()];
        let mut flags = "-s -w".to_owned();
        for (variable, part) in self.version_variables.iter().zip(parts) {
            if let (Some(variable), Some(part)) = (variable, part) {
                flags.push_str(&format!(" -X {variable}={part}"));
            }
        }
        Ok(flags)
    }

    /// A name for what the module builds from: another version, or other flags, gives another name.
    fn hash(&self) -> Result<String, Error> {
        let recipe =
            [self.read("go.mod")?, self.read("go.sum")?, self.packages.join(" "), self.linker_flags()?];
        let recipe = recipe.join("\0");
        let hash = digest::digest(&digest::SHA256, recipe.as_bytes());
        Ok(hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{HELM, HELM4, KUBERNETES, KWOK, LUA, NODE};

    #[test]
    fn the_version_comes_from_go_mod() {
        let version = KUBERNETES.version_of("k8s.io/kubernetes").unwrap();
        assert!(version.starts_with("v1."), "{version}");
        assert!(KUBERNETES.linker_flags().unwrap().contains(&format!("version.gitVersion={version} -X")));
        assert!(HELM.linker_flags().unwrap().contains("version.version=v3."));
        assert!(HELM4.linker_flags().unwrap().contains("version.version=v4."));
    }

    #[test]
    fn each_module_has_a_hash_of_its_own() {
        let mut hashes =
            [&KUBERNETES, &KWOK, &NODE, &HELM, &HELM4, &LUA].map(|module| module.hash().unwrap());
        hashes.sort();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]), "{hashes:?}");
        assert!(hashes.iter().all(|hash| hash.len() == 16));
    }

    #[test]
    fn the_go_version_reads_as_people_say_it() {
        assert!(!KUBERNETES.go_version().unwrap().ends_with(".0"));
    }
}
