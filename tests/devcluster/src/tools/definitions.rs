//! Definitions of other projects' kinds, for tests that write such objects. Their Go modules carry them as YAML; the
//! sums in `tools/definitions/go.sum` say which bytes are taken.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::client::run;
use crate::error::Error;

/// Module and version, and the files in it.
const FOUND_IN: [(&str, &[&str]); 2] = [
    (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        &[
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        ],
    ),
    (
        "github.com/cert-manager/cert-manager@v1.21.2",
        &["deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"],
    ),
];

/// Of the GitOps controllers that docs/gitops.md speaks of.
const GITOPS: [(&str, &[&str]); 3] = [
    ("github.com/argoproj/argo-cd/v3@v3.2.0", &["manifests/crds/application-crd.yaml"]),
    (
        "github.com/fluxcd/helm-controller@v1.4.0",
        &["config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml"],
    ),
    (
        "github.com/fluxcd/source-controller@v1.7.0",
        &[
            "config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",
            "config/crd/bases/source.toolkit.fluxcd.io_ocirepositories.yaml",
        ],
    ),
];

/// The files that the chart's objects need, downloaded if need be.
pub(crate) fn files() -> Result<Vec<PathBuf>, Error> {
    download(&FOUND_IN)
}

/// Those of GitOps controllers.
pub(crate) fn gitops() -> Result<Vec<PathBuf>, Error> {
    download(&GITOPS)
}

fn download(found_in: &[(&str, &[&str])]) -> Result<Vec<PathBuf>, Error> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/definitions");
    let mut files = Vec::new();
    for (module, inside) in found_in {
        let mut go = Command::new("go");
        go.args(["mod", "download", "-json", module]).current_dir(&source).env("GOWORK", "off");
        let told = run(&mut go, None)?;
        let told: Value = serde_json::from_str(&told)
            .map_err(|source| Error::Answer { command: format!("{go:?}"), source })?;
        let folder = Path::new(told["Dir"].as_str().unwrap_or_default());
        files.extend(inside.iter().map(|file| folder.join(file)));
    }
    Ok(files)
}
