//! What declares copies or restarts: a custom resource of ours, or an object by its own annotations.

use std::{cmp::Ordering, fmt, sync::Arc};

use super::{Kind, NamespacedName, ObjectKey};
use crate::api::DataKind;

/// What declares copies or restarts. Written `namespace/name`, `namespace/template:name`,
/// `namespace/configmap:name` or `namespace/secret:name`; no custom resource has a colon in its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Declarer {
    /// A `CopyratorRule`, or a name in a mark that no declarer can have.
    Rule(NamespacedName),
    /// A `CopyratorTemplate`.
    Template(NamespacedName),
    /// A `ConfigMonitor`.
    Monitor(NamespacedName),
    /// A ConfigMap or Secret whose annotations declare a rule, a monitor or both. Shared, since many objects
    /// hold a declarer, and a key is larger than a name.
    Annotated(Arc<ObjectKey>),
}

impl Declarer {
    /// The `CopyratorRule` of this name.
    pub fn rule(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::Rule(NamespacedName::new(namespace, name))
    }

    /// The `CopyratorTemplate` of this name.
    pub fn template(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::Template(NamespacedName::new(namespace, name))
    }

    /// The `ConfigMonitor` of this name.
    pub fn monitor(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::Monitor(NamespacedName::new(namespace, name))
    }

    /// The declarer that this object would be by its annotations. No object that is neither a ConfigMap nor a
    /// Secret declares anything.
    pub fn annotated(object: ObjectKey) -> Self {
        Self::Annotated(object.into())
    }

    /// Reads what declares copies, as [`Display`](fmt::Display) writes it; `None` without exactly one slash.
    pub fn parse(text: &str) -> Option<Self> {
        let NamespacedName { namespace, name } = NamespacedName::parse(text)?;
        Some(match name.split_once(':') {
            Some(("template", name)) => Self::template(namespace, name),
            Some(("configmap", name)) => Self::annotated(ObjectKey::new(Kind::ConfigMap, namespace, name)),
            Some(("secret", name)) => Self::annotated(ObjectKey::new(Kind::Secret, namespace, name)),
            _ => Self::rule(namespace, name),
        })
    }

    /// The namespace of the custom resource or object.
    pub fn namespace(&self) -> &Arc<str> {
        self.parts().0
    }

    /// The two parts of the text form: in the name, a prefix says what it is.
    pub fn named(&self) -> NamespacedName {
        match self.parts() {
            (namespace, "", name) => NamespacedName::new(namespace.clone(), name.clone()),
            (namespace, prefix, name) => NamespacedName::new(namespace.clone(), format!("{prefix}{name}")),
        }
    }

    /// The `CopyratorTemplate` that it is.
    pub fn as_template(&self) -> Option<&NamespacedName> {
        match self {
            Self::Template(name) => Some(name),
            Self::Rule(_) | Self::Monitor(_) | Self::Annotated(_) => None,
        }
    }

    /// The ConfigMap or Secret that it is.
    pub fn as_annotated(&self) -> Option<&ObjectKey> {
        match self {
            Self::Annotated(object) => Some(object),
            Self::Rule(_) | Self::Template(_) | Self::Monitor(_) => None,
        }
    }

    /// What declares copies, for messages: `rule platform/registry`, `CopyratorTemplate platform/kit`.
    pub fn said(&self) -> String {
        match self {
            Self::Template(name) => format!("CopyratorTemplate {name}"),
            Self::Rule(_) | Self::Monitor(_) | Self::Annotated(_) => format!("rule {self}"),
        }
    }

    /// Namespace, prefix of the name in the text form, and name.
    fn parts(&self) -> (&Arc<str>, &'static str, &Arc<str>) {
        match self {
            Self::Rule(name) | Self::Monitor(name) => (&name.namespace, "", &name.name),
            Self::Template(name) => (&name.namespace, "template:", &name.name),
            Self::Annotated(object) => {
                let prefix = match object.kind.data() {
                    Some(DataKind::ConfigMap) => "configmap:",
                    Some(DataKind::Secret) => "secret:",
                    None => ":",
                };
                (&object.namespace, prefix, &object.name)
            }
        }
    }
}

impl fmt::Display for Declarer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, prefix, name) = self.parts();
        write!(f, "{namespace}/{prefix}{name}")
    }
}

