//! JSON Schema (2020-12) for documents. A library compiles and evaluates schemas; `shape` limits the contents
//! of a schema, `cost` limits the cost of an evaluation.

mod cost;
mod shape;

use std::{fmt, sync::Arc};

use copyrator_cel::Pattern;
use jsonschema::{
    Draft, PatternOptions, ValidationError, Validator,
    error::ValidationErrorKind,
    paths::{Location, LocationSegment},
};
use serde_json::Value;

use self::{cost::Cost, shape::Shape};
use super::{
    Budget,
    fault::Fault,
    format::{
        self,
        document::{self, Document},
    },
    printable,
};
use crate::{
    api::{Format, Problem},
    validate::invalid,
};

/// The longest schema, in bytes of its JSON.
const LONGEST: usize = 64 << 10;
/// How many bytes of a schema a message quotes.
const QUOTED: usize = 120;

/// A compiled schema; cheap to clone.
#[derive(Clone)]
pub(super) struct Schema(Arc<Understood>);

struct Understood {
    written: Value,
    shape: Shape,
    validator: Validator,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    /// Compiles a schema, or reports its problem at `field`.
    pub(super) fn compile(field: &str, schema: &Value, problems: &mut Vec<Problem>) -> Option<Self> {
        let understood = understand(schema).map_err(|message| problems.push(invalid(field, message)));
        understood.ok().map(|understood| Self(Arc::new(understood)))
    }

    /// Accepts a value whose documents all satisfy the schema.
    pub(super) fn check(&self, format: Format, value: &[u8], budget: &mut Budget) -> Result<(), Fault> {
        budget.spend_if_brief(format::reading(format, value)).map_err(|_| format::too_long())?;
        // `Data::compile` accepts a schema only with one of these formats.
        let Some(format) = Document::of(format) else { return Ok(()) };
        let documents = document::read(format, format::text(value)?)?;
        let many = documents.len() > 1;
        for (index, document) in documents.iter().enumerate() {
            self.judge(document, budget).map_err(|fault| match many {
                true => Fault { what: format!("in document {}, {}", index + 1, fault.what).into(), ..fault },
                false => fault,
            })?;
        }
        Ok(())
    }

    fn judge(&self, document: &Value, budget: &mut Budget) -> Result<(), Fault> {
        let Understood { written, shape, validator } = &*self.0;
        let cost = Cost::of(written, &shape.patterns, document, budget).map_err(|_| {
            Fault::new(
                "is too expensive to check against the schema",
                "shorten the document, or simplify the policy's schema",
            )
        })?;
        if validator.is_valid(document) {
            return Ok(());
        }
        let fault = match cost.can_report() {
            true => validator.validate(document).err().map(|error| self.fault(&error)),
            false => None,
        };
        Err(fault.unwrap_or_else(|| {
            Fault::new(
                "does not satisfy the schema; the document is too large to locate the error",
                "split the document",
            )
        }))
    }

    /// Returns a fault with position and keyword. The fault quotes the schema, never the document.
    fn fault(&self, error: &ValidationError<'_>) -> Fault {
        let place = self.pointer(error.instance_path());
        let keyword = error.kind().keyword();
        let fix = match error.kind() {
            ValidationErrorKind::Required { property } => format!("add the key {property}"),
            ValidationErrorKind::AdditionalProperties { .. } => {
                "remove the keys that the schema does not allow".to_owned()
            }
            ValidationErrorKind::FalseSchema => "remove it".to_owned(),
            ValidationErrorKind::AnyOf { .. } => "write one of the schema's alternatives".to_owned(),
            ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::OneOfMultipleValid { .. } => {
                "write exactly one of the schema's alternatives".to_owned()
            }
            _ => match self.0.written.pointer(error.schema_path().as_str()) {
                Some(asked) => {
                    format!("the schema requires {keyword}: {}", printable(asked.to_string(), QUOTED))
                }
                None => format!("write a value that satisfies the schema's {keyword}"),
            },
        };
        Fault::new(format!("does not satisfy the schema at {place} ({keyword})"), fix)
    }

    /// Returns a path in a document, with the keys that the schema names. Other keys belong to the writer of
    /// the document, and become `*`.
    fn pointer(&self, path: &Location) -> String {
        let steps = path.into_iter().map(|step| match step {
            LocationSegment::Index(index) => format!("/{index}"),
            LocationSegment::Property(key) if self.0.shape.names.contains(&*key) => format!("/{key}"),
            LocationSegment::Property(_) => "/*".to_owned(),
        });
        let told: String = steps.collect();
        if told.is_empty() { "the top".into() } else { printable(&told, QUOTED) }
    }
}

