//! The watches that show an object. Several watches may show one ConfigMap or Secret, and one watch may be
//! behind another.

/// A source of facts about an object: a watch, or a single read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SeenBy {
    /// The watch of all objects of the kind in one namespace; for kinds without such watches, the only watch.
    #[default]
    Whole,
    /// The watch of all ConfigMaps or all Secrets.
    Everywhere,
    /// The watch of objects with the labels of copies, in all namespaces.
    Copies,
    /// The watch of objects with the label `copyrator.dev/declares`, in all namespaces.
    Declaring,
    /// No watch shows the object: the reconciler has read the object's metadata once, because the object is
    /// in the way of a copy.
    Asked,
}

/// The watches that show an object, and the source of the facts that the world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// One bit for each [`SeenBy`].
    all: u8,
    /// The source of the facts.
    by: SeenBy,
}

impl Default for Seen {
    fn default() -> Self {
        Self::after(None, SeenBy::Whole)
    }
}

impl Seen {
    /// Whether this watch shows the object.
    pub fn is_by(self, watch: SeenBy) -> bool {
        self.all & bit(watch) != 0
    }

    /// Whether no watch shows the object: the reconciler has only asked for the object.
    pub fn is_only_asked(self) -> bool {
        self.is_by(SeenBy::Asked)
    }

    /// The state after `watch` has brought facts of the object. The state forgets an earlier single read.
    /// Callers drop a single read of an object that a watch shows (`intake::object::is_behind`).
    pub(crate) fn after(before: Option<Self>, watch: SeenBy) -> Self {
        let all = before.map_or(0, |before| before.all) & !bit(SeenBy::Asked);
        Self { all: all | bit(watch), by: watch }
    }

    /// The state after `watch` has shown the object without newer facts.
    pub(crate) fn and(self, watch: SeenBy) -> Self {
        Self { by: self.by, ..Self::after(Some(self), watch) }
    }

    /// The state after `watch` has stopped showing the object; `None` if no watch shows the object any more.
    pub(crate) fn without(self, watch: SeenBy) -> Option<Self> {
        let all = self.all & !bit(watch);
        let others = [SeenBy::Whole, SeenBy::Everywhere, SeenBy::Copies, SeenBy::Declaring, SeenBy::Asked];
        let other = others.into_iter().find(|other| all & bit(*other) != 0)?;
        Some(Self { all, by: if self.by == watch { other } else { self.by } })
    }

    /// Whether facts of the version `news`, which `watch` brings, are older than the facts of the version
    /// `known`. Versions of one watch never count as older: after a restored backup of etcd, versions begin
    /// again at lower numbers.
    pub(crate) fn is_ahead_of(self, watch: SeenBy, known: &str, news: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        self.by != watch && number(known).zip(number(news)).is_some_and(|(known, news)| known > news)
    }
}

fn bit(watch: SeenBy) -> u8 {
    1 << watch as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_stays_until_no_watch_shows_it() {
        let seen = Seen::after(None, SeenBy::Copies).and(SeenBy::Whole);
        assert!(seen.is_by(SeenBy::Copies) && seen.is_by(SeenBy::Whole) && !seen.is_by(SeenBy::Declaring));
        let seen = seen.without(SeenBy::Copies).unwrap();
        assert_eq!(seen, Seen::after(None, SeenBy::Whole));
        assert_eq!(seen.without(SeenBy::Declaring), Some(seen));
        assert_eq!(seen.without(SeenBy::Whole), None);
    }

    #[test]
    fn an_answer_counts_only_while_no_watch_shows_the_object() {
        let asked = Seen::after(None, SeenBy::Asked);
        assert!(asked.is_only_asked());
        let shown = Seen::after(Some(asked), SeenBy::Copies);
        assert!(!shown.is_only_asked());
        assert_eq!(asked.and(SeenBy::Whole).without(SeenBy::Whole), None);
    }

    #[test]
    fn a_watch_that_is_behind_another_brings_nothing() {
        let seen = Seen::after(None, SeenBy::Copies);
        for (watch, known, news, is_ahead) in [
            (SeenBy::Whole, "10", "9", true),
            (SeenBy::Whole, "10", "10", false),
            (SeenBy::Whole, "9", "10", false),
            (SeenBy::Copies, "10", "9", false),
            (SeenBy::Whole, "10", "x", false),
        ] {
            assert_eq!(seen.is_ahead_of(watch, known, news), is_ahead, "{watch:?} {known} {news}");
        }
    }
}
