//! The manifests that Copyrator needs in the cluster: the CRDs, and the admission policies that the API
//! server itself enforces, even while no pod of ours runs. `copyrator crds` prints the manifests; the chart
//! contains the same text.

mod bounds;
mod definition;
mod descriptions;
mod json_schema;
mod manifest_file;
mod policy;
mod version;

use serde_json::Value;

use crate::api::Kind;

pub use json_schema::{json_schema, json_schemas};
pub use manifest_file::ManifestFile;
pub use policy::guarded;
pub use version::{KubeVersion, NoVersion};

/// All files, definitions before policies, in a stable order.
pub fn files() -> Vec<ManifestFile> {
    definition::files().chain(policy::files()).collect()
}

/// All objects, definitions before policies.
pub fn manifests() -> Vec<Value> {
    definition::objects().chain(policy::objects()).collect()
}

/// The files that a server of this version accepts, or all files without a version, as one stream of YAML
/// documents with the same bytes each time. The guard policy also covers the `granted` kinds.
pub fn yaml(server: Option<KubeVersion>, granted: &[Kind]) -> String {
    let taken = files().into_iter().filter(|file| server.is_none_or(|server| server.takes(file)));
    let texts: Vec<String> =
        taken
            .map(|file| {
                if file.name == policy::GUARD_FILE {
                    policy::guarding(&file.text, granted)
                } else {
                    file.text
                }
            })
            .collect();
    texts.join("---\n")
}
