//! Unique names for the objects of an import.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;

use super::finding::Tool;

/// The names that this import has given out, by namespace.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<(String, String)>);

impl Names {
    /// Returns a name that no other object of this import has in the namespace. The name begins with the
    /// tool, so that it does not collide with a user's object. Objects of the first Copyrator keep their
    /// names, which `RULE_NAME` may contain.
    pub(super) fn take(
        &mut self,
        namespace: &str,
        given: Option<&str>,
        tool: Tool,
        stem: &str,
    ) -> ObjectMeta {
        let prefix = match tool {
            Tool::Reflector => "reflector",
            Tool::Replicator => "replicator",
            Tool::ConfigSyncer => "config-syncer",
            Tool::ClusterSecret => "clustersecret",
            Tool::Kyverno => "kyverno",
            Tool::NamespaceConfig => "namespaceconfig",
            Tool::Reloader => "reloader",
            Tool::Wave => "wave",
            Tool::Seed | Tool::SeedMonitor => "seed",
        };
        let wanted = given.map_or_else(|| format!("{prefix}-{stem}"), str::to_owned);
        // The longest name that still has room for a number.
        let wanted =
            wanted.get(..wanted.len().min(240)).unwrap_or(prefix).trim_end_matches(['-', '.']).to_owned();
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let free = std::iter::once(wanted.clone())
            .chain(numbered)
            .find(|name| self.0.insert((namespace.to_owned(), name.clone())));
        let name = Some(free.unwrap_or(wanted));
        ObjectMeta { name, namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
    }
}
