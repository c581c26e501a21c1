//! The labels of a pod template, and the selector of its pods.

use std::borrow::Cow;

/// Stands between keys and values; neither can have it.
const NUL: char = '\0';

/// A few labels, in one piece. A tree takes half a kilobyte for a single one, and there is one of these for each workload of the
/// cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels(Box<str>);

impl PodLabels {
    /// The value of a label; `None` where there is no such label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut parts = self.0.split(NUL);
        std::iter::from_fn(|| Some((parts.next()?, parts.next()?)))
            .find_map(|(known, value)| (known == key).then_some(value))
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for PodLabels {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        let mut labels: Vec<String> = labels
            .into_iter()
            .map(|(key, value)| format!("{}{NUL}{}", key.as_ref(), value.as_ref()))
            .collect();
        labels.sort_unstable();
        Self(labels.join(NUL.encode_utf8(&mut [0])).into())
    }
}

impl PodLabels {
    /// The query that selects pods by all of these labels, as `kubectl get pods --selector` takes it.
    fn query(&self) -> String {
        let mut parts = self.0.split(NUL);
        let pairs = std::iter::from_fn(|| Some(format!("{}={}", parts.next()?, parts.next()?)));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// The selector of a workload's pods, as the API server takes it in a query. Most workloads select by the labels of their pod
/// template, all of them: those say it already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSelector(Option<Query>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Query {
    AllLabels,
    Text(Box<str>),
}

impl PodSelector {
    /// The selector of this query, for pods with these labels; one that selects everything is none.
    pub fn new(query: &str, labels: &PodLabels) -> Self {
        Self(match query {
            "" => None,
            _ if query == labels.query() => Some(Query::AllLabels),
            _ => Some(Query::Text(query.into())),
        })
    }

    /// The query; `None` where the workload has no selector, or none that the API server takes.
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
}
