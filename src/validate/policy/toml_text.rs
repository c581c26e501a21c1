//! TOML. The parser bounds how deep arrays and tables nest, but neither how long a dotted key is, which nests as deep, nor
//! what its tokens take; so both are bounded here before.

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::{Place, fault::Fault, tree::Room};

/// The longest text, in bytes: reading one takes some hundred times its memory.
const LONGEST: usize = 256 << 10;
/// The longest line of a dotted key: more dots than this before an `=` or within `[…]` nest too deep.
const DEEPEST: usize = 64;

/// Reads a document.
pub(super) fn read(text: &str) -> Result<DeTable<'_>, Fault> {
    if text.len() > LONGEST {
        return Err(Fault::new(
            format!("is TOML of {} bytes, more than the {LONGEST} that are read", text.len()),
            "split it",
        ));
    }
    if let Some(offset) = long_key(text) {
        return Err(
            Fault::new("is TOML with a key that nests too deep", "flatten it").at(text.as_bytes(), offset)
        );
    }
    DeTable::parse(text).map(|table| table.into_inner()).map_err(|error| Fault {
        place: error.span().map(|span| Place::of_byte(text.as_bytes(), span.start)),
        ..Fault::new("is no valid TOML, has a key twice, or nests too deep", "correct the document there")
    })
}

/// Where a key has too many dots. Dots with nothing but key characters and quotes between them; text that looks like it
/// is refused too, which takes a word with 64 dots.
fn long_key(text: &str) -> Option<usize> {
    let mut dots = 0;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'.' => dots += 1,
            b'=' | b'\n' | b',' | b'{' | b'}' | b'[' | b']' | b'#' => dots = 0,
            _ => {}
        }
        if dots > DEEPEST {
            return Some(offset);
        }
    }
    None
}

/// The document as a tree, with dates as text.
pub(super) fn tree(table: DeTable<'_>, room: &Room) -> Result<Value, Fault> {
    let mut entries = Map::new();
    if !room.take_map() {
        return Err(Room::fault());
    }
    for (key, value) in table {
        let key = key.into_inner();
        if !room.take_entry(&key) {
            return Err(Room::fault());
        }
        entries.insert(key.into_owned(), value_of(value.into_inner(), room)?);
    }
    Ok(Value::Object(entries))
}

fn value_of(value: DeValue<'_>, room: &Room) -> Result<Value, Fault> {
    Ok(match value {
        DeValue::String(text) => text.into_owned().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().into(), Value::from),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map_or_else(|| number.as_str().into(), Value::Number),
        DeValue::Boolean(truth) => truth.into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| {
                let value = value_of(item.into_inner(), room)?;
                if room.take_entry("") { Ok(value) } else { Err(Room::fault()) }
            });
            Value::Array(items.collect::<Result<_, Fault>>()?)
        }
        DeValue::Table(table) => tree(table, room)?,
    })
}
