//! Instances of templates (namespaces, or objects in them), and the kinds that the chart's value
//! `templates.kinds` grants to templates.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{
    Declarer, Kind, NamespacedName,
    granted::{GrantedKinds, TooManyKinds},
};

/// The instance that a template is rendered for: a namespace, or an object in it. The template names the
/// object's kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceName {
    /// The namespace that receives the rendered objects.
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

    /// The source that the marks on the instance's objects name: the object, or else the template.
    pub fn source(&self, template: &Declarer) -> NamespacedName {
        self.object().unwrap_or_else(|| template.named())
    }
}

impl From<&str> for InstanceName {
    /// The namespace of this name, not an object in it.
    fn from(namespace: &str) -> Self {
        Self { namespace: namespace.into(), object: None }
    }
}

impl From<&Arc<str>> for InstanceName {
    /// The namespace of this name, not an object in it.
    fn from(namespace: &Arc<str>) -> Self {
        Self { namespace: namespace.clone(), object: None }
    }
}

/// A kind whose objects templates are rendered for, by the names that templates use.
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

    /// The names of a kind that Copyrator writes.
    fn of(kind: Kind) -> Self {
        let resource = kind.resource();
        Self::new(resource.api_version, resource.kind)
    }

    /// Its API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The plural that most definitions have. kubectl guesses it the same way.
    pub fn usual_plural(&self) -> String {
        let kind = self.kind.to_lowercase();
        match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None if kind.ends_with('s') => format!("{kind}es"),
            None => format!("{kind}s"),
        }
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

/// A kind that is granted to templates, and what our account may do with its objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateKind {
    /// The kind, as templates name it.
    pub kind: InstanceKind,
    /// The plural in URLs and roles, such as `nginxservers`.
    pub plural: String,
    /// Whether templates may be rendered for its objects, which Copyrator may then read.
    pub for_each: bool,
    /// The kind that Copyrator writes its objects as, if templates may declare them. [`Kind::is_copied`] says
    /// whether rules may copy them too.
    pub rendered: Option<Kind>,
    /// Where `writeStatus` writes, if anywhere.
    pub status: Option<StatusPlace>,
}

/// The groups with a dot that the API server of Kubernetes 1.36 serves itself; others of `k8s.io` are custom
/// resources.
const KUBERNETES_GROUPS: [&str; 15] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "storage.k8s.io",
];

/// Where a template's `writeStatus` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusPlace {
    /// To the `status` subresource.
    Subresource,
    /// To the object itself, because its definition has no `status` subresource.
    Object,
}

/// Why a text is not a [`TemplateKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTemplateKind {
    /// The text does not have the form `APIVERSION/KIND/PLURAL/USE`.
    #[error(
        "{0:?} is not a kind for templates: write APIVERSION/KIND/PLURAL/USE, such as \
         web.example.com/v1/NginxServer/nginxservers/forEach; USE is render, copy, forEach, status or statusField, or several of them \
         joined by +"
    )]
    Malformed(String),
    /// The text has `copy` without `render`, but copying an object means writing it.
    #[error("{0:?} has copy without render: write render+copy, because Copyrator must write the copies")]
    CopiedOnly(String),
    /// A kind of Kubernetes that rules cannot copy: a copy would differ from its source.
    #[error(
        "rules cannot copy {0}: of Kubernetes' own kinds, rules copy ConfigMaps, Secrets and the kinds that copies.kinds (--copy-kinds) \
         accepts; remove copy, and declare the object in a CopyratorTemplate"
    )]
    NotCopied(InstanceKind),
    /// Templates declare objects of too many kinds.
    #[error(transparent)]
    TooMany(#[from] TooManyKinds),
    /// Two kinds name the same objects of the API. Copyrator would delete, as orphaned by one kind, what it
    /// writes by the other.
    #[error(
        "{} and {} are the same resource, {}: list only one of these kinds",
        InstanceKind::of(*.0), InstanceKind::of(*.1), .0.resource().qualified()
    )]
    Twice(Kind, Kind),
}

