//! The limits on how fast and how far content spreads from a source to its copies.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;

/// The latest update of a copy from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// When the copy got new content.
    pub at: Timestamp,
    /// The least time until the next update of the copy from its source.
    pub gap: Duration,
}

/// Limits on how fast and how far one source spreads, and how many copies one rule makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadLimits {
    /// Least time between two contents of one copy; this time doubles while the copy's source keeps changing.
    pub min_interval: Duration,
    /// Copyrator warns if the bytes of a source times its targets exceed this limit.
    pub warn_bytes: Bytes,
    /// Copyrator does not write copies if the bytes of a source times its targets exceed this limit.
    pub max_bytes: Bytes,
    /// The maximum number of copies for which a rule makes new copies; 0: no limit.
    pub max_copies: usize,
}

impl Default for SpreadLimits {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_secs(5),
            warn_bytes: Bytes(256 << 20),
            max_bytes: Bytes(1 << 30),
            max_copies: 100_000,
        }
    }
}

/// A number of bytes: read as `1Gi`, `256Mi`, `64Ki` or a plain number, and shown as `1.5 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Why a number of bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number of bytes: write a whole number, alone or with Ki, Mi or Gi, as in 1Gi")]
pub struct BytesError(String);

const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let with_unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
        let (number, factor) = with_unit.unwrap_or((text, 1));
        let number = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
        number.map(Self).ok_or_else(|| BytesError(text.to_owned()))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, factor)| self.0 >= *factor) {
            None => write!(f, "{} bytes", self.0),
            Some((unit, factor)) if self.0.is_multiple_of(*factor) => {
                write!(f, "{} {unit}B", self.0 / factor)
            }
            Some((unit, factor)) => write!(f, "{:.1} {unit}B", self.0 as f64 / *factor as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("0", 0, "0 bytes"),
            ("1023", 1023, "1023 bytes"),
            ("64Ki", 65_536, "64 KiB"),
            ("1536Mi", 1_610_612_736, "1.5 GiB"),
            ("1Gi", 1 << 30, "1 GiB"),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
        for text in ["", "Gi", "1G", "-1", "1.5Gi", "99999999999Gi"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
