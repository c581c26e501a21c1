//! Prices of evaluating, computed before the work is done.

use kube_cel::cel::{
    Value,
    objects::{Key, OptionalValue},
};

use crate::budget::{Budget, Exhausted};

/// One step through the syntax tree, in nanoseconds.
pub(crate) const STEP: u64 = 20;
/// One call of a library function, which binds and copies its arguments, in nanoseconds.
const CALL: u64 = 200;
/// One byte that a function reads or makes, in nanoseconds.
const BYTE: u64 = 2;
/// Bytes that a value takes in addition to its content.
const ITEM: u64 = 100;
/// Comparing two values is this many times faster than copying them.
const COMPARING: u64 = 8;
/// Longest output of one `%.99999f`, in bytes.
const LONGEST_NUMBER: u64 = 1 << 16;

impl Budget {
    /// Pays for reading values.
    pub(crate) fn read(&mut self, values: &[&Value]) -> Result<(), Exhausted> {
        values.iter().try_for_each(|value| self.spend(weigh(value, self.time()).saturating_mul(BYTE)))
    }

    /// Pays for a call, before the call is made.
    pub(crate) fn call(&mut self, function: &str, arguments: &[&Value]) -> Result<(), Exhausted> {
        self.spend(CALL)?;
        self.read(arguments)?;
        let (work, made) = beyond_linear(function, arguments, self.time());
        self.spend(work)?;
        self.has_room(made)
    }

    /// Pays for a value that a call has made.
    pub(crate) fn made(&mut self, value: &Value) -> Result<(), Exhausted> {
        let weight = weigh(value, self.memory());
        self.spend(weight.saturating_mul(BYTE))?;
        self.fill(weight.saturating_sub(ITEM))
    }
}

/// Returns the cost of a call beyond reading each argument once: the time, and the bytes of the result where
/// these can far exceed the bytes of the arguments.
fn beyond_linear(function: &str, arguments: &[&Value], most: u64) -> (u64, u64) {
    match (function, arguments) {
        ("replace", [Value::String(text), Value::String(from), Value::String(to), ..]) => {
            (0, product(text.matches(from.as_str()).count(), to.len()))
        }
        ("join", [Value::List(parts), Value::String(between), ..]) => {
            (0, product(parts.len(), between.len()))
        }
        ("split", [Value::String(text), Value::String(at), ..]) => {
            (0, bytes(text.matches(at.as_str()).count()).saturating_mul(ITEM))
        }
        ("lists.range", [Value::Int(number)]) => {
            (0, u64::try_from(*number).unwrap_or(0).saturating_mul(ITEM))
        }
        ("format", [Value::String(text), ..]) => {
            (0, bytes(text.matches("%.").count()).saturating_mul(LONGEST_NUMBER))
        }
        ("indexOf" | "lastIndexOf", [Value::String(text), Value::String(part), ..]) => {
            (product(text.len(), part.len()), 0)
        }
        ("contains", [Value::Bytes(text), Value::Bytes(part)]) => (product(text.len(), part.len()), 0),
        ("distinct", [list]) => (compared(list, list, most), 0),
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [one, other]) => {
            (compared(one, other, most).saturating_add(compared(other, one, most)), 0)
        }
        ("sort", [list @ Value::List(items)]) => {
            (u64::from(items.len().max(1).ilog2()).saturating_mul(weigh(list, most)), 0)
        }
        _ => (0, 0),
    }
}

/// Returns the time to compare each item of one list with each item of the other.
fn compared(one: &Value, other: &Value, most: u64) -> u64 {
    match one {
        Value::List(items) => bytes(items.len()).saturating_mul(weigh(other, most)) / COMPARING,
        _ => 0,
    }
}

/// Returns the size of a copy of the value, in bytes. Counting stops above `most`: parts can be shared so
/// often that counting them would itself cost too much.
fn weigh(value: &Value, most: u64) -> u64 {
    let all = |parts: &mut dyn Iterator<Item = &Value>| {
        let mut weight = ITEM;
        for part in parts {
            if weight > most {
                break;
            }
            weight = weight.saturating_add(weigh(part, most - weight));
        }
        weight
    };
    match value {
        Value::String(text) => ITEM + bytes(text.len()),
        Value::Bytes(content) => ITEM + bytes(content.len()),
        Value::List(items) => all(&mut items.iter()),
        Value::Map(map) => {
            let key = |key: &Key| if let Key::String(text) = key { bytes(text.len()) } else { 0 };
            let keys: u64 = map.map.keys().map(|one| ITEM + key(one)).sum();
            keys.saturating_add(all(&mut map.map.values()))
        }
        Value::Opaque(_) => match <&OptionalValue>::try_from(value).ok().and_then(OptionalValue::value) {
            Some(value) => ITEM.saturating_add(weigh(value, most)),
            None => ITEM,
        },
        _ => ITEM,
    }
}

fn bytes(length: usize) -> u64 {
    length as u64
}

fn product(one: usize, other: usize) -> u64 {
    bytes(one).saturating_mul(bytes(other))
}
