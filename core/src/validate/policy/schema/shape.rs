//! Limits on JSON Schemas: no remote references, no cycles, and no keywords of unbounded cost.

use std::collections::{BTreeMap, BTreeSet};

use copyrator_cel::Pattern;
use serde_json::Value;

/// How deep schemas may nest, including through `$ref`.
const DEEPEST: usize = 64;
/// The maximum number of schemas, including the schemas behind each `$ref`.
const MOST: usize = 10_000;

/// The keywords that are refused, and why.
const REFUSED: [(&str, &str); 9] = [
    ("$id", "schemas cannot have identifiers: write $ref as #/$defs/NAME"),
    ("$anchor", "write $ref as #/$defs/NAME"),
    ("$dynamicAnchor", "write $ref as #/$defs/NAME"),
    ("$dynamicRef", "write $ref as #/$defs/NAME"),
    ("$recursiveAnchor", "write $ref as #/$defs/NAME"),
    ("$recursiveRef", "write $ref as #/$defs/NAME"),
    ("$vocabulary", "drop it"),
    ("unevaluatedItems", "its cost is unlimited: use items"),
    ("unevaluatedProperties", "its cost is unlimited: use additionalProperties"),
];
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Facts about a schema that was accepted.
#[derive(Default)]
pub(super) struct Shape {
    /// The schema's regular expressions, compiled to compute their cost.
    pub(super) patterns: BTreeMap<String, Pattern>,
    /// The keys of documents that the schema names.
    pub(super) names: BTreeSet<String>,
    schemas: usize,
}

impl Shape {
    /// Inspects a schema, or returns the reason for its refusal.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut shape = Self::default();
        if let Some(dialect) = schema.get("$schema")
            && dialect.as_str().map(|text| text.trim_end_matches('#')) != Some(DIALECT)
        {
            return Err(format!("$schema is {dialect}; only {DIALECT} is supported"));
        }
        shape.visit(schema, schema, 0)?;
        Ok(shape)
    }

    fn visit(&mut self, root: &Value, schema: &Value, depth: usize) -> Result<(), String> {
        self.schemas += 1;
        if depth > DEEPEST {
            return Err(format!(
                "nests more than {DEEPEST} deep, or its $refs are circular; remove the nesting or the circle"
            ));
        }
        if self.schemas > MOST {
            return Err(format!(
                "expands to more than {MOST} schemas, with each $ref replaced by its target"
            ));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        if let Some((keyword, why)) = REFUSED.iter().find(|(keyword, _)| keywords.contains_key(*keyword)) {
            return Err(format!("{keyword} is not supported; {why}"));
        }
        for (keyword, argument) in keywords {
            match (keyword.as_str(), argument) {
                ("$ref", Value::String(path)) => self.visit(root, target(root, path)?, depth + 1)?,
                ("pattern", Value::String(pattern)) => self.pattern(pattern)?,
                ("patternProperties", Value::Object(map)) => {
                    map.keys().try_for_each(|pattern| self.pattern(pattern))?;
                }
                ("properties", Value::Object(map)) => {
                    self.names.extend(map.keys().cloned());
                }
                _ => {}
            }
            for part in parts(keyword, argument) {
                self.visit(root, part, depth + 1)?;
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        if self.patterns.contains_key(pattern) {
            return Ok(());
        }
        let compiled = Pattern::new(pattern).map_err(|error| format!("pattern {pattern:?} {error}"))?;
        self.patterns.insert(pattern.to_owned(), compiled);
        Ok(())
    }
}

/// The schemas in a keyword's argument.
fn parts<'s>(keyword: &str, argument: &'s Value) -> Vec<&'s Value> {
    match (keyword, argument) {
        (
            "not" | "if" | "then" | "else" | "items" | "contains" | "additionalProperties" | "propertyNames",
            one,
        ) => {
            vec![one]
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => all.iter().collect(),
        ("properties" | "patternProperties" | "dependentSchemas" | "$defs", Value::Object(all)) => {
            all.values().collect()
        }
        _ => Vec::new(),
    }
}

/// The schema that a `$ref` leads to.
pub(super) fn target<'s>(root: &'s Value, path: &str) -> Result<&'s Value, String> {
    let pointer = path.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let pointer = pointer.filter(|rest| !rest.contains('%'));
    let pointer =
        pointer.ok_or_else(|| format!("$ref {path:?} points outside the schema; write #/$defs/NAME"))?;
    root.pointer(pointer).ok_or_else(|| format!("$ref {path:?} has no target"))
}
