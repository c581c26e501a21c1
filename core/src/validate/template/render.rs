//! Renders the objects of a template for one instance, as a pure function of the values that its expressions
//! read.

use std::collections::{BTreeMap, BTreeSet};

use copyrator_cel::{Budget, Evaluation, EvaluationError, Key, Value as Cel, held, to_value};
use serde_json::{Map, Value};

use super::{
    CompiledObject, CompiledTemplate,
    literal::smuggled,
    manifest::{metadata_faults, nested_faults},
    node::{Formula, Node, Segment},
    visible::visible,
};

/// The budget for rendering the objects of one instance: nanoseconds of an ordinary core, and bytes that each
/// expression may allocate.
const TIME: u64 = 50_000_000;
const MEMORY: u64 = 8 << 20;
/// The largest rendered object, in bytes of its texts plus a fixed number for each value. The API server
/// accepts only smaller objects.
const LARGEST: usize = 1 << 20;
/// The bytes that are counted for each value in addition to its text.
const A_VALUE: usize = 8;

/// The input of rendering: the namespace or object that a template is rendered for, and the rendered objects
/// that exist.
#[derive(Clone, Debug, Default)]
pub struct Instance<'i> {
    /// The namespace, as an object.
    pub namespace: Option<&'i Value>,
    /// The object that the template is rendered for; `None` for a template that is rendered for namespaces.
    pub object: Option<&'i Value>,
    /// The rendered objects that exist, by id. A foreign object of the same name is left out.
    pub existing: BTreeMap<&'i str, &'i Value>,
    /// The pods of existing workloads, by the id of the workload.
    pub pods: BTreeMap<&'i str, Vec<&'i Value>>,
    /// The ids of workloads whose pods are read later. Expressions that read these pods wait.
    pub pods_later: BTreeSet<&'i str>,
    /// The reason why an object could not be read, by id.
    pub unread: BTreeMap<&'i str, &'i str>,
    /// The reason why the pods of a workload could not be read, by id.
    pub unread_pods: BTreeMap<&'i str, &'i str>,
    /// The ids of the objects whose rendering was [`Rendering::Excluded`].
    pub excluded: BTreeSet<&'i str>,
}

/// The remaining budget for rendering the objects of one instance.
pub struct RenderBudget(pub(super) Budget);

impl Default for RenderBudget {
    fn default() -> Self {
        Self(Budget::new(TIME, MEMORY))
    }
}

/// The result of rendering one object of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Rendering {
    /// The template wants this object.
    Object(Rendered),
    /// The template does not want the object: its `includeWhen` is false, or it reads an excluded object.
    Excluded,
    /// The object reads the objects of these ids, which do not exist yet or lack a status field. Until they
    /// have the field, Copyrator does not change the reading object.
    WaitingFor(BTreeSet<String>),
}

/// A rendered object, ready to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// `metadata.name`, with the expressions in the name evaluated.
    pub name: String,
    /// The rendered manifest, with apiVersion and kind, but without a namespace.
    pub body: Value,
}

/// The reason why an object cannot be rendered. The message names field and expression, and never quotes a
/// value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {}{what}", expression.as_ref().map(|source| format!("${{{source}}}: ")).unwrap_or_default())]
pub struct RenderFault {
    /// The field of the object.
    pub path: String,
    /// The faulty expression, as the user wrote it; `None` if no expression is at fault.
    pub expression: Option<String>,
    /// The fault, and the fix.
    pub what: String,
}

impl CompiledTemplate {
    /// Renders one object for an instance.
    ///
    /// # Errors
    /// The first expression that has no value or reads an unreadable object, or a further problem of the
    /// rendered object.
    pub fn render(&self, object: &CompiledObject, instance: &Instance<'_>) -> Result<Rendering, RenderFault> {
        self.render_within(object, instance, &mut RenderBudget::default())
    }

