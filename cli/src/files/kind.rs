//! The kinds of objects in files that the webhook judges.

use crate::{
    api::{DataKind, GROUP, PolicyKind, VERSION},
    names::{Declarer, NamespacedName},
    validate::meant,
};

/// A kind of objects in files that the webhook judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the kinds")]
pub enum FileKind {
    ConfigMap,
    Secret,
    Namespace,
    Rule,
    Monitor,
    Policy,
    Template,
}

impl FileKind {
    /// The kinds of Kubernetes itself.
    const CORE: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Namespace];
    /// The kinds of Copyrator.
    const OURS: [Self; 4] = [Self::Rule, Self::Monitor, Self::Policy, Self::Template];

    pub(super) fn of(api_version: &str, kind: &str) -> Option<Self> {
        let all = Self::CORE.into_iter().chain(Self::OURS);
        let mut named = all.filter(|one| one.as_str() == kind);
        named.find(|one| match one.group_version() {
            ("", version) => api_version == version,
            (group, version) => api_version.split_once('/') == Some((group, version)),
        })
    }

    /// The kind in a manifest.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Namespace => "Namespace",
            Self::Rule => "CopyratorRule",
            Self::Monitor => "ConfigMonitor",
            Self::Policy => "ConfigPolicy",
            Self::Template => "CopyratorTemplate",
        }
    }

    pub(super) fn group_version(self) -> (&'static str, &'static str) {
        if self.policed().is_some() { ("", "v1") } else { (GROUP, VERSION) }
    }

    pub(super) fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Policy)
    }

    /// The kind for policies; `None` for kinds of Copyrator.
    pub(crate) fn policed(self) -> Option<PolicyKind> {
        match self {
            Self::ConfigMap => Some(PolicyKind::ConfigMap),
            Self::Secret => Some(PolicyKind::Secret),
            Self::Namespace => Some(PolicyKind::Namespace),
            Self::Rule | Self::Monitor | Self::Policy | Self::Template => None,
        }
    }

    /// The kind, if its objects are ConfigMaps or Secrets.
    pub(crate) fn data(self) -> Option<DataKind> {
        self.policed()?.content()?.data()
    }

    /// The rule, template or monitor of this name; `None` for other kinds.
    pub(crate) fn declarer(self, name: &NamespacedName) -> Option<Declarer> {
        match self {
            Self::Rule => Some(Declarer::Rule(name.clone())),
            Self::Template => Some(Declarer::Template(name.clone())),
            Self::Monitor => Some(Declarer::Monitor(name.clone())),
            Self::Policy | Self::ConfigMap | Self::Secret | Self::Namespace => None,
        }
    }
}

/// Returns a hint if the apiVersion or kind of an unknown object looks misspelt.
pub(crate) fn meant_kind(version: &str, kind: &str) -> Option<String> {
    if FileKind::of(version, kind).is_some() {
        return None;
    }
    let ours = format!("{GROUP}/{VERSION}");
    let (group, _) = version.split_once('/').unwrap_or((version, ""));
    let kinds = FileKind::OURS.map(FileKind::as_str);
    let kind_of_ours = meant(kind, kinds);
    if group == GROUP
        || group.starts_with("copyrator")
        || kind_of_ours.is_some()
        || meant(version, [&*ours]).is_some()
    {
        let kinds = kind_of_ours.map_or_else(|| kinds.join(", "), str::to_owned);
        return Some(format!("did you mean apiVersion {ours}, kind {kinds}?"));
    }
    // Other API groups have kinds of these names, too.
    let is_core = ["", "v1", "V1"].contains(&version);
    let core = meant(kind, FileKind::CORE.map(FileKind::as_str)).filter(|_| is_core)?;
    Some(format!("did you mean apiVersion v1, kind {core}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_misspelt_kind_gets_a_hint() {
        assert_eq!(meant_kind("v1", "Namespace"), None);
        let hint = meant_kind("v1", "ConfigMaps").unwrap();
        assert_eq!(hint, "did you mean apiVersion v1, kind ConfigMap?");
    }
}
