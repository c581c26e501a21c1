//! Where a stream goes on: an opaque text with a resourceVersion for each place that is watched.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// A namespace; `None`: all of them.
pub(super) type Place = Option<Arc<str>>;

/// A resourceVersion for each place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resume(pub Vec<(Place, String)>);

impl Resume {
    /// As the `id` of an event.
    pub(super) fn text(&self) -> String {
        let places = self.0.iter().map(|(place, version)| (place.as_deref().unwrap_or_default(), version));
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&places.collect::<Vec<_>>()).unwrap_or_default())
    }

    /// What [`Resume::text`] gave for a request about the same namespaces: those that it names, or else all or the context's own.
    /// Places become paths at the API server, so no others are taken.
    pub(super) fn read(text: &str, named: &BTreeSet<Arc<str>>, home: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let places: Vec<(String, String)> = serde_json::from_slice(&bytes).ok()?;
        let is_asked = |place: &str| match named.is_empty() {
            true => place.is_empty() || place == home,
            false => named.contains(place),
        };
        let is_version =
            |text: &str| !text.is_empty() && text.len() < 21 && text.bytes().all(|one| one.is_ascii_digit());
        let all: BTreeSet<&str> = places.iter().map(|(place, _)| &**place).collect();
        let is_sound = places.iter().all(|(place, version)| is_asked(place) && is_version(version))
            && all.len() == places.len()
            && !(all.is_empty() || named.is_empty() && all.len() > 1);
        let place = |place: String| (!place.is_empty()).then(|| place.into());
        is_sound.then(|| Self(places.into_iter().map(|(name, version)| (place(name), version)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_taken_again_and_nothing_else() {
        let named: BTreeSet<Arc<str>> = ["shop", "web"].map(Arc::from).into();
        let none = BTreeSet::new();
        let at = |places: &[(&str, &str)]| {
            let place = |name: &str| (!name.is_empty()).then(|| name.into());
            Resume(places.iter().map(|(name, version)| (place(name), (*version).to_owned())).collect())
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
