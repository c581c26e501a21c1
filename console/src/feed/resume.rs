//! The resume position of a stream: an opaque text with a resourceVersion for each watched scope.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// The scope of one watch of Events: a namespace; `None`: all namespaces.
pub(super) type WatchScope = Option<Arc<str>>;

/// A resourceVersion for each scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resume(pub Vec<(WatchScope, String)>);

impl Resume {
    /// The position as the `id` of an event.
    pub(super) fn text(&self) -> String {
        let scopes = self.0.iter().map(|(scope, version)| (scope.as_deref().unwrap_or_default(), version));
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&scopes.collect::<Vec<_>>()).unwrap_or_default())
    }

    /// Parses a text of [`Resume::text`]; `None` if the text is invalid, or has a scope that the request does
    /// not name. Without names, the scope must be all namespaces or the context's own. Scopes become paths at
    /// the API server, so no other scopes are accepted.
    pub(super) fn read(text: &str, named: &BTreeSet<Arc<str>>, home: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let scopes: Vec<(String, String)> = serde_json::from_slice(&bytes).ok()?;
        let is_asked = |scope: &str| match named.is_empty() {
            true => scope.is_empty() || scope == home,
            false => named.contains(scope),
        };
        let is_version =
            |text: &str| !text.is_empty() && text.len() < 21 && text.bytes().all(|one| one.is_ascii_digit());
        let all: BTreeSet<&str> = scopes.iter().map(|(scope, _)| &**scope).collect();
        let is_sound = scopes.iter().all(|(scope, version)| is_asked(scope) && is_version(version))
            && all.len() == scopes.len()
            && !(all.is_empty() || named.is_empty() && all.len() > 1);
        let scope = |scope: String| (!scope.is_empty()).then(|| scope.into());
        is_sound.then(|| Self(scopes.into_iter().map(|(name, version)| (scope(name), version)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_taken_again_and_nothing_else() {
        let named: BTreeSet<Arc<str>> = ["shop", "web"].map(Arc::from).into();
        let none = BTreeSet::new();
        let at = |scopes: &[(&str, &str)]| {
            let scope = |name: &str| (!name.is_empty()).then(|| name.into());
            Resume(scopes.iter().map(|(name, version)| (scope(name), (*version).to_owned())).collect())
        };
        for (resume, named) in [
            (at(&[("", "7")]), &none),
            (at(&[("home", "7")]), &none),
            (at(&[("shop", "7"), ("web", "9")]), &named),
            (at(&[("web", "9")]), &named),
        ] {
            assert_eq!(Resume::read(&resume.text(), named, "home").as_ref(), Some(&resume));
        }
        for (resume, named) in [
            (at(&[]), &none),
            (at(&[("", "7"), ("home", "7")]), &none),
            (at(&[("shop", "7")]), &none),
            (at(&[("", "7")]), &named),
            (at(&[("shop", "7"), ("shop", "8")]), &named),
            (at(&[("shop/secrets?", "7")]), &named),
            (at(&[("shop", "7&x=1")]), &named),
        ] {
            assert_eq!(Resume::read(&resume.text(), named, "home"), None, "{resume:?}");
        }
        assert_eq!(Resume::read("nonsense", &none, "home"), None);
    }
}
