//! Parses TOML within bounds. The parser limits the nesting of brackets and the length of dotted keys, but
//! neither the combination of both nor the used memory. This module therefore counts the tokens before
//! parsing.

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};
use toml_parser::lexer::TokenKind;

use super::tree::Room;
use crate::validate::policy::{Position, fault::Fault};

/// The longest text, in bytes: reading a text takes some hundred times its size in memory.
const LONGEST: usize = 256 << 10;
/// How deep tables and arrays may nest.
const DEEPEST: usize = 80;

/// Parses a document within these bounds.
pub(super) fn read(text: &str) -> Result<DeTable<'_>, Fault> {
    if text.len() > LONGEST {
        return Err(Fault::new(
            format!("is TOML of {} bytes, more than the maximum of {LONGEST}", text.len()),
            "split it",
        ));
    }
    if let Some(offset) = too_deep(text) {
        return Err(Fault::new("is too deeply nested TOML", "flatten it").at(text.as_bytes(), offset));
    }
    DeTable::parse(text).map(|table| table.into_inner()).map_err(|error| Fault {
        place: error.span().map(|span| Position::of_byte(text.as_bytes(), span.start)),
        ..Fault::new(
            "is not valid TOML, has a duplicate key, or nests too deep",
            "correct the document there",
        )
    })
}

/// Returns the byte at which tables and arrays nest too deep, including the tables of dotted keys.
fn too_deep(text: &str) -> Option<usize> {
    // The number of dots in the keys before each open bracket, and in the key that is being read.
    let (mut open, mut depth, mut dots) = (Vec::new(), 0, 0);
    for token in toml_parser::Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Comma | TokenKind::Newline => dots = 0,
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                depth += dots + 1;
                open.push(std::mem::take(&mut dots));
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                dots = open.pop().unwrap_or(0);
                depth -= if depth > dots { dots + 1 } else { depth };
            }
            _ => {}
        }
        if depth + dots > DEEPEST {
            return Some(token.span().start());
        }
    }
    None
}

/// Returns the document as a tree, in which dates are text.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 6,400 nested tables: reading them took more stack than a thread has.
    #[test]
    fn dotted_keys_within_brackets_count() {
        let key = vec!["a"; 70].join(".");
        let bomb = format!("{key} = {}1{}", format!("{{{key} = ").repeat(70), "}".repeat(70));
        assert!(read(&bomb).is_err_and(|fault| fault.what.contains("too deep") && fault.place.is_some()));
        let (open, close) = ("[".repeat(81), "]".repeat(81));
        assert!(read(&format!("a = {open}{close}")).is_err());
        for fine in [
            format!(
                "# {}\na = '{}'\nb = \"\"\"\n{}\n\"\"\"",
                ".".repeat(200),
                ".".repeat(200),
                ".".repeat(200)
            ),
            "a = [1.5, 2.5]\nb = {c.d = 1.5, e.f = [[1], [2]]}\n".to_owned()
                + &(0..300).map(|n| format!("[t{n}.x]\ny.z = [[{n}.5]]\n")).collect::<String>(),
            "a = [\n".to_owned() + &"  { b.c = 1.5 },\n".repeat(300) + "]",
        ] {
            assert!(read(&fine).is_ok(), "{:?}", read(&fine).err());
        }
        assert!(read(&"]".repeat(100)).is_err());
    }
}
