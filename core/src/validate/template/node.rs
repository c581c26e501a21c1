//! Compiled values of a manifest: literals and expressions.

use std::{collections::BTreeSet, sync::Arc};

use copyrator_cel::{CompileError, Environment, Expression, Path};
use serde_json::Value;

use super::{
    literal::FieldContext,
    text::{Piece, split},
};
use crate::{api::Problem, validate::invalid};

/// A value of a manifest, with its expressions compiled.
#[derive(Debug)]
pub(super) enum Node {
    /// A value without expressions.
    Literal(Value),
    /// A value that is the result of one expression.
    Whole(Formula, FieldContext),
    /// A text with expressions in it.
    Text(Vec<Segment>),
    /// The fields of an object, each with its value, in order.
    Fields(Vec<(String, Node)>),
    /// Items of a list.
    Items(Vec<Node>),
}

/// A part of a text.
#[derive(Debug)]
pub(super) enum Segment {
    Literal(String),
    Expression(Formula),
}

/// A compiled expression, and its source text.
#[derive(Debug)]
pub(super) struct Formula {
    pub(super) source: Arc<str>,
    pub(super) expression: Expression,
}

impl Formula {
    /// Whether the expression reads the annotations of the namespace.
    pub(super) fn reads_annotations(&self) -> bool {
        self.expression.paths().iter().any(|path| {
            path.variable == "namespaceObject"
                && path.steps.iter().zip(["metadata", "annotations"]).all(|(step, of)| step == of)
        })
    }

    /// Whether the expression reads more of the namespace than the name, such as labels.
    pub(super) fn reads_namespace(&self) -> bool {
        let is_name = |path: &Path| path.steps.len() >= 2 && path.steps[..2] == ["metadata", "name"];
        self.expression.paths().iter().any(|path| path.variable == "namespaceObject" && !is_name(path))
    }

    /// Returns the paths that the expression reads of the object that the template is rendered for.
    pub(super) fn reads_object(&self) -> impl Iterator<Item = Vec<String>> {
        let paths = self.expression.paths().iter();
        paths.filter(|path| path.variable == "object").map(|path| path.steps.clone())
    }

    /// Returns the status fields that the expression reads of the object that the template is rendered for.
    pub(super) fn reads_status(&self) -> impl Iterator<Item = &str> {
        let paths = self.expression.paths().iter().filter(|path| path.variable == "object");
        let of_status = paths.filter(|path| path.steps.first().is_some_and(|step| step == "status"));
        of_status.filter_map(|path| path.steps.get(1)).map(String::as_str)
    }
}

/// The maximum number of expressions in a template: each write of the template compiles all expressions.
const MOST_EXPRESSIONS: usize = 1024;
/// The problem of an expression in a field that [`super::literal`] restricts.
pub(super) const MUST_BE_LITERAL: &str = "must be literal: with an expression, other users could choose the value with the rights of the template's author";

/// Compiles the values of one template.
pub(super) struct Compiler<'c> {
    environment: &'c Environment,
    pub(super) problems: &'c mut Vec<Problem>,
    expressions: usize,
}

