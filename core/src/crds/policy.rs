//! The admission policies, as written in `webhook-config/policies`.

use serde_json::Value;

use super::manifest_file::{ManifestFile, rendered};

/// File name and text, in the order in which they are installed.
const POLICIES: [(&str, &str); 6] = [
    ("copies.yaml", include_str!("../../../webhook-config/policies/copies.yaml")),
    ("author.yaml", include_str!("../../../webhook-config/policies/author.yaml")),
    ("author-honest.yaml", include_str!("../../../webhook-config/policies/author-honest.yaml")),
    ("annotations.yaml", include_str!("../../../webhook-config/policies/annotations.yaml")),
    ("annotations-honest.yaml", include_str!("../../../webhook-config/policies/annotations-honest.yaml")),
    ("statuses.yaml", include_str!("../../../webhook-config/policies/statuses.yaml")),
];

pub(super) fn objects() -> impl Iterator<Item = Value> {
    POLICIES.into_iter().flat_map(|(_, text)| rendered(serde_saphyr::from_multiple::<Value>(text)))
}

pub(super) fn files() -> impl Iterator<Item = ManifestFile> {
    POLICIES.into_iter().map(|(name, text)| ManifestFile { name: name.into(), text: text.into() })
}
