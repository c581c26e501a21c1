//! Reads a JSON or YAML document to its end without keeping anything, within the parser's depth limit.

use std::collections::HashSet;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::tree::{KEY_TWICE, Key};

/// A document that was read to its end.
pub(super) struct Walked;

struct Walk;

impl<'de> Deserialize<'de> for Walked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

impl<'de> Visitor<'de> for Walk {
    type Value = Walked;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_str<E>(self, _: &str) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_unit<E>(self) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_none<E>(self) -> Result<Walked, E> {
        Ok(Walked)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Walked, D::Error> {
        Walked::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Walked, D::Error> {
        Walked::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Walked, A::Error> {
        while seq.next_element::<Walked>()?.is_some() {}
        Ok(Walked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Walked, A::Error> {
        let mut keys = HashSet::new();
        while let Some(Key(key)) = map.next_key()? {
            map.next_value::<Walked>()?;
            if !keys.insert(key) {
                return Err(A::Error::custom(KEY_TWICE));
            }
        }
        Ok(Walked)
    }
}
