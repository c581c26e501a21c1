//! The labels of a pod template.

/// A few labels, in the order of their keys. A tree takes half a kilobyte for a single one, and there is one of these for each workload
/// of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels(Box<[(Box<str>, Box<str>)]>);

impl PodLabels {
    /// The value of a label; `None` where there is no such label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for PodLabels {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        let mut labels: Box<[(Box<str>, Box<str>)]> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        labels.sort();
        Self(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_found_by_its_key() {
        let labels: PodLabels = [("tier", "web"), ("app", "shop"), ("zone", "")].into_iter().collect();
        let found = ["app", "tier", "zone", "ap", "zzz", ""].map(|key| labels.get(key));
        assert_eq!(found, [Some("shop"), Some("web"), Some(""), None, None, None]);
        assert_eq!(PodLabels::default().get("app"), None);
    }
}
