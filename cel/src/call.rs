//! Calls of operators and functions during an evaluation. The budget pays for each call in advance.

use std::sync::Arc;

use kube_cel::cel::{
    ExecutionError, Value,
    common::ast::{CallExpr, Expr, IdedExpr, operators},
    objects::KeyRef,
};

use crate::{
    pattern::{Pattern, PatternError},
    run::{Evaluation, Fault},
    standard,
};

/// Size of the cache of compiled regular expressions.
const MOST_PATTERNS: usize = 4;

impl Evaluation<'_> {
    /// Calls a function, or an operator that always evaluates both operands. A function may belong to a
    /// library; the target of a method is the first value.
    pub(crate) fn apply(
        &mut self,
        name: &str,
        library: Option<&str>,
        is_method: bool,
        values: Vec<Value>,
    ) -> Result<Value, Fault> {
        match (name, values.as_slice()) {
            (operators::EQUALS, [left, right]) => {
                self.budget.read(&[left, right])?;
                return Ok(Value::Bool(left == right));
            }
            (operators::NOT_EQUALS, [left, right]) => {
                self.budget.read(&[left, right])?;
                return Ok(Value::Bool(left != right));
            }
            (operators::IN, [item, Value::Map(map)]) => {
                self.budget.read(&[item])?;
                return Ok(Value::Bool(KeyRef::try_from(item).is_ok_and(|key| map.get(&key).is_some())));
            }
            (operators::IN, [item, Value::List(items)]) => {
                self.budget.read(&[&values[1]])?;
                return Ok(Value::Bool(items.contains(item)));
            }
            ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern), limit @ ..]) => {
                return self.search(name, text, pattern, limit.first());
            }
            _ => {}
        }
        let full_name = library.map(|library| format!("{library}.{name}"));
        self.budget.call(full_name.as_deref().unwrap_or(name), &values.iter().collect::<Vec<_>>())?;
        if let Some(result) = library.is_none().then(|| standard::call(name, &values)).flatten() {
            let made = result?;
            self.budget.made(&made)?;
            return Ok(made);
        }
        let mut scope = self.environment.functions.new_inner_scope();
        let mut arguments = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            // No variable of an expression can have this name.
            let name = format!("@{index}");
            arguments.push(ident(&name));
            scope.add_variable_from_value(name, value);
        }
        let target = match library {
            Some(library) => Some(Box::new(ident(library))),
            None => is_method.then(|| Box::new(arguments.remove(0))),
        };
        let call = CallExpr { func_name: name.to_owned(), target, args: arguments };
        let made = Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope)?;
        self.budget.made(&made)?;
        Ok(made)
    }

    /// Searches a text with a cached, bounded pattern. The library would compile the pattern for each text,
    /// without limits.
    fn search(
        &mut self,
        name: &str,
        text: &str,
        pattern: &str,
        limit: Option<&Value>,
    ) -> Result<Value, Fault> {
        let found = match self.patterns.get(pattern) {
            Some(found) => found,
            None => {
                let compiled = Pattern::within(pattern, self.budget).map_err(|error| match error {
                    PatternError::TooCostly => Fault::TooCostly,
                    _ => ExecutionError::function_error(name, "no regular expression").into(),
                })?;
                if self.patterns.len() == MOST_PATTERNS {
                    self.patterns.clear();
                }
                self.patterns.entry(pattern.to_owned()).or_insert(compiled)
            }
        };
        self.budget.search(found, text)?;
        let text_of = |found: &str| Value::String(Arc::new(found.to_owned()));
        let most = match limit {
            Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        match name {
            "matches" => Ok(Value::Bool(found.regex().is_match(text))),
            "find" => Ok(text_of(found.regex().find(text).map_or("", |found| found.as_str()))),
            _ => {
                let mut all = Vec::new();
                for found_here in found.regex().find_iter(text).take(most) {
                    let one = text_of(found_here.as_str());
                    self.budget.made(&one)?;
                    // The search for the next match may read all the rest of the text.
                    self.budget.search(found, &text[found_here.end()..])?;
                    all.push(one);
                }
                let all = Value::List(all.into());
                self.budget.made(&all)?;
                Ok(all)
            }
        }
    }
}

fn ident(name: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }
}