fn understand(schema: &Value) -> Result<Understood, String> {
    let length = schema.to_string().len();
    if length > LONGEST {
        return Err(format!("is {length} bytes long, more than {LONGEST}; split the policy"));
    }
    let shape = Shape::of(schema)?;
    let options = jsonschema::options().with_draft(Draft::Draft202012).offline().with_pattern_options(
        PatternOptions::regex().size_limit(Pattern::HEAVIEST).dfa_size_limit(Pattern::HEAVIEST),
    );
    let validator = options.build(schema).map_err(|error| {
        let (at, what) = (error.instance_path().to_string(), error.to_string());
        format!("is not a JSON Schema at {:?}: {}", at, printable(&what, 2 * QUOTED))
    })?;
    Ok(Understood { written: schema.clone(), shape, validator })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: &Value) -> Result<Schema, String> {
        let mut problems = Vec::new();
        let schema = Schema::compile("f", schema, &mut problems);
        schema.ok_or_else(|| problems.pop().unwrap().message)
    }

    fn fault(schema: &Value, format: Format, text: &str) -> Option<String> {
        let schema = compiled(schema).unwrap();
        let judged = schema.check(format, text.as_bytes(), &mut Budget::default());
        judged.err().map(|fault| format!("{}; {}", fault.what, fault.fix))
    }

    #[test]
    fn documents_of_each_format_are_held_against_it() {
        let schema = json!({
            "type": "object", "required": ["port"], "additionalProperties": false,
            "properties": {"port": {"$ref": "#/$defs/port"}, "hosts": {"type": "array", "items": {"type": "string"}}},
            "$defs": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}}
        });
        for (format, good, bad, says) in [
            (
                Format::Json,
                r#"{"port":80}"#,
                r#"{"port":0}"#,
                "at /port (minimum); the schema requires minimum: 1",
            ),
            (
                Format::Yaml,
                "port: 80\nhosts: [a]",
                "port: 80\nhosts: [a, 5]",
                "at /hosts/1 (type); the schema requires type: \"string\"",
            ),
            (
                Format::Yaml,
                "port: 1\n---\nport: 2",
                "port: 1\n---\nports: 2",
                "in document 2, does not satisfy the schema at the top (",
            ),
            (
                Format::Toml,
                "port = 80\nhosts = ['a']",
                "hosts = []",
                "at the top (required); add the key \"port\"",
            ),
            (
                Format::Toml,
                "port = 0x50",
                "port = 80\n[other]",
                "at the top (additionalProperties); remove the keys",
            ),
            (Format::Yaml, "port: 5", "", "at the top (type)"),
            (Format::Json, r#"{"port":1}"#, r#"{"port":1,"port":2}"#, "has a duplicate key"),
            (Format::Yaml, "port: 1", "port: yes", "at /port (type)"),
        ] {
            assert_eq!(fault(&schema, format, good), None, "{good}");
            let found = fault(&schema, format, bad).unwrap_or_else(|| panic!("{bad} passes"));
            assert!(found.contains(says), "{bad}: {found}");
        }
    }

    #[test]
    fn neither_values_nor_the_writers_own_keys_are_told() {
        for (schema, text) in [
            (json!({"additionalProperties": {"type": "integer"}}), r#"{"s3cret": "s3cret"}"#),
            (json!({"propertyNames": {"maxLength": 2}}), r#"{"s3cret": 1}"#),
            (json!({"additionalProperties": {"items": {"type": "null"}}}), r#"{"s3cret": [1]}"#),
            (json!({"additionalProperties": false}), r#"{"s3cret": 1}"#),
            (json!({"properties": {"a": {"const": 5}}}), r#"{"a": "s3cret"}"#),
            (json!({"properties": {"a": {"pattern": "^x"}}}), r#"{"a": "s3cret"}"#),
            (json!({"patternProperties": {"^s": {"not": {}}}}), r#"{"s3cret": "s3cret"}"#),
            (json!({"anyOf": [{"type": "integer"}, {"enum": ["a"]}]}), r#""s3cret""#),
            (json!({"oneOf": [true, true]}), r#""s3cret""#),
            (json!({"uniqueItems": true}), r#"["s3cret", "s3cret"]"#),
            (json!({"dependentRequired": {"s": ["t"]}}), r#"{"s": "s3cret"}"#),
        ] {
            let found = fault(&schema, Format::Json, text).unwrap_or_else(|| panic!("{schema} takes {text}"));
            assert!(!found.contains("s3cret"), "{found}");
        }
    }

    #[test]
    fn what_cannot_be_bounded_is_refused_when_written() {
        let doubled = |n: usize| {
            let mut defs = serde_json::Map::new();
            for level in 0..n {
                let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
                defs.insert(format!("a{level}"), json!({"allOf": [next, next]}));
            }
            defs.insert(format!("a{n}"), json!({"type": "string"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs})
        };
        let chain = |n: usize| {
            let mut defs = serde_json::Map::new();
            (0..n).for_each(|at| {
                drop(defs.insert(format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at + 1)})))
            });
            json!({"$ref": "#/$defs/a0", "$defs": defs})
        };
        let nested = |n: usize| (0..n).fold(json!({}), |inner, _| json!({"items": inner}));
        for (schema, says) in [
            (json!({"$ref": "https://example.com/schema.json"}), "points outside the schema"),
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "points outside the schema"),
            (json!({"$ref": "other.json#/a"}), "points outside the schema"),
            (json!({"$ref": "#/$defs/none"}), "has no target"),
            (json!({"$ref": "#anchor"}), "points outside the schema"),
            (json!({"$id": "https://example.com/a", "$ref": "#/a"}), "$id is not supported"),
            (json!({"$defs": {"a": {"$id": "http://10.0.0.1/"}}}), "$id is not supported"),
            (json!({"$dynamicRef": "#a"}), "$dynamicRef is not supported"),
            (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "$schema"),
            (json!({"allOf": [{"unevaluatedProperties": false}]}), "unevaluatedProperties is not supported"),
            (json!({"$ref": "#"}), "are circular"),
            (json!({"properties": {"a": {"$ref": "#"}}}), "are circular"),
            (
                json!({"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"items": {"$ref": "#/$defs/a"}}}}),
                "are circular",
            ),
            (chain(2_000), "are circular"),
            (nested(100), "are circular"),
            (doubled(20), "more than 10000"),
            (json!({"enum": (0..20_000).collect::<Vec<_>>(), "title": "x".repeat(1 << 16)}), "bytes long"),
            (json!({"pattern": "(?=x)"}), "not a regular expression"),
            (json!({"patternProperties": {"(a)\\1": {}}}), "not a regular expression"),
            (json!({"pattern": "((a{1000}){1000}){1000}"}), "too large"),
            (json!({"type": "text"}), "is not a JSON Schema"),
            (json!({"properties": []}), "is not a JSON Schema"),
            (json!({"minimum": "1"}), "is not a JSON Schema"),
        ] {
            let message = compiled(&schema).err().unwrap_or_else(|| panic!("taken: {schema:.200}"));
            assert!(message.contains(says), "{says}: {message}");
        }
        assert!(compiled(&doubled(8)).is_ok() && compiled(&chain(0)).is_err());
        assert!(compiled(&json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})).is_ok());
        assert!(compiled(&json!({"properties": {"$id": {"type": "string"}}})).is_ok());
    }

    /// Each of these schemas is short, and would take seconds or gigabytes to evaluate completely.
    #[test]
    fn bombs_of_schema_and_document_are_refused_before_they_go_off() {
        let ones = format!("[{}1]", "1,".repeat(200_000));
        let texts = format!("[{}\"\"]", "\"aaaaaaaa\",".repeat(50_000));
        let maps = format!("[{}{{}}]", "{\"\":1},".repeat(100_000));
        let long_key = format!("{{\"{}\":{ones}}}", "k".repeat(300_000));
        let many = |schema: Value| vec![schema; 500];
        let numbers: Vec<_> = (0..5_000).map(|number| json!({ "a": number })).collect();
        for (schema, document, says) in [
            (json!({"items": {"allOf": many(json!({"type": "integer"}))}}), &ones, "too expensive"),
            (json!({"items": {"enum": numbers}}), &ones, "too expensive"),
            (json!({"items": {"pattern": "(a|b)*a(a|b){500}c"}}), &texts, "too expensive"),
            (json!({"type": "array"}), &maps, "is too large to check"),
            (json!({"anyOf": many(json!({"maxItems": 5}))}), &ones, "too large to locate the error"),
            (
                json!({"oneOf": [{"items": {"type": "string"}}, false]}),
                &ones,
                "too large to locate the error",
            ),
            (
                json!({"anyOf": [{"additionalProperties": {"items": {"type": "string"}}}]}),
                &long_key,
                "too large to locate the error",
            ),
        ] {
            let found = fault(&schema, Format::Json, document);
            assert!(found.as_ref().is_some_and(|found| found.contains(says)), "{says}: {found:?}");
        }
        // The budget suffices for each single document, but not for all together.
        let each = format!("[{}1]\n", "{a: 1}, ".repeat(13_000));
        for (many, passes) in [(1, true), (3, false)] {
            let found = fault(&json!({}), Format::Yaml, &vec![each.clone(); many].join("---\n"));
            assert_eq!(found.is_none(), passes, "{many}: {found:?}");
            assert!(passes || found.as_ref().unwrap().contains("is too large to check"), "{found:?}");
        }
        // A long document without other problems is judged.
        assert_eq!(fault(&json!({"items": {"type": "integer"}}), Format::Json, &ones), None);
        let found = fault(&json!({"items": {"type": "string"}}), Format::Json, &ones).unwrap();
        assert!(found.contains("at /0 (type)"), "{found}");
    }
}