impl TemplateKind {
    /// The uses that the kind is granted for, in the words of the chart's value.
    pub fn uses(&self) -> impl Iterator<Item = &'static str> {
        let status = self.status.map(|place| match place {
            StatusPlace::Subresource => "status",
            StatusPlace::Object => "statusField",
        });
        let render = self.rendered.map(|_| "render");
        let copy =
            self.rendered.filter(|kind| matches!(kind, Kind::Granted(_)) && kind.is_copied()).map(|_| "copy");
        render.into_iter().chain(copy).chain(self.for_each.then_some("forEach")).chain(status)
    }

    /// Reads each of these, as [`Self::read`] does.
    ///
    /// # Errors
    /// A text does not have that form, there are too many kinds, or two kinds name the same objects.
    pub fn read_all<'t>(
        texts: impl IntoIterator<Item = &'t str>,
        kinds: &GrantedKinds,
    ) -> Result<BTreeSet<Self>, NoTemplateKind> {
        let read = texts.into_iter().map(|text| Self::read(text, kinds));
        let read = read.collect::<Result<BTreeSet<Self>, _>>()?;
        let mut written: BTreeMap<(&str, &str), Kind> = BTreeMap::new();
        for kind in Kind::ALL.into_iter().chain(read.iter().filter_map(|one| one.rendered)) {
            let resource = kind.resource();
            let place = written.entry((resource.group, resource.plural)).or_insert(kind);
            if *place != kind {
                return Err(NoTemplateKind::Twice(*place, kind));
            }
        }
        Ok(read)
    }

    /// Reads `APIVERSION/KIND/PLURAL/USE`; a kind whose objects templates declare is added to `kinds`.
    ///
    /// # Errors
    /// The text is not of that form, or there are too many kinds.
    pub fn read(text: &str, kinds: &GrantedKinds) -> Result<Self, NoTemplateKind> {
        let (mut read, is_rendered, is_copied) =
            Self::parsed(text).ok_or_else(|| NoTemplateKind::Malformed(text.into()))?;
        if is_copied && !is_rendered {
            return Err(NoTemplateKind::CopiedOnly(text.into()));
        }
        if is_rendered {
            let kind = kinds.kind(&read.kind.api_version, &read.kind.kind, &read.plural, is_copied)?;
            let is_of_kubernetes = matches!(kind, Kind::Granted(_)) && is_of_kubernetes(read.kind.group());
            if is_copied && (!kind.is_copied() || is_of_kubernetes) {
                return Err(NoTemplateKind::NotCopied(read.kind));
            }
            read.rendered = Some(kind);
        }
        Ok(read)
    }

    /// Parses the text, except [`Self::rendered`]. Also returns whether `render` and `copy` are among the
    /// uses.
    fn parsed(text: &str) -> Option<(Self, bool, bool)> {
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
            rendered: None,
            status: None,
        };
        let (mut is_rendered, mut is_copied) = (false, false);
        for one in uses.split('+') {
            match one {
                "render" => is_rendered = true,
                "copy" => is_copied = true,
                "forEach" => read.for_each = true,
                "status" => read.status = Some(StatusPlace::Subresource),
                "statusField" => read.status = Some(StatusPlace::Object),
                _ => return None,
            }
        }
        Some((read, is_rendered, is_copied))
    }
}

/// Whether Kubernetes itself serves a group. The cluster or its controllers fill in fields of such objects.
pub(crate) fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || KUBERNETES_GROUPS.contains(&group)
}

