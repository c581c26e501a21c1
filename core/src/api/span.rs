//! Durations as people write them in manifests: `90s`, `5m`, `1h30m`, `168h`.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A duration as the user wrote it. It is parsed on use, so that one bad field never makes a whole object
/// undecodable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(String);

/// Why a duration could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: write whole numbers with the units h, m, s or ms, as in 90s, 5m or 1h30m")]
pub struct SpanError(String);

impl Span {
    /// Keeps `text` as written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The length of time that the text names.
    ///
    /// # Errors
    /// The text is not a sequence of whole numbers with units.
    pub fn get(&self) -> Result<Duration, SpanError> {
        let bad = || SpanError(self.0.clone());
        let mut rest = self.0.as_str();
        let mut total = Duration::ZERO;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, tail) = rest.split_at(digits);
            let unit_len = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_len);
            let number: u64 = number.parse().map_err(|_| bad())?;
            let millis = match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                _ => return Err(bad()),
            };
            let part = number.checked_mul(millis).map(Duration::from_millis).ok_or_else(bad)?;
            total = total.checked_add(part).ok_or_else(bad)?;
            rest = tail;
        }
        Ok(total)
    }
}

impl From<Duration> for Span {
    /// Written in the largest units that lose nothing but parts of a second: `5m`, `1h30m`, `90s` as `1m30s`.
    fn from(duration: Duration) -> Self {
        let seconds = duration.as_secs();
        let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
        let text: String = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, unit)| format!("{count}{unit}"))
            .collect();
        Self(if text.is_empty() { "0s".into() } else { text })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 32, "pattern": "^([0-9]+(ms|s|m|h))+$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_kubernetes_writes_them() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("168h", 604_800)] {
            assert_eq!(Span::new(text).get(), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "5", "m", "-5m", "5d", "1.5h", "99999999999999999999s", "5m ", "18446744073709551615h"]
        {
            assert!(Span::new(text).get().is_err(), "{text}");
        }
    }
}
