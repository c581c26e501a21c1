//! A document in memory, for validation against a schema. This module builds the document by hand, since
//! `serde_json` treats one certain key as JSON within JSON, and drops the first of two equal keys.

use std::{borrow::Cow, cell::Cell, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::validate::policy::fault::Fault;

/// The bytes that the documents of one value may use in memory: many reviews share the webhook's memory.
const MOST: usize = 24 << 20;
/// Bytes of a map with its first few entries, and of each further entry or item.
const MAP: usize = 700;
const ENTRY: usize = 80;

/// The message for a duplicate key, which the parser's error contains.
pub(super) const KEY_TWICE: &str = "a key twice";

/// The remaining memory for the documents of one value; `None` once the limit is exceeded.
pub(super) struct Room(Cell<Option<usize>>);

impl Default for Room {
    fn default() -> Self {
        Self(Cell::new(Some(MOST)))
    }
}

impl Room {
    /// Deducts some bytes; `false` if the bytes exceed the remaining memory.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(bytes)));
        !self.is_exhausted()
    }

    pub(super) fn take_map(&self) -> bool {
        self.take(MAP)
    }

    pub(super) fn take_entry(&self, text: &str) -> bool {
        self.take(ENTRY + text.len())
    }

    /// Returns how many bytes were deducted.
    fn taken(&self) -> usize {
        self.0.get().map_or(MOST, |left| MOST - left)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.0.get().is_none()
    }

    pub(super) fn fault() -> Fault {
        Fault::new("is too large to check against a schema", "split it")
    }
}

/// A document with a [`Room`] of its own, and its size in bytes.
pub(super) struct Tree(Value, usize);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let room = Room::default();
        let value = TreeSeed(&room).deserialize(deserializer)?;
        Ok(Self(value, room.taken()))
    }
}

/// The documents of one value. The documents share one [`Room`]; once the room is exceeded, all documents are
/// dropped.
#[derive(Default)]
pub(super) struct Trees {
    pub(super) room: Room,
    pub(super) documents: Vec<Value>,
}

impl Extend<Tree> for Trees {
    fn extend<I: IntoIterator<Item = Tree>>(&mut self, trees: I) {
        for Tree(value, bytes) in trees {
            match self.room.take(bytes) {
                true => self.documents.push(value),
                false => self.documents = Vec::new(),
            }
        }
    }
}

/// Reads a document within the given [`Room`].
#[derive(Clone, Copy)]
pub(super) struct TreeSeed<'r>(pub(super) &'r Room);

impl TreeSeed<'_> {
    fn kept<E: Error>(self, is_room: bool, value: impl Into<Value>) -> Result<Value, E> {
        if is_room { Ok(value.into()) } else { Err(E::custom("too large")) }
    }
}

impl<'de> DeserializeSeed<'de> for TreeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok((value as f64).into())
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok((value as f64).into())
    }

    /// Infinity and "not a number" are not values in JSON, so the tree has them as text.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.kept(self.0.take(value.len()), value)
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Value, E> {
        self.visit_str(&String::from_utf8_lossy(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(self.kept(self.0.take(ENTRY), item)?);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        self.kept(self.0.take_map(), Value::Null)?;
        while let Some(Key(key)) = map.next_key::<Key<'_>>()? {
            let value = map.next_value_seed(self)?;
            let value = self.kept(self.0.take_entry(&key), value)?;
            if entries.insert(key.into_owned(), value).is_some() {
                return Err(A::Error::custom(KEY_TWICE));
            }
        }
        Ok(Value::Object(entries))
    }
}

/// The message for a key that is not a scalar, which the parser's error contains.
pub(super) const KEY_OF_PARTS: &str = "a key of parts";

/// A key as text, even if YAML reads the key as a different type.
pub(super) struct Key<'de>(pub(super) Cow<'de, str>);

struct KeyVisitor;

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(key.into()))
    }

    fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
        Ok(Key(key.to_owned().into()))
    }

    fn visit_bool<E>(self, key: bool) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_i64<E>(self, key: i64) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_u64<E>(self, key: u64) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_i128<E>(self, key: i128) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_u128<E>(self, key: u128) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_f64<E>(self, key: f64) -> Result<Key<'de>, E> {
        Ok(Key(key.to_string().into()))
    }

    fn visit_unit<E>(self) -> Result<Key<'de>, E> {
        Ok(Key("null".into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Key<'de>, A::Error> {
        Err(A::Error::custom(KEY_OF_PARTS))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Key<'de>, A::Error> {
        Err(A::Error::custom(KEY_OF_PARTS))
    }
}