/// The kind of a manifest with these names; `None` if templates may not declare it: it is a Secret, whose
/// values everybody could read in the template, or a kind that is neither built in nor `granted`.
pub fn rendered_kind(api_version: &str, kind: &str, granted: &BTreeSet<TemplateKind>) -> Option<Kind> {
    let is_it = |one: &&TemplateKind| *one.kind.api_version == *api_version && *one.kind.kind == *kind;
    let found = Kind::written_as(api_version, kind)
        .or_else(|| granted.iter().filter(is_it).find_map(|one| one.rendered));
    found.filter(|kind| *kind != Kind::Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_from_one_word() {
        let kinds = GrantedKinds::default();
        let read = |text: &str| TemplateKind::read(text, &kinds).ok();
        let nginx = read("web.example.com/v1/NginxServer/nginxservers/forEach+statusField").unwrap();
        assert_eq!(
            (nginx.kind.group(), nginx.kind.version(), &*nginx.plural),
            ("web.example.com", "v1", "nginxservers")
        );
        assert!(nginx.for_each && nginx.status == Some(StatusPlace::Object));
        assert_eq!(nginx.uses().collect::<Vec<_>>(), ["forEach", "statusField"]);
        let core = read("v1/ConfigMap/configmaps/forEach").unwrap();
        assert_eq!((core.kind.group(), core.kind.version(), core.status), ("", "v1", None));
        assert_eq!(nginx.rendered, None);
        let certificate = read("cert-manager.io/v1/Certificate/certificates/render").unwrap();
        assert!(!certificate.for_each && certificate.status.is_none());
        let kind = certificate.rendered.unwrap();
        let granted = [nginx, certificate].into();
        assert_eq!(rendered_kind("cert-manager.io/v1", "Certificate", &granted), Some(kind));
        assert_eq!(rendered_kind("apps/v1", "Deployment", &granted), Some(Kind::Deployment));
        for (api_version, name) in
            [("web.example.com/v1", "NginxServer"), ("cert-manager.io/v2", "Certificate")]
        {
            assert_eq!(rendered_kind(api_version, name, &granted), None, "{api_version}");
        }
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

    #[test]
    fn rules_copy_custom_resources_that_are_granted_so() {
        let read = |text: &str| TemplateKind::read(text, &GrantedKinds::default());
        let issuer = read("cert-manager.io/v1/Issuer/issuers/render+copy+forEach").unwrap();
        assert_eq!(issuer.uses().collect::<Vec<_>>(), ["render", "copy", "forEach"]);
        assert!(issuer.rendered.is_some_and(|kind| kind.is_copied() && kind.is_whole()));
        assert!(read("gateway.networking.k8s.io/v1/HTTPRoute/httproutes/render+copy").is_ok());
        assert!(matches!(read("a.b/v1/A/as/copy"), Err(NoTemplateKind::CopiedOnly(_))));
        for kubernetes in [
            "apps/v1/Deployment/deployments/render+copy",
            "apps/v1/StatefulSet/statefulsets/render+copy",
            "v1/PersistentVolumeClaim/persistentvolumeclaims/copy+render",
            "networking.k8s.io/v1/Ingress/ingresses/render+copy",
        ] {
            assert!(matches!(read(kubernetes), Err(NoTemplateKind::NotCopied(_))), "{kubernetes}");
        }
    }

    /// Helm refuses what the process would refuse.
    #[test]
    fn the_charts_schema_has_the_groups_of_kubernetes() {
        let text = include_str!("../../../charts/copyrator/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let kinds = &schema["properties"]["templates"]["properties"]["kinds"]["items"]["allOf"];
        let of_copied = kinds.as_array().and_then(|all| all.last()).unwrap();
        let pattern = of_copied["then"]["properties"]["apiVersion"]["not"]["pattern"].as_str().unwrap();
        let groups: Vec<String> = KUBERNETES_GROUPS
            .iter()
            .filter_map(|group| group.strip_suffix(".k8s.io"))
            .map(|group| group.replace('.', "\\."))
            .collect();
        assert_eq!(groups.len(), KUBERNETES_GROUPS.len());
        assert_eq!(pattern, format!("^(v[0-9a-z]+$|[a-z0-9-]+/|({})\\.k8s\\.io/)", groups.join("|")));
    }

    /// Granted in two versions, an object would have two slots, and its mark would hold in both; a template wants one of them.
    #[test]
    fn the_same_objects_are_not_written_by_two_kinds() {
        let read = |texts: &[&str]| {
            TemplateKind::read_all(texts.iter().copied(), &GrantedKinds::default())
                .map(|kinds| kinds.len())
                .map_err(|error| error.to_string())
        };
        let (first, second) = ("a.b/v1/A/as/render", "a.b/v2/A/as/render");
        let told = read(&[first, second]).unwrap_err();
        assert_eq!(
            told,
            "A of a.b/v1 and A of a.b/v2 are the same resource, as.a.b: list only one of these kinds"
        );
        assert!(read(&["v2/Settings/configmaps/render"]).unwrap_err().contains("ConfigMap of v1"));
        for texts in [
            &[first, "a.b/v2/A/as/forEach"][..],
            &[first, "a.b/v1/A/as/forEach"],
            &[first, "c.d/v1/A/as/render"],
            &["apps/v1/Deployment/deployments/render", "v1/ConfigMap/configmaps/render"],
        ] {
            assert_eq!(read(texts), Ok(2), "{texts:?}");
        }
    }
}
