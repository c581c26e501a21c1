//! Maps of texts: labels, annotations, selectors.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) type Texts = BTreeMap<String, String>;

/// Returns the entries of a map that are texts.
pub(super) fn texts(value: &Value) -> Texts {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