/// Returns the path of a field below `at`; an empty `at` is the manifest itself.
pub(super) fn below(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

impl<'c> Compiler<'c> {
    /// Creates a compiler for these variables, which adds to `problems`.
    pub(super) fn new(environment: &'c Environment, problems: &'c mut Vec<Problem>) -> Self {
        Self { environment, problems, expressions: 0 }
    }

    /// Compiles an object; `at` is the object's field.
    pub(super) fn object(&mut self, at: &str, object: &Value) -> Node {
        self.node(at, object, FieldContext::of_object(object))
    }

    /// Compiles an expression that must be true or false, written without `${}`.
    pub(super) fn condition(&mut self, at: &str, source: &str) -> Option<Formula> {
        if source.trim_start().starts_with("${") {
            self.problems.push(invalid(at, "is an expression: write it without ${ and }"));
            return None;
        }
        let expression = self.environment.compile(source);
        let expression = expression.map_err(|error| self.problems.push(invalid(at, error))).ok()?;
        Some(Formula { source: source.trim().into(), expression })
    }

    /// Compiles a value; `at` is the value's field.
    pub(super) fn node(&mut self, at: &str, value: &Value, context: FieldContext) -> Node {
        match value {
            Value::String(text) => self.text(at, text, context),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let at = below(at, name);
                    if name.contains("${") {
                        self.problems.push(invalid(
                            &at,
                            "is a key with an expression, but keys must be literal; build the whole map with one expression",
                        ));
                    }
                    let node = self.node(&at, value, context.field(name));
                    if context.is_literal(name) && !node.is_literal() {
                        self.problems.push(invalid(&at, MUST_BE_LITERAL));
                    }
                    (name.clone(), node)
                });
                let fields: Vec<(String, Node)> = fields.collect();
                match fields.iter().all(|(_, node)| node.is_literal()) {
                    true => Node::Literal(
                        fields.into_iter().map(|(name, node)| (name, node.into_literal())).collect(),
                    ),
                    false => Node::Fields(fields),
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let items: Vec<Node> = items
                    .map(|(index, item)| self.node(&format!("{at}[{index}]"), item, context.item()))
                    .collect();
                match items.iter().all(Node::is_literal) {
                    true => Node::Literal(items.into_iter().map(Node::into_literal).collect()),
                    false => Node::Items(items),
                }
            }
            other => Node::Literal(other.clone()),
        }
    }

    fn text(&mut self, at: &str, text: &str, context: FieldContext) -> Node {
        let pieces = match split(text) {
            Ok(pieces) => pieces,
            Err(error) => {
                self.problems.push(invalid(at, error));
                return Node::Literal(Value::Null);
            }
        };
        match pieces.as_slice() {
            [] => Node::Literal(String::new().into()),
            [Piece::Literal(text)] => Node::Literal(text.as_str().into()),
            [Piece::Expression(source)] => match self.formula(at, source) {
                Some(formula) => Node::Whole(formula, context),
                None => Node::Literal(Value::Null),
            },
            pieces => {
                let segments = pieces.iter().filter_map(|piece| match piece {
                    Piece::Literal(text) => Some(Segment::Literal(text.clone())),
                    Piece::Expression(source) => self.formula(at, source).map(Segment::Expression),
                });
                Node::Text(segments.collect())
            }
        }
    }

    fn formula(&mut self, at: &str, source: &str) -> Option<Formula> {
        self.expressions += 1;
        if self.expressions > MOST_EXPRESSIONS {
            if self.expressions == MOST_EXPRESSIONS + 1 {
                let what = format!("exceeds the maximum of {MOST_EXPRESSIONS} expressions");
                self.problems.push(invalid(at, what));
            }
            return None;
        }
        match self.environment.compile_value(source) {
            Ok(expression) => Some(Formula { source: source.trim().into(), expression }),
            Err(error) => {
                let hint = match error {
                    CompileError::UnknownVariable { .. } | CompileError::Syntax(_) => {
                        "; write $${ for a literal ${"
                    }
                    _ => "",
                };
                self.problems.push(invalid(at, format!("${{{source}}}: {error}{hint}")));
                None
            }
        }
    }
}

impl Node {
    /// Whether the value has no expression.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn into_literal(self) -> Value {
        match self {
            Self::Literal(value) => value,
            _ => Value::Null,
        }
    }

    /// Returns every expression in the value, at any depth.
    pub(super) fn formulas(&self) -> Vec<&Formula> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Whole(formula, _) => vec![formula],
            Self::Text(segments) => segments
                .iter()
                .filter_map(|segment| match segment {
                    Segment::Literal(_) => None,
                    Segment::Expression(formula) => Some(formula),
                })
                .collect(),
            Self::Fields(fields) => fields.iter().flat_map(|(_, node)| node.formulas()).collect(),
            Self::Items(items) => items.iter().flat_map(Self::formulas).collect(),
        }
    }

    /// Returns the paths that the value's expressions read.
    pub(super) fn paths(&self) -> BTreeSet<&Path> {
        self.formulas().into_iter().flat_map(|formula| formula.expression.paths()).collect()
    }
}
