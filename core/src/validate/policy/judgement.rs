//! The judgement of one version of an object. All policies share the budget and the cached results of the
//! judgement.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use copyrator_cel::{EvaluationError, Key, Map, Value, to_value};
use jiff::Timestamp;

use super::{Budget, Candidate, fault::Fault, format};
use crate::{api::Format, decoded::Decoded};

/// One version of an object, with the budget and the cached results of judging it.
pub struct Judgement<'o> {
    pub(super) object: &'o Candidate<'o>,
    /// The time of judgement, for the expiry of certificates.
    pub(super) now: Timestamp,
    pub(super) budget: Budget,
    /// Cached results of parsing values: values can be long, and many policies check the same format.
    read: BTreeMap<(Format, &'o str), Result<(), Fault>>,
    as_object: Option<Value>,
    as_text: Option<Value>,
    /// Cached results of expressions, by text. The old version never changes during a judgement, so the text
    /// suffices as the key.
    pub(super) evaluated: BTreeMap<Arc<str>, Outcome>,
}

impl<'o> Judgement<'o> {
    /// Creates a judgement with the whole budget.
    pub fn new(object: &'o Candidate<'o>, now: Timestamp) -> Self {
        Self::within(Budget::default(), object, now)
    }

    /// Creates a judgement with a brief budget, while other requests wait. If the judgement [falls
    /// short](Judgement::fell_short), the caller discards the results.
    pub fn brief(object: &'o Candidate<'o>, now: Timestamp) -> Self {
        Self::within(Budget::brief(), object, now)
    }

    fn within(budget: Budget, object: &'o Candidate<'o>, now: Timestamp) -> Self {
        Self {
            object,
            now,
            budget,
            read: BTreeMap::new(),
            as_object: None,
            as_text: None,
            evaluated: BTreeMap::new(),
        }
    }

    /// Whether the budget was exceeded.
    pub fn fell_short(&self) -> bool {
        self.budget.fell_short()
    }

    /// Whether the value of a key has this format.
    pub(super) fn is_of(&mut self, format: Format, key: &'o str, value: &[u8]) -> Result<(), Fault> {
        if let Some(known) = self.read.get(&(format, key)) {
            return known.clone();
        }
        let found = format::check(format, value, &mut self.budget);
        self.read.insert((format, key), found.clone());
        found
    }

    /// Returns the whole object as a CEL value; `None` for an object that cannot be read, which must not look
    /// like an object without fields. Deep `managedFields`, which any user may write, are omitted.
    pub(super) fn as_object(&mut self) -> Option<Value> {
        if self.as_object.is_none() {
            let decoded = serde_json::from_str::<Decoded<serde_json::Value>>(self.object.raw).ok();
            self.as_object = decoded.and_then(|decoded| to_value(decoded.read().ok()?).ok());
        }
        self.as_object.clone()
    }

    /// Returns the decoded data of these keys as a CEL value. `None` means all keys.
    pub(super) fn as_text(&mut self, keys: Option<Vec<&str>>) -> Value {
        let data = &self.object.data;
        match (keys, &self.as_text) {
            (_, Some(whole)) => whole.clone(),
            (Some(keys), None) => texts(keys.into_iter().filter_map(|key| Some((key, &**data.get(key)?)))),
            (None, None) => {
                self.as_text.insert(texts(data.iter().map(|(key, value)| (&**key, &**value)))).clone()
            }
        }
    }
}

/// Converts entries of the data to a CEL map: strings, or bytes if a value is not UTF-8.
fn texts<'d>(entries: impl Iterator<Item = (&'d str, &'d [u8])>) -> Value {
    let entries = entries.map(|(key, value)| {
        let value = match std::str::from_utf8(value) {
            Ok(text) => Value::from(text.to_owned()),
            Err(_) => Value::Bytes(Arc::new(value.to_vec())),
        };
        (Key::from(key), value)
    });
    Value::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
}

/// The result of an expression, shared by all policies that contain the expression.
pub(super) enum Outcome {
    Holds,
    Fails,
    NoBoolean,
    Unevaluated(String),
    TooCostly,
}

impl From<Result<Value, EvaluationError>> for Outcome {
    fn from(result: Result<Value, EvaluationError>) -> Self {
        match result {
            Ok(Value::Bool(true)) => Self::Holds,
            Ok(Value::Bool(false)) => Self::Fails,
            Ok(_) => Self::NoBoolean,
            Err(EvaluationError::Failed(reason)) => Self::Unevaluated(reason),
            Err(EvaluationError::TooCostly) => Self::TooCostly,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        api::{ConfigPolicySpec, PolicyKind},
        validate::{Candidate, CompiledPolicy, Judgement, Write, policy::budget::TIME},
    };

    /// The cost of judging a value.
    fn spent(demand: &Value, value: &str) -> u64 {
        let mut spec = demand.clone();
        spec["match"] = json!({"kinds": ["ConfigMap"]});
        let spec: ConfigPolicySpec = serde_json::from_value(spec).unwrap();
        let policy = CompiledPolicy::compile(&spec).unwrap();
        let raw = json!({"metadata": {"name": "a"}, "data": {"a": value}}).to_string();
        let new = Candidate::decode(PolicyKind::ConfigMap, &raw).unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut write = Write { new: Judgement::new(&new, now), old: None, request: None };
        assert_eq!(policy.judge_write(&mut write, false), [], "{demand}: it is not cut short");
        TIME - write.new.budget.time()
    }

    #[test]
    fn twice_as_many_lines_take_twice_as_much() {
        let cel = |expression: &str| json!({"validations": [{"expression": expression}]});
        let held = |format: &str| {
            let item = json!({"type": "object", "properties": {"a": {"pattern": "^[a-z]+$"}}, "additionalProperties": false});
            json!({"data": [{"name": "s", "keys": ["a"], "format": format, "schema": {"items": item}}]})
        };
        for (demand, line) in [
            (
                cel("text.a.split('\\n').all(line, line == '' || line.matches('^[a-z]+: [0-9]+$'))"),
                "key: 42\n",
            ),
            (
                cel(
                    "text.a.split('\\n').filter(line, line.startsWith('k')).map(line, line.size()).size() > 9",
                ),
                "key: 42\n",
            ),
            (held("yaml"), "- a: word\n"),
            (held("yaml"), "- {a: word}\n"),
        ] {
            let [once, twice] = [500, 1_000].map(|lines| spent(&demand, &line.repeat(lines)));
            assert!(
                twice > once * 3 / 2,
                "{demand}: {once} for 500 lines, {twice} for 1000: they are not counted"
            );
            assert!(twice < once * 21 / 10, "{demand}: {once} for 500 lines, {twice} for 1000");
        }
    }
}
