//! The labels of a pod template.

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
}
