//! `copyrator crds`: prints CustomResourceDefinitions, admission policies and JSON Schemas.

use std::path::{Path, PathBuf};

use crate::{
    arguments::{TemplateKinds, UsageError},
    crds::{KubeVersion, ManifestFile, json_schema, json_schemas, yaml},
    names::{GrantedKinds, Kind},
    terminal::{Exit, fail, print},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The definitions and policies, for kubectl apply.
    #[default]
    Yaml,
    /// JSON Schemas of our kinds, for editors and linters.
    Jsonschema,
}

/// Print the CustomResourceDefinitions and admission policies as YAML, or JSON Schemas of our kinds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator crds | kubectl apply --server-side -f -\n  \
    copyrator crds --kube-version 1.34 | kubectl apply --server-side -f -\n  \
    copyrator crds --template-kinds cert-manager.io/v1/Certificate/certificates/render | kubectl apply --server-side -f -\n  \
    copyrator crds --format jsonschema --dir schemas/\n\n\
    The first line of a manifest for editors with the YAML language server, with schemas/ in the same directory:\n  \
    # yaml-language-server: $schema=schemas/copyratorrule.json\n\n\
    Exit codes: 0 done; 1 a file cannot be written; 2 usage.")]
pub struct Args {
    /// Leave out objects that this version of Kubernetes does not support: before 1.36, the policy that
    /// records authors (a hook does it there).
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<KubeVersion>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write JSON Schemas to this existing directory instead: one file for each kind, and all.json for all of
    /// them.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    templates: TemplateKinds,
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
struct WriteError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let wrong =
            |flag, message: &str| fail(&UsageError::Value { flag, message: message.to_owned() }, Exit::Usage);
        match (self.format, self.dir) {
            (Format::Yaml, Some(_)) => {
                wrong("dir", "applies only to --format jsonschema; YAML goes to stdout")
            }
            (Format::Yaml, None) => match self.templates.kinds(&GrantedKinds::default()) {
                Ok(kinds) => {
                    let granted: Vec<Kind> = kinds.into_iter().filter_map(|kind| kind.rendered).collect();
                    print(&yaml(self.kube_version, &granted))
                }
                Err(error) => fail(&error, Exit::Usage),
            },
            (Format::Jsonschema, _) if self.kube_version.is_some() => {
                wrong("kube-version", "does not apply to schemas: remove the flag")
            }
            (Format::Jsonschema, None) => print(&json_schema()),
            (Format::Jsonschema, Some(directory)) => match write(&directory, &json_schemas()) {
                Ok(()) => Exit::Done,
                Err(error) => fail(&error, Exit::Findings),
            },
        }
    }
}

fn write(directory: &Path, files: &[ManifestFile]) -> Result<(), WriteError> {
    files.iter().try_for_each(|file| {
        let path = directory.join(&file.name);
        std::fs::write(&path, &file.text).map_err(|source| WriteError { path, source })
    })
}
