//! Standard CEL functions that the library lacks, implements differently from the API server, or calls too
//! slowly. `tests/control_plane/cel_alike.rs` compares the results.

use std::sync::Arc;

use jiff::{
    Timestamp, Zoned,
    tz::{Offset, TimeZone},
};
use kube_cel::cel::{ExecutionError, Value, common::ast::operators};

/// Functions that the library does not know at all.
pub(crate) const ADDED: [&str; 2] = ["bool", "dyn"];

/// Returns the value of a call; `None` where the library must evaluate the call, or report its error.
pub(crate) fn call(name: &str, values: &[Value]) -> Option<Result<Value, ExecutionError>> {
    let text = |text: String| Ok(Value::String(Arc::new(text)));
    let fault = |what: &str| Err(ExecutionError::function_error(name, what));
    Some(match (name, values) {
        // The library gives the same results, but makes a scope and a syntax tree for each call.
        (operators::LOGICAL_NOT, [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        (operators::LESS, [Value::Int(one), Value::Int(other)]) => Ok(Value::Bool(one < other)),
        (operators::LESS_EQUALS, [Value::Int(one), Value::Int(other)]) => Ok(Value::Bool(one <= other)),
        (operators::GREATER, [Value::Int(one), Value::Int(other)]) => Ok(Value::Bool(one > other)),
        (operators::GREATER_EQUALS, [Value::Int(one), Value::Int(other)]) => Ok(Value::Bool(one >= other)),
        ("int", [Value::String(written)]) => Ok(Value::Int(written.parse().ok()?)),
        ("dyn", [value]) => Ok(value.clone()),
        ("bool", [Value::Bool(truth)]) => Ok(Value::Bool(*truth)),
        ("bool", [Value::String(text)]) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => fault("no boolean"),
        },
        ("bool", _) => Err(ExecutionError::NoSuchOverload),
        // Counts characters, as charAt and substring do; the library counts bytes.
        ("size", [Value::String(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        ("split", [Value::String(whole), Value::String(at)]) if at.is_empty() => {
            let one = |character: char| Value::String(Arc::new(character.to_string()));
            Ok(Value::List(whole.chars().map(one).collect::<Vec<_>>().into()))
        }
        ("string", [Value::Bool(truth)]) => text(truth.to_string()),
        ("string", [Value::Float(number)]) => text(float(*number)),
        ("string", [Value::Bytes(bytes)]) => match std::str::from_utf8(bytes) {
            Ok(valid) => text(valid.to_owned()),
            Err(_) => fault("no text"),
        },
        ("string", [Value::Duration(span)]) => {
            let (seconds, nanos) = (span.num_seconds(), span.subsec_nanos());
            let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
            let fraction = format!(".{:09}", nanos.unsigned_abs());
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            text(format!("{sign}{}{fraction}s", seconds.unsigned_abs()))
        }
        ("string", [Value::Timestamp(time)]) => {
            match moment(time.timestamp(), time.timestamp_subsec_nanos()) {
                Some(moment) => text(moment.to_string()),
                None => fault("out of range"),
            }
        }
        // The library also accepts forms that RFC 3339 merely tolerates.
        ("timestamp", [Value::String(written)]) if written.contains(['t', 'z', ' ']) => fault("no timestamp"),
        ("int", [Value::Timestamp(time)]) => Ok(Value::Int(time.timestamp())),
        (part, [Value::Timestamp(time), Value::String(zone)]) if part.starts_with("get") => {
            let moment = moment(time.timestamp(), time.timestamp_subsec_nanos());
            let there = moment.zip(zone_named(zone)).map(|(moment, zone)| moment.to_zoned(zone));
            match there {
                Some(there) => Ok(Value::Int(part_of(part, &there)?)),
                None => fault("no such time zone"),
            }
        }
        _ => return None,
    })
}

fn moment(seconds: i64, nanos: u32) -> Option<Timestamp> {
    Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()
}

/// Returns a time zone by its name, or by its offset, as in `+02:00`.
fn zone_named(zone: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = zone.split_once(':') else { return TimeZone::get(zone).ok() };
    let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<u8>().ok()?);
    let minutes = i32::from(minutes).checked_mul(if zone.starts_with('-') { -60 } else { 60 })?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes)?;
    Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?))
}

/// Returns a part of a time by the name of its getter; `None` for an unknown name.
fn part_of(name: &str, time: &Zoned) -> Option<i64> {
    Some(match name {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => time.millisecond().into(),
        _ => return None,
    })
}

/// Formats a number as Go's `%g` does, with the fewest digits that identify the number.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..6 => number.to_string(),
        exponent => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-0.0001, "-0.0001"),
            (0.00001, "1e-05"),
            (999_999.5, "999999.5"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1e21, "1e+21"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(float(number), expected);
        }
    }
}
