//! Pagination of rows. A page begins after the last row of the previous page, so rows that appear or
//! disappear meanwhile shift nothing.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::{asked::Asked, problem::Problem};

/// The sort key of a row: the worst first, then by name.
pub(super) type Key = Vec<String>;

/// A page of rows.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Page<T> {
    /// The rows, the worst first.
    pub items: Vec<T>,
    /// How many rows there are on all pages.
    pub total: usize,
    /// The parameter `continue` of the next page; absent on the last.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What to know beside the rows: what may not be seen, and which right would show it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Returns the requested page. Rows with the same key are one row, seen from two namespaces.
///
/// # Errors
/// `continue` is not from a previous page.
pub(super) fn page<T>(
    rows: Vec<T>,
    key: impl Fn(&T) -> Key,
    asked: &Asked,
    notes: Vec<String>,
) -> Result<Page<T>, Problem> {
    let after: Option<Key> = asked.next.as_deref().map(read).transpose()?;
    let mut rows: Vec<(Key, T)> = rows.into_iter().map(|row| (key(&row), row)).collect();
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.dedup_by(|(one, _), (other, _)| one == other);
    let total = rows.len();
    rows.retain(|(key, _)| after.as_ref().is_none_or(|after| key > after));
    let has_more = rows.len() > asked.limit;
    rows.truncate(asked.limit);
    let next = rows.last().filter(|_| has_more).map(|(key, _)| token(key));
    Ok(Page { items: rows.into_iter().map(|(_, row)| row).collect(), total, next, notes })
}

fn token(key: &Key) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(key).unwrap_or_default())
}

fn read(token: &str) -> Result<Key, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let key = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    key.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "continue: use the value from the previous page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_each_row_once() {
        let rows = || vec!["b", "a", "c", "a", "e", "d"];
        let (mut seen, mut asked) = (Vec::new(), Asked::read("limit=2").unwrap());
        loop {
            let page = page(rows(), |row| vec![(*row).to_owned()], &asked, Vec::new()).unwrap();
            assert_eq!(page.total, 5);
            seen.extend(page.items);
            match page.next {
                Some(next) => asked.next = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
        asked.next = Some("nonsense".to_owned());
        assert!(page(rows(), |row| vec![(*row).to_owned()], &asked, Vec::new()).is_err());
    }
}
