//! What templates are rendered for: namespaces, or objects of kinds that the chart's value `templates.kinds` grants.

use std::{fmt, str::FromStr, sync::Arc};

use super::NamespacedName;

/// What a template is rendered for: a namespace, or an object in it. Of which kind, the template says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceName {
    /// The namespace, into which the rendered objects go.
    pub namespace: Arc<str>,
    /// The object's name; `None` for the namespace itself.
    pub object: Option<Arc<str>>,
}

impl InstanceName {
    /// The object of this name.
    pub fn of_object(object: &NamespacedName) -> Self {
        Self { namespace: object.namespace.clone(), object: Some(object.name.clone()) }
    }

    /// Namespace and name of the object; `None` for a namespace.
    pub fn object(&self) -> Option<NamespacedName> {
        Some(NamespacedName { namespace: self.namespace.clone(), name: self.object.clone()? })
    }
}

impl From<&str> for InstanceName {
    /// A namespace.
    fn from(namespace: &str) -> Self {
        Self { namespace: namespace.into(), object: None }
    }
}

impl From<&Arc<str>> for InstanceName {
    /// A namespace.
    fn from(namespace: &Arc<str>) -> Self {
        Self { namespace: namespace.clone(), object: None }
    }
}

/// A kind whose objects templates are rendered for, as these name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKind {
    /// Group and version, such as `web.example.com/v1`.
    pub api_version: Arc<str>,
    /// The kind, such as `NginxServer`.
    pub kind: Arc<str>,
}

impl InstanceKind {
    /// Builds the kind from its two parts.
    pub fn new(api_version: impl Into<Arc<str>>, kind: impl Into<Arc<str>>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Its API group; empty for the core.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Its version, such as `v1`.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&*self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for InstanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.api_version)
    }
}

/// A kind whose objects templates are rendered for, and what our account may do with these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateKind {
    /// The kind, as templates name it.
    pub kind: InstanceKind,
    /// The plural in URLs and roles, such as `nginxservers`.
    pub plural: String,
    /// Whether we may read its objects.
    pub for_each: bool,
    /// Where `writeStatus` writes, if anywhere.
    pub status: Option<StatusPlace>,
}

/// Where a template's `writeStatus` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusPlace {
    /// To the subresource `status`.
    Subresource,
    /// To the object itself: its definition has no such subresource.
    Object,
}

/// A text that is no [`TemplateKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no kind for templates: write APIVERSION/KIND/PLURAL/USE, such as \
     web.example.com/v1/NginxServer/nginxservers/forEach, with forEach, status or statusField as use, or two of them joined by +"
)]
pub struct NoTemplateKind(String);

impl FromStr for TemplateKind {
    type Err = NoTemplateKind;

    fn from_str(text: &str) -> Result<Self, NoTemplateKind> {
        let read = || {
            let (rest, uses) = text.trim().rsplit_once('/')?;
            let (rest, plural) = rest.rsplit_once('/')?;
            let (api_version, kind) = rest.rsplit_once('/')?;
            let is_version = !api_version.is_empty() && api_version.split('/').count() <= 2;
            if !is_version || kind.is_empty() || plural.is_empty() {
                return None;
            }
            let mut read = Self {
                kind: InstanceKind::new(api_version, kind),
                plural: plural.to_owned(),
                for_each: false,
                status: None,
            };
            for one in uses.split('+') {
                match one {
                    "forEach" => read.for_each = true,
                    "status" => read.status = Some(StatusPlace::Subresource),
                    "statusField" => read.status = Some(StatusPlace::Object),
                    _ => return None,
                }
            }
            Some(read)
        };
        read().ok_or_else(|| NoTemplateKind(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_from_one_word() {
        let read = |text: &str| text.parse::<TemplateKind>().ok();
        let nginx = read("web.example.com/v1/NginxServer/nginxservers/forEach+statusField").unwrap();
        assert_eq!(
            (nginx.kind.group(), nginx.kind.version(), &*nginx.plural),
            ("web.example.com", "v1", "nginxservers")
        );
        assert!(nginx.for_each && nginx.status == Some(StatusPlace::Object));
        let core = read("v1/ConfigMap/configmaps/forEach").unwrap();
        assert_eq!((core.kind.group(), core.kind.version(), core.status), ("", "v1", None));
        for wrong in [
            "",
            "ConfigMap",
            "v1/ConfigMap/configmaps",
            "v1/ConfigMap/configmaps/watch",
            "a/b/c/D/ds/forEach",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
