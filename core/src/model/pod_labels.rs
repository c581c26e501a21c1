//! The labels of a pod template, and the selector of its pods.

use std::borrow::Cow;

use super::{Labels, labels::MOST_BYTES};
use crate::validate::Selector;

/// Separator of keys and values, which cannot contain this character.
const NUL: char = '\0';

/// A few labels, in one allocation. A tree map needs half a kilobyte for a single label, and each workload of
/// the cluster has a `PodLabels`. `None` if a pod template has more labels than [`Labels`] keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLabels(Option<Box<str>>);

impl Default for PodLabels {
    fn default() -> Self {
        Self(Some("".into()))
    }
}

impl PodLabels {
    /// The value of a label; `None` for a label that the pods do not have or that is not kept.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut parts = self.0.as_ref()?.split(NUL);
        std::iter::from_fn(|| Some((parts.next()?, parts.next()?)))
            .find_map(|(known, value)| (known == key).then_some(value))
    }

    /// Whether the pod template has more labels than are kept.
    pub fn are_cut(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a selector selects the pods.
    pub fn are_selected_by(&self, selector: &Selector) -> bool {
        !self.are_cut() && selector.matches(|key| self.get(key))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for PodLabels {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        Self::from(&labels.into_iter().collect::<Labels>())
    }
}

impl From<&Labels> for PodLabels {
    fn from(labels: &Labels) -> Self {
        if labels.is_cut() {
            return Self(None);
        }
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}{NUL}{value}")).collect();
        Self(Some(labels.join(NUL.encode_utf8(&mut [0])).into()))
    }
}

impl PodLabels {
    /// The query that selects pods by all of these labels, in the syntax of `kubectl get pods --selector`.
    fn query(&self) -> String {
        let mut parts = self.0.as_deref().unwrap_or_default().split(NUL);
        let pairs = std::iter::from_fn(|| Some(format!("{}={}", parts.next()?, parts.next()?)));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// The selector of a workload's pods, as a query to the API server. Most workloads select by all labels of
/// their pod template, so the query need not be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSelector(Option<Query>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Query {
    AllLabels,
    Text(Box<str>),
}

impl PodSelector {
    /// Creates the selector of this query, for pods with these labels. An empty query, or a query that is
    /// longer than the kept labels, counts as no selector.
    pub fn new(query: &str, labels: &PodLabels) -> Self {
        Self(match query {
            _ if query.len() > MOST_BYTES => None,
            "" => None,
            _ if query == labels.query() => Some(Query::AllLabels),
            _ => Some(Query::Text(query.into())),
        })
    }

    /// The query; `None` if the workload has no selector, or if its selector is invalid or too long to be
    /// kept.
    pub fn query(&self, labels: &PodLabels) -> Option<Cow<'_, str>> {
        Some(match self.0.as_ref()? {
            Query::AllLabels => labels.query().into(),
            Query::Text(text) => Cow::Borrowed(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_found_by_its_key() {
        let labels: PodLabels = [("tier", "web"), ("app", "shop"), ("zone", "")].into_iter().collect();
        let found = ["app", "tier", "zone", "ap", "zzz", "", "shop"].map(|key| labels.get(key));
        assert_eq!(found, [Some("shop"), Some("web"), Some(""), None, None, None, None]);
        assert_eq!(PodLabels::default().get("app"), None);
        assert_eq!(PodLabels::default().get(""), None);
    }

    #[test]
    fn a_selector_is_given_back_as_it_came() {
        let labels: PodLabels = [("tier", "web"), ("app", "shop")].into_iter().collect();
        for (query, is_all) in [
            ("app=shop,tier=web", true),
            ("app=shop", false),
            ("tier=web,app=shop", false),
            ("app in (a,shop)", false),
        ] {
            let selector = PodSelector::new(query, &labels);
            assert_eq!(selector.query(&labels).as_deref(), Some(query));
            assert_eq!(selector.0 == Some(Query::AllLabels), is_all, "{query}");
        }
        assert_eq!(PodSelector::new("", &PodLabels::default()).query(&labels), None);
    }

    /// A user can create any number of workloads without pods, and any number of labels in their templates,
    /// at no cost.
    #[test]
    fn of_many_labels_none_is_kept_nor_the_selector_that_speaks_of_them() {
        let many: Vec<(String, &str)> = (0..1000).map(|at| (format!("example.org/{at}"), "x")).collect();
        let labels: PodLabels = many.iter().map(|(key, value)| (key, value)).collect();
        let query = many.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        assert!(labels.are_cut() && labels.get("example.org/1").is_none());
        assert_eq!(PodSelector::new(&query, &labels).query(&labels), None);
        let short = PodSelector::new("example.org/1=x", &labels);
        assert_eq!(short.query(&labels).as_deref(), Some("example.org/1=x"));
        let all = Selector::compile("s", &Default::default(), &mut Vec::new());
        assert!(!labels.are_selected_by(&all) && PodLabels::default().are_selected_by(&all));
    }
}