/// The order of the text form, by namespace and name. It decides between claims, and which declarations fit
/// into a limit.
impl Ord for Declarer {
    fn cmp(&self, other: &Self) -> Ordering {
        let tie =
            |one: &Self| (matches!(one, Self::Monitor(_)), one.as_annotated().map(|object| object.kind));
        let ((own_namespace, own_prefix, own), (namespace, prefix, name)) = (self.parts(), other.parts());
        own_namespace.cmp(namespace).then_with(|| match own_prefix == prefix {
            true => own.cmp(name).then_with(|| tie(self).cmp(&tie(other))),
            false => own_prefix
                .bytes()
                .chain(own.bytes())
                .cmp(prefix.bytes().chain(name.bytes()))
                .then_with(|| own_prefix.cmp(prefix)),
        })
    }
}

impl PartialOrd for Declarer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(kind: Kind, name: &str) -> Declarer {
        Declarer::annotated(ObjectKey::new(kind, "shop", name))
    }

    /// Every text survives reading and writing, also a text that no declarer writes to a mark.
    #[test]
    fn what_is_read_is_written_again() {
        for (text, expected) in [
            ("shop/web", Declarer::rule("shop", "web")),
            ("shop/template:kit", Declarer::template("shop", "kit")),
            ("shop/configmap:app.yaml", annotated(Kind::ConfigMap, "app.yaml")),
            ("shop/secret:tls", annotated(Kind::Secret, "tls")),
            // No declarer has one of these names.
            ("shop/template:", Declarer::template("shop", "")),
            ("shop/secret:", annotated(Kind::Secret, "")),
            ("shop/template:template:a", Declarer::template("shop", "template:a")),
            ("shop/secret:a:b", annotated(Kind::Secret, "a:b")),
            ("shop/Secret:tls", Declarer::rule("shop", "Secret:tls")),
            ("shop/deployment:web", Declarer::rule("shop", "deployment:web")),
            ("shop/:", Declarer::rule("shop", ":")),
            ("template:shop/web", Declarer::rule("template:shop", "web")),
            ("\n/ü ", Declarer::rule("\n", "ü ")),
        ] {
            let read = Declarer::parse(text);
            assert_eq!(read.as_ref(), Some(&expected), "{text:?}");
            assert_eq!(read.map(|read| read.to_string()).as_deref(), Some(text));
            assert_eq!(expected.named().to_string(), text);
        }
        for text in ["", "web", "/", "shop/", "/web", "shop/a/b", "shop/secret:a/b", "template:"] {
            assert_eq!(Declarer::parse(text), None, "{text:?}");
        }
    }

    /// Equal rules of two builds get the same slots, so the order stays the order of the text.
    #[test]
    fn the_order_is_that_of_the_text() {
        let mut all: Vec<Declarer> = Vec::new();
        for name in ["", "a", "b", "configmap", "secre", "secret", "secrets", "t", "template", "z", ":", "é"]
        {
            for namespace in ["a", "shop", "template:"] {
                let named = NamespacedName::new(namespace, name);
                let object = |kind| Declarer::annotated(ObjectKey::new(kind, namespace, name));
                all.extend([Declarer::Rule(named.clone()), Declarer::Template(named)]);
                all.extend([Kind::ConfigMap, Kind::Secret].map(object));
            }
        }
        for one in &all {
            for other in &all {
                assert_eq!(one.cmp(other), one.named().cmp(&other.named()), "{one} {other}");
                assert_eq!(one == other, one.cmp(other).is_eq(), "{one} {other}");
            }
        }
        let alike = [
            Declarer::rule("shop", "web"),
            Declarer::monitor("shop", "web"),
            annotated(Kind::ConfigMap, "web"),
            annotated(Kind::Deployment, "web"),
            annotated(Kind::Service, "web"),
            // A rule of this name is not the template.
            Declarer::rule("shop", "template:web"),
            Declarer::template("shop", "web"),
        ];
        let distinct: std::collections::BTreeSet<&Declarer> = alike.iter().collect();
        assert_eq!(distinct.len(), alike.len());
    }

    /// A hundred thousand copies hold one each.
    #[test]
    fn it_is_two_texts_and_a_tag() {
        assert_eq!(size_of::<Declarer>(), 2 * size_of::<Arc<str>>() + size_of::<usize>());
    }
}
