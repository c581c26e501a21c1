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

/// The files, downloaded if need be.
pub(crate) fn files() -> Result<Vec<PathBuf>, Error> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/definitions");
    let mut files = Vec::new();
    for (module, inside) in FOUND_IN {
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
