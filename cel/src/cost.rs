//! What evaluating costs, told before it is done.

use kube_cel::cel::{
    Value,
    objects::{Key, OptionalValue},
};

use crate::budget::{Budget, Exhausted};

/// One step through the syntax tree, in nanoseconds.
pub(crate) const STEP: u64 = 20;
/// One call of a function of the library: its arguments are bound, copied in and out.
const CALL: u64 = 200;
/// One byte that a function reads or makes.
const BYTE: u64 = 2;
/// Bytes that a value takes beside its content.
const ITEM: u64 = 100;
/// Two values are told apart this much faster than they are copied.
const COMPARING: u64 = 8;
/// What `%.99999f` can write, in bytes.
const LONGEST_NUMBER: u64 = 1 << 16;

impl Budget {
    /// Pays for reading values.
    pub(crate) fn read(&mut self, values: &[&Value]) -> Result<(), Exhausted> {
        values.iter().try_for_each(|value| self.spend(weigh(value, self.time()).saturating_mul(BYTE)))
    }

    /// Pays for a call, before it is made.
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

/// What a call costs beyond reading each argument once: time, and bytes of its result where they can be many
/// more than those of its arguments.
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

/// Each item of one list is compared with each of the other.
fn compared(one: &Value, other: &Value, most: u64) -> u64 {
    match one {
        Value::List(items) => bytes(items.len()).saturating_mul(weigh(other, most)) / COMPARING,
        _ => 0,
    }
}

/// The bytes of a value as they would be copied; not counted on beyond `most`: parts can be shared so often
/// that counting them would be the very cost.
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
