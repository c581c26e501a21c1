//! Whether two values mean the same to the API server, which writes some of them in a form of its own: quantities (`700m` for `0.7`),
//! durations (`1h30m0s` for `1.5h`), times, numbers as text, and nothing for what is empty.

use jiff::Timestamp;
use serde_json::Value;

/// The units of durations, in nanoseconds, as Go writes and reads them. A longer one comes before one that it begins with.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Digits of a number in a duration that are read. Go's durations have fewer.
const MOST_DIGITS: usize = 18;

/// Whether the API server keeps a declared value if it stores the other one, where neither of the two is a map or a list with
/// something in it.
pub(super) fn is_same(declared: &Value, stored: &Value) -> bool {
    let is_nested = |value: &Value| value.is_object() || value.is_array();
    if is_unset(declared) || (stored.is_null() && is_empty(declared)) {
        return true;
    }
    if stored.is_null() || is_nested(declared) || is_nested(stored) {
        return false;
    }
    let (declared, stored) = (text(declared), text(stored));
    let time = |text: &str| text.parse::<Timestamp>().ok();
    declared == stored
        || duration(&declared).is_some_and(|it| duration(&stored) == Some(it))
        || time(&declared).is_some_and(|it| time(&stored) == Some(it))
        || quantity(&declared).zip(quantity(&stored)).is_some_and(|(one, other)| are_close(one, other))
}

/// What a number or a text that is not empty says, such as `80`; `None` for everything else.
pub(super) fn scalar(value: &Value) -> Option<String> {
    (value.is_string() || value.is_number()).then(|| text(value)).filter(|text| !text.is_empty())
}

/// What says nothing, so that the API server may leave it out or put something in its place.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// What the API server leaves out where it is not there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// A value as text: `1` for the number and for the text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether two quantities are the same: `0.7` and `700m` are not quite, as floats.
fn are_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
}

/// A quantity, as exactly as a float has it
/// (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).
fn quantity(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// The nanoseconds of a duration as Go reads it (`time.ParseDuration`), which is how the API server reads a `metav1.Duration`.
fn duration(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = None;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (part, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let (unit, after) = UNITS.iter().find_map(|(name, unit)| Some((*unit, after.strip_prefix(name)?)))?;
        let part = part.get(..MOST_DIGITS).unwrap_or(part);
        let nanoseconds = number(whole)? * i128::from(unit)
            + number(part)? * i128::from(unit) / 10_i128.pow(u32::try_from(part.len()).ok()?);
        total = Some(total.unwrap_or(0_i64).checked_add(i64::try_from(nanoseconds).ok()?)?);
        rest = after;
    }
    total.map(|total| if is_negative { -total } else { total })
}

/// The digits that a text begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

fn number(digits: &str) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    (digits.len() <= MOST_DIGITS).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, seconds) in [
            ("1.5h", 5400.0),
            ("1h30m0s", 5400.0),
            ("90m", 5400.0),
            ("-1.5h", -5400.0),
            ("+30s", 30.0),
            (".5s", 0.5),
            ("1.s", 1.0),
            ("1h1h", 7200.0),
            ("100us", 1e-4),
            ("100µs", 1e-4),
            ("100μs", 1e-4),
            ("0.3ms", 3e-4),
            ("0", 0.0),
            ("-0", 0.0),
            ("0s", 0.0),
            ("2562047h", 2_562_047.0 * 3600.0),
        ] {
            assert_eq!(duration(text).map(|it| it as f64 / 1e9), Some(seconds), "{text}");
        }
        let long = format!("0.{}1s", "3".repeat(40));
        assert_eq!(duration(&long), Some(333_333_333));
        for text in [
            "",
            "-",
            "1",
            "1.5",
            "h",
            ".h",
            ".",
            "1x",
            "1h ",
            " 1h",
            "1h30",
            "1d",
            "--1h",
            "-+1h",
            "1e3s",
            "2562048h",
            "9999999999999999999999s",
            "1:30",
            "1Mi",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn one_value_has_several_forms() {
        for (declared, stored, is) in [
            (json!("1.5h"), json!("1h30m0s"), true),
            (json!("90m"), json!("1h30m0s"), true),
            (json!("0.1s"), json!("100ms"), true),
            (json!("0h"), json!("0s"), true),
            (json!("1.5h"), json!("1h30m1s"), false),
            (json!("-1h"), json!("1h0m0s"), false),
            (json!("1.5h"), json!("1.5h extra"), false),
            (json!("1.5h"), json!(null), false),
            // Both a quantity and a duration: a thousandth five times, and five minutes.
            (json!("5m"), json!("5m0s"), true),
            (json!("5m"), json!("0.005"), true),
            (json!("5m"), json!("6m"), false),
            (json!("0.7"), json!("700m"), true),
            (json!("2026-01-01T01:00:00+01:00"), json!("2026-01-01T00:00:00Z"), true),
            (json!(1), json!("1"), true),
            (json!(""), json!("anything"), true),
            (json!({}), json!(null), true),
            (json!("a"), json!("b"), false),
        ] {
            assert_eq!(is_same(&declared, &stored), is, "{declared} {stored}");
        }
    }
}
