//! The cost of validating a document against a schema, estimated in advance: the library can neither be
//! stopped nor limited. The estimate visits every place that the library may visit, and deducts each step
//! from the budget.

use std::collections::BTreeMap;

use copyrator_cel::{Budget, Exhausted, Pattern};
use serde_json::Value;

use super::shape::target;

/// The cost of one keyword at one place, in nanoseconds, for this walk and the library's.
const STEP: u64 = 100;
/// The bytes that the library's faults may use: within `anyOf`, `oneOf` and `propertyNames`, the library
/// keeps every fault with a copy of the value.
const MEMORY: u64 = 16 << 20;
/// Bytes of a fault or value, without its content.
const ITEM: u64 = 200;
/// `uniqueItems` compares the items of short lists in pairs, which costs at most this many readings of the
/// list.
const PAIRS: u64 = 16;

/// The running cost of one evaluation.
pub(super) struct Cost<'c> {
    root: &'c Value,
    patterns: &'c BTreeMap<String, Pattern>,
    budget: &'c mut Budget,
    memory: Option<u64>,
}

/// The position of the walk in the document, as far as it affects the cost.
#[derive(Clone, Copy)]
struct Depth {
    /// Bytes of the path so far.
    path: u64,
    /// Whether the library keeps faults at this position.
    kept: bool,
}

impl Depth {
    fn below(self, key: &str) -> Self {
        Self { path: self.path + key.len() as u64 + 1, ..self }
    }

    fn kept(self) -> Self {
        Self { kept: true, ..self }
    }
}

impl<'c> Cost<'c> {
    /// Pays for validating a document against a schema.
    pub(super) fn of(
        schema: &'c Value,
        patterns: &'c BTreeMap<String, Pattern>,
        document: &Value,
        budget: &'c mut Budget,
    ) -> Result<Self, Exhausted> {
        let mut cost = Self { root: schema, patterns, budget, memory: Some(MEMORY) };
        cost.apply(schema, document, Depth { path: 0, kept: false })?;
        Ok(cost)
    }

    /// Whether the memory for faults suffices.
    pub(super) fn can_report(&self) -> bool {
        self.memory.is_some()
    }

    fn apply(&mut self, schema: &Value, value: &Value, at: Depth) -> Result<(), Exhausted> {
        self.budget.spend(STEP)?;
        let Value::Object(keywords) = schema else { return self.keep(value, at, 1) };
        self.keep(value, at, keywords.len() as u64)?;
        keywords.iter().try_for_each(|(keyword, argument)| {
            self.budget.spend(STEP)?;
            self.keyword(keywords, keyword, argument, value, at)
        })
    }

    /// Deducts the memory of this many faults.
    fn keep(&mut self, value: &Value, at: Depth, faults: u64) -> Result<(), Exhausted> {
        if let (true, Some(memory)) = (at.kept, self.memory) {
            let each = ITEM + at.path + weigh(value, memory);
            self.budget.spend(each)?;
            self.memory = memory.checked_sub(each.saturating_mul(faults));
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keywords: &serde_json::Map<String, Value>,
        keyword: &str,
        argument: &Value,
        value: &Value,
        at: Depth,
    ) -> Result<(), Exhausted> {
        match (keyword, argument, value) {
            ("$ref", Value::String(path), _) => {
                self.budget.spend(path.len() as u64)?;
                target(self.root, path).map_or(Ok(()), |schema| self.apply(schema, value, at))
            }
            ("not", schema, _) => {
                // The fault contains a copy of the schema.
                self.keep(schema, at, 1)?;
                self.apply(schema, value, at)
            }
            ("if" | "then" | "else", schema, _) => self.apply(schema, value, at),
            ("allOf", Value::Array(all), _) => all.iter().try_for_each(|one| self.apply(one, value, at)),
            ("anyOf" | "oneOf", Value::Array(all), _) => {
                all.iter().try_for_each(|one| self.apply(one, value, at.kept()))
            }
            ("dependentSchemas", Value::Object(all), Value::Object(_)) => {
                all.values().try_for_each(|one| self.apply(one, value, at))
            }
            ("properties", Value::Object(all), Value::Object(entries)) => {
                all.iter().try_for_each(|(key, one)| {
                    self.budget.spend(STEP)?;
                    entries.get(key).map_or(Ok(()), |child| self.apply(one, child, at.below(key)))
                })
            }
            ("patternProperties", Value::Object(all), Value::Object(entries)) => {
                all.iter().try_for_each(|(pattern, one)| {
                    entries.iter().try_for_each(|(key, child)| {
                        self.search(pattern, key)?;
                        self.apply(one, child, at.below(key))
                    })
                })
            }
            ("additionalProperties", one, Value::Object(entries)) => {
                let named = keywords.get("properties").and_then(Value::as_object);
                let mut others =
                    entries.iter().filter(|(key, _)| named.is_none_or(|named| !named.contains_key(*key)));
                others.try_for_each(|(key, child)| self.apply(one, child, at.below(key)))
            }
            ("propertyNames", one, Value::Object(entries)) => entries.keys().try_for_each(|key| {
                self.budget.spend(key.len() as u64)?;
                self.apply(one, &Value::String(key.clone()), at.kept())
            }),
            ("items" | "contains", one, Value::Array(items)) => {
                items.iter().try_for_each(|child| self.apply(one, child, at.below("000000")))
            }
            ("prefixItems", Value::Array(all), Value::Array(items)) => {
                all.iter().zip(items).try_for_each(|(one, child)| self.apply(one, child, at.below("000000")))
            }
            ("pattern", Value::String(pattern), Value::String(text)) => self.search(pattern, text),
            ("enum" | "const", ..) => self.read(argument, 1),
            ("uniqueItems", ..) => self.read(value, PAIRS),
            ("required" | "dependentRequired", ..) => self.read(argument, 1),
            ("minLength" | "maxLength", _, Value::String(text)) => self.budget.spend(text.len() as u64),
            _ => Ok(()),
        }
    }

    fn read(&mut self, value: &Value, times: u64) -> Result<(), Exhausted> {
        self.budget.spend(weigh(value, u64::MAX / PAIRS).saturating_mul(times))
    }

    fn search(&mut self, pattern: &str, text: &str) -> Result<(), Exhausted> {
        match self.patterns.get(pattern) {
            Some(pattern) => self.budget.search(pattern, text),
            None => Ok(()),
        }
    }
}

/// The bytes of a value; counting stops at `most`.
fn weigh(value: &Value, most: u64) -> u64 {
    let all = |parts: &mut dyn Iterator<Item = (usize, &Value)>| {
        let mut weight = ITEM;
        for (key, part) in parts {
            if weight > most {
                break;
            }
            weight += key as u64 + weigh(part, most - weight);
        }
        weight
    };
    match value {
        Value::String(text) => ITEM + text.len() as u64,
        Value::Array(items) => all(&mut items.iter().map(|item| (0, item))),
        Value::Object(entries) => all(&mut entries.iter().map(|(key, item)| (key.len(), item))),
        _ => ITEM,
    }
}