    /// Like [`Self::render`], within the remaining budget of the instance.
    ///
    /// # Errors
    /// As for [`Self::render`].
    pub fn render_within(
        &self,
        object: &CompiledObject,
        instance: &Instance<'_>,
        budget: &mut RenderBudget,
    ) -> Result<Rendering, RenderFault> {
        let all: Vec<&Formula> = object.formulas().collect();
        let mut renderer = self.renderer(&all, instance, &mut budget.0);
        if let Some(include) = &object.include {
            match self.dependency_state(&[include], instance) {
                DependencyState::Ready if !renderer.truth(include)? => return Ok(Rendering::Excluded),
                DependencyState::Ready => {}
                DependencyState::Excluded => return Ok(Rendering::Excluded),
                DependencyState::WaitingFor(ids) => return Ok(Rendering::WaitingFor(ids)),
                DependencyState::Unread(what) => return Err(unread("includeWhen", what)),
            }
        }
        match self.dependency_state(&object.body.formulas(), instance) {
            DependencyState::Ready => {}
            DependencyState::Excluded => return Ok(Rendering::Excluded),
            DependencyState::WaitingFor(ids) => return Ok(Rendering::WaitingFor(ids)),
            DependencyState::Unread(what) => return Err(unread("template", what)),
        }
        let body = renderer.node("", &object.body)?;
        let mut faults = metadata_faults(&body, false).into_iter().chain(nested_faults(&body));
        if let Some((path, what)) = faults.next() {
            return Err(RenderFault { path, expression: None, what });
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(Rendering::Object(Rendered { name, body }))
    }

    /// Renders the fields of `writeStatus`, without fields that read an excluded object or an object that
    /// does not exist yet. `None` if the template has no `writeStatus`.
    ///
    /// # Errors
    /// The first expression that has no value, or reads an unreadable object: omitting its field would remove
    /// the field from the status.
    pub fn render_status(&self, instance: &Instance<'_>) -> Result<Option<Value>, RenderFault> {
        let Some(status) = &self.status else { return Ok(None) };
        let mut budget = Budget::new(TIME, MEMORY);
        let mut renderer = self.renderer(&status.formulas(), instance, &mut budget);
        let Node::Fields(fields) = status else { return renderer.node("status", status).map(Some) };
        let mut written = Map::new();
        for (name, node) in fields {
            let path = format!("status.{name}");
            match self.dependency_state(&node.formulas(), instance) {
                DependencyState::Ready => renderer.field(&path, name, node, &mut written)?,
                DependencyState::Unread(what) => return Err(unread(&path, what)),
                DependencyState::Excluded | DependencyState::WaitingFor(_) => {}
            }
        }
        Ok(Some(written.into()))
    }

    /// Returns a renderer that evaluates these expressions for an instance. Only the variables that the
    /// expressions read are converted.
    pub(super) fn renderer<'r>(
        &'r self,
        formulas: &[&Formula],
        instance: &Instance<'_>,
        budget: &'r mut Budget,
    ) -> Renderer<'r> {
        let is_read = |variable: &str| formulas.iter().any(|formula| formula.expression.reads(variable));
        let seen = |object: &Value| to_value(visible(object)).unwrap_or(Cel::Null);
        let mut values: Vec<(&str, Cel)> = Vec::new();
        for (variable, object) in [("namespaceObject", instance.namespace), ("object", instance.object)] {
            values.extend(object.filter(|_| is_read(variable)).map(|object| (variable, seen(object))));
        }
        for CompiledObject { id, pods, .. } in &self.objects {
            if let Some(existing) = instance.existing.get(id.as_str()).filter(|_| is_read(id)) {
                values.push((id, seen(existing)));
            }
            if is_read(pods) {
                let all = instance.pods.get(id.as_str()).into_iter().flatten();
                values.push((pods, Cel::List(all.map(|pod| seen(pod)).collect::<Vec<_>>().into())));
            }
        }
        Renderer { evaluation: Evaluation::new(&self.environment, values, budget), room: LARGEST }
    }

    /// Returns whether the objects that expressions read exist and have the status fields that the
    /// expressions read.
    fn dependency_state(&self, formulas: &[&Formula], instance: &Instance<'_>) -> DependencyState {
        let read: Vec<&CompiledObject> = self
            .objects
            .iter()
            .filter(|object| formulas.iter().any(|formula| object.is_read_by(formula)))
            .collect();
        if read.iter().any(|object| instance.excluded.contains(object.id.as_str())) {
            return DependencyState::Excluded;
        }
        let reads_pods =
            |object: &CompiledObject| formulas.iter().any(|formula| formula.expression.reads(&object.pods));
        let (mut lacking, mut unread) = (BTreeSet::new(), None);
        for object in &read {
            let id = object.id.as_str();
            if let Some(why) = instance.unread.get(id) {
                unread.get_or_insert((&object.id, *why));
            } else if let Some(why) = instance.unread_pods.get(id).filter(|_| reads_pods(object)) {
                unread.get_or_insert((&object.pods, *why));
            }
            let lacks = |existing| formulas.iter().any(|formula| lacks_status(formula, id, existing));
            match instance.existing.get(id) {
                Some(existing) if !lacks(existing) => {
                    if instance.pods_later.contains(id) && reads_pods(object) {
                        lacking.insert(object.pods.clone());
                    }
                }
                _ => drop(lacking.insert(object.id.clone())),
            }
        }
        if let Some((id, why)) = unread {
            return DependencyState::Unread(format!("uses {id}, which Copyrator could not read: {why}"));
        }
        if lacking.is_empty() { DependencyState::Ready } else { DependencyState::WaitingFor(lacking) }
    }
}

/// The state of the objects that expressions read, which decides whether the expressions can be evaluated.
enum DependencyState {
    Ready,
    /// The expressions read an excluded object.
    Excluded,
    /// The expressions read the objects of these ids, which do not exist yet or lack a status field.
    WaitingFor(BTreeSet<String>),
    /// The expressions read an unreadable object; the text names that object and the reason.
    Unread(String),
}

/// Whether an expression reads a status field of this object that the object's controller has not written
/// yet. A field that is read as optional may be missing, but the status itself must exist.
fn lacks_status(formula: &Formula, id: &str, existing: &Value) -> bool {
    let mut of_status = formula
        .expression
        .paths()
        .iter()
        .filter(|path| path.variable == id && path.steps.first().is_some_and(|step| step == "status"));
    of_status.any(|path| {
        let mut at =
            existing.get("status").filter(|status| status.as_object().is_some_and(|all| !all.is_empty()));
        for step in path.steps.iter().take(path.required).skip(1) {
            at = at.and_then(|value| value.get(step));
        }
        at.is_none()
    })
}

pub(super) struct Renderer<'e> {
    evaluation: Evaluation<'e>,
    /// How many bytes the object may still grow by.
    room: usize,
}

impl<'e> Renderer<'e> {
    pub(super) fn node(&mut self, path: &str, node: &'e Node) -> Result<Value, RenderFault> {
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Whole(formula, context) => {
                let value = self.json(path, formula)?;
                match smuggled(&value, *context) {
                    None => Ok(value),
                    Some(field) => {
                        let field = field.trim_start_matches('.');
                        Err(fault(
                            path,
                            formula,
                            format!("returns {field}, which must be literal in the template"),
                        ))
                    }
                }
            }
            Node::Text(segments) => {
                let mut text = String::new();
                for segment in segments {
                    match segment {
                        Segment::Literal(literal) => text.push_str(literal),
                        Segment::Expression(formula) => match self.json(path, formula)? {
                            Value::String(part) => text.push_str(&part),
                            Value::Number(part) => text.push_str(&part.to_string()),
                            Value::Bool(part) => text.push_str(if part { "true" } else { "false" }),
                            _ => {
                                let what =
                                    "within a string, the expression must return a string, number or boolean";
                                return Err(fault(path, formula, what));
                            }
                        },
                    }
                }
                Ok(text.into())
            }
            Node::Fields(fields) => {
                let mut object = Map::new();
                for (name, node) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.field(&path, name, node, &mut object)?;
                }
                Ok(object.into())
            }
            Node::Items(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, node)| self.node(&format!("{path}[{index}]"), node)).collect()
            }
        }
    }

    /// Renders a field. A field whose expression gives null, or an empty optional, is left out: server-side
    /// apply would treat null as a wish to own the field.
    fn field(
        &mut self,
        path: &str,
        name: &str,
        node: &'e Node,
        object: &mut Map<String, Value>,
    ) -> Result<(), RenderFault> {
        let value = self.node(path, node)?;
        if !value.is_null() || node.is_literal() {
            object.insert(name.to_owned(), value);
        }
        Ok(())
    }

    pub(super) fn truth(&mut self, formula: &'e Formula) -> Result<bool, RenderFault> {
        match self.json("includeWhen", formula)? {
            Value::Bool(truth) => Ok(truth),
            _ => Err(fault("includeWhen", formula, "must return true or false")),
        }
    }

    fn json(&mut self, path: &str, formula: &'e Formula) -> Result<Value, RenderFault> {
        let value = self.evaluation.run(&formula.expression).map_err(|error| match error {
            EvaluationError::Failed(reason) => fault(path, formula, reason),
            EvaluationError::TooCostly => {
                fault(path, formula, "is too expensive; read less data, or simplify the expression")
            }
        })?;
        json(&value, &mut self.room).map_err(|what| fault(path, formula, what))
    }
}

fn fault(path: &str, formula: &Formula, what: impl Into<String>) -> RenderFault {
    RenderFault { path: path.to_owned(), expression: Some(formula.source.to_string()), what: what.into() }
}

fn unread(path: &str, what: String) -> RenderFault {
    RenderFault { path: path.to_owned(), expression: None, what }
}

/// Converts the value of an expression to JSON, or returns the reason why that is impossible. CEL values
/// share parts that JSON repeats, so the size of each part is deducted from `room` before the conversion.
fn json(value: &Cel, room: &mut usize) -> Result<Value, &'static str> {
    take(room, A_VALUE + if let Cel::String(text) = value { text.len() } else { 0 })?;
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(truth) => (*truth).into(),
        Cel::Int(number) => (*number).into(),
        Cel::UInt(number) => (*number).into(),
        Cel::Float(number) => float(*number).ok_or("returns a number that is not finite")?,
        Cel::String(text) => text.as_str().into(),
        Cel::List(items) => items.iter().map(|item| json(item, room)).collect::<Result<_, _>>()?,
        Cel::Map(map) => {
            let mut entries = Map::new();
            for (key, value) in map.map.iter() {
                let Key::String(name) = key else { return Err("returns a map whose keys are not strings") };
                take(room, name.len())?;
                entries.insert(name.to_string(), json(value, room)?);
            }
            Value::Object(entries)
        }
        other => match held(other) {
            Some(inner) => inner.map_or(Ok(Value::Null), |inner| json(inner, room))?,
            None => return Err("returns a value that JSON does not support; convert it with string(…)"),
        },
    })
}

fn take(room: &mut usize, bytes: usize) -> Result<(), &'static str> {
    *room = room.checked_sub(bytes).ok_or("makes the object larger than 1 MiB")?;
    Ok(())
}

/// Converts a whole number to an integer: integer fields accept no fraction, not even `.0`.
fn float(number: f64) -> Option<Value> {
    /// The largest number up to which a float represents each whole number exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
        return Some((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

#[cfg(test)]
mod tests;
