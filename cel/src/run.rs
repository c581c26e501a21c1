//! Evaluation of an expression within a budget. The library's own evaluator has no limits, cannot be stopped,
//! and copies whole texts and lists at each step: two nested loops over 1 MiB of commas took hours. This
//! module walks the syntax tree itself. The library provides the operators and functions, and the budget pays
//! for each call before the call is made.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_cel::cel::{
    ExecutionError, Value,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, SelectExpr, operators},
    objects::{Key, KeyRef, Map, OptionalValue},
};

use crate::{
    budget::{Budget, Exhausted},
    cost::STEP,
    environment::{Environment, Expression},
    error::{EvaluationError, reason},
    pattern::Pattern,
};

/// Why a part of an expression has no value.
#[derive(Debug)]
pub(crate) enum Fault {
    /// This part cannot be evaluated on these values.
    Failed(ExecutionError),
    /// Evaluating this part costs more than the budget has.
    TooCostly,
}

impl From<ExecutionError> for Fault {
    fn from(error: ExecutionError) -> Self {
        Self::Failed(error)
    }
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self::TooCostly
    }
}

impl From<Fault> for EvaluationError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Failed(error) => Self::Failed(reason(&error)),
            Fault::TooCostly => Self::TooCostly,
        }
    }
}

/// Evaluates one expression after the other with the same variables, from one budget.
pub struct Evaluation<'e> {
    pub(crate) environment: &'e Environment,
    /// Values by name, innermost last: the variables, then the names that loops bind. A failed value keeps
    /// its error until the expression reads the name.
    names: Vec<(&'e str, Result<Value, ExecutionError>)>,
    variables: usize,
    pub(crate) budget: &'e mut Budget,
    /// Regular expressions already compiled.
    pub(crate) patterns: BTreeMap<String, Pattern>,
}

impl<'e> Evaluation<'e> {
    /// Starts evaluations with these values. A variable that no expression reads can be left out.
    pub fn new(
        environment: &'e Environment,
        variables: Vec<(&'e str, Value)>,
        budget: &'e mut Budget,
    ) -> Self {
        let names: Vec<_> = variables.into_iter().map(|(name, value)| (name, Ok(value))).collect();
        Self { environment, variables: names.len(), names, budget, patterns: BTreeMap::new() }
    }

    /// Returns the value of an expression.
    ///
    /// # Errors
    /// The expression cannot be evaluated on these values, or costs more than the budget has.
    pub fn run(&mut self, expression: &'e Expression) -> Result<Value, EvaluationError> {
        // The library panics on some values.
        let result = catch_unwind(AssertUnwindSafe(|| self.whole(&expression.program)));
        Ok(result.unwrap_or_else(|_| Err(no_overload()))?)
    }

    fn whole(&mut self, program: &'e IdedExpr) -> Result<Value, Fault> {
        self.budget.begin();
        // A panic inside a loop leaves the loop's names behind.
        self.names.truncate(self.variables);
        self.value(program)
    }

    fn value(&mut self, expression: &'e IdedExpr) -> Result<Value, Fault> {
        self.budget.spend(STEP)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(Value::try_from(literal.to_val().as_ref())?),
            Expr::Ident(name) => Ok(self.named(name)?),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let value = self.value(element)?;
                    items.extend(given(value, list.optional_indices.contains(&index)));
                }
                Ok(Value::List(items.into()))
            }
            Expr::Map(map) => {
                let mut entries = std::collections::HashMap::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(no_overload()) };
                    let key = self.value(&entry.key)?;
                    self.budget.read(&[&key])?;
                    let key: Result<Key, _> = key.try_into();
                    let value = self.value(&entry.value)?;
                    if let Some(value) = given(value, entry.optional) {
                        entries.insert(key.map_err(ExecutionError::UnsupportedKeyType)?, value);
                    }
                }
                Ok(entries.into())
            }
            Expr::Struct(_) | Expr::Unspecified => Err(no_overload()),
        }
    }

    fn named(&self, name: &str) -> Result<Value, ExecutionError> {
        let found = self.names.iter().rev().find(|(known, _)| *known == name);
        match found {
            Some((_, value)) => value.clone(),
            None => Err(ExecutionError::UndeclaredReference(Arc::new(name.to_owned()))),
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.names.iter().any(|(known, _)| *known == name)
    }

    fn truth(&mut self, expression: &'e IdedExpr) -> Result<bool, Fault> {
        match self.value(expression)? {
            Value::Bool(truth) => Ok(truth),
            _ => Err(no_overload()),
        }
    }

    fn select(&mut self, select: &'e SelectExpr) -> Result<Value, Fault> {
        let of = self.value(&select.operand)?;
        let field = KeyRef::String(&select.field);
        match (select.test, &of, optional(&of)) {
            (false, Value::Map(map), _) => Ok(entry(map, &field)?),
            (true, Value::Map(map), _) => Ok(Value::Bool(map.get(&field).is_some())),
            (false, _, Some(_)) => {
                let field = Value::String(Arc::new(select.field.clone()));
                Ok(indexed(&of, &field, false)?)
            }
            (true, _, Some(of)) => {
                Ok(Value::Bool(matches!(of.value(), Some(Value::Map(map)) if map.get(&field).is_some())))
            }
            (true, ..) => Ok(Value::Bool(false)),
            (false, ..) => Err(no_overload()),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Result<Value, Fault> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.truth(condition)? {
                true => self.value(yes),
                false => self.value(no),
            },
            (operators::LOGICAL_OR, [left, right]) => self.either(true, left, right),
            (operators::LOGICAL_AND, [left, right]) => self.either(false, left, right),
            (operators::NOT_STRICTLY_FALSE, [one]) => match self.truth(one) {
                Err(Fault::TooCostly) => Err(Fault::TooCostly),
                other => Ok(Value::Bool(other.unwrap_or(true))),
            },
            (operators::INDEX, [of, key]) => {
                let (of, key) = (self.value(of)?, self.value(key)?);
                self.budget.read(&[&key])?;
                Ok(indexed(&of, &key, false)?)
            }
            (operators::OPT_INDEX | operators::OPT_SELECT, [of, key]) => {
                let (of, key) = (self.value(of)?, self.value(key)?);
                self.budget.read(&[&key])?;
                Ok(indexed(&of, &key, true)?)
            }
            (name, arguments) => {
                // The name before the dot is a library, as in math.abs, unless it is a variable.
                let library = match call.target.as_ref().map(|target| &target.expr) {
                    Some(Expr::Ident(library)) if !self.is_bound(library) => Some(library.as_str()),
                    _ => None,
                };
                let mut values = Vec::with_capacity(arguments.len() + 1);
                if let (Some(target), None) = (&call.target, library) {
                    values.push(self.value(target)?);
                }
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                let is_method = call.target.is_some() && library.is_none();
                self.apply(name, library, is_method, values)
            }
        }
    }

    /// Evaluates `||`, where `true` is decisive, or `&&`, where `false` is. A decisive value on one side
    /// overrides an error on the other side, but not an exhausted budget.
    fn either(&mut self, decisive: bool, left: &'e IdedExpr, right: &'e IdedExpr) -> Result<Value, Fault> {
        let left = match self.truth(left) {
            Err(Fault::TooCostly) => return Err(Fault::TooCostly),
            Ok(left) if left == decisive => return Ok(Value::Bool(decisive)),
            left => left,
        };
        let right = self.truth(right)?;
        match left {
            Err(fault) if right != decisive => Err(fault),
            _ => Ok(Value::Bool(right)),
        }
    }

    fn comprehension(&mut self, all: &'e ComprehensionExpr) -> Result<Value, Fault> {
        let items = match self.value(&all.iter_range)? {
            Value::List(items) => items,
            Value::Map(map) => {
                // Each loop over a map sorts the keys again.
                let many = map.map.len() as u64;
                let steps = u64::from(many.max(1).ilog2()) + 2;
                self.budget.spend(many.saturating_mul(steps).saturating_mul(STEP))?;
                let mut keys: Vec<&Key> = map.map.keys().collect();
                keys.sort_unstable();
                Arc::new(keys.into_iter().map(Value::from).collect())
            }
            _ => return Err(no_overload()),
        };
        let start = self.value(&all.accu_init)?;
        let before = self.names.len();
        self.names.push((&all.accu_var, Ok(start)));
        let result = self.each(all, &items).and_then(|()| self.value(&all.result));
        self.names.truncate(before);
        result
    }

    fn each(&mut self, all: &'e ComprehensionExpr, items: &[Value]) -> Result<(), Fault> {
        let result = self.names.len() - 1;
        for item in items {
            if !self.truth(&all.loop_cond)? {
                break;
            }
            let memory = self.budget.memory();
            self.names.push((&all.iter_var, Ok(item.clone())));
            self.step(&all.accu_var, result, &all.loop_step)?;
            self.names.truncate(result + 1);
            if let Ok(Value::Bool(_) | Value::Int(_)) = self.names[result].1 {
                self.budget.forget(memory);
            }
        }
        Ok(())
    }

    /// Updates the result of a loop for one item. `map` and `filter` expand to adding a list of one item to
    /// the result: done literally, each item would copy all earlier items.
    fn step(&mut self, name: &str, result: usize, step: &'e IdedExpr) -> Result<(), Fault> {
        self.budget.spend(STEP)?;
        let is_result = |expression: &IdedExpr| matches!(&expression.expr, Expr::Ident(one) if one == name);
        if let Expr::Call(call) = &step.expr {
            match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::CONDITIONAL, [condition, yes, no]) => {
                    let next = if self.truth(condition)? { yes } else { no };
                    return self.step(name, result, next);
                }
                (operators::ADD, [left, right]) if is_result(left) => {
                    if let (Ok(Value::List(_)), Expr::List(_)) = (&self.names[result].1, &right.expr) {
                        let Value::List(more) = self.value(right)? else { return Err(no_overload()) };
                        if let Ok(Value::List(list)) = &mut self.names[result].1 {
                            Arc::make_mut(list).extend(more.iter().cloned());
                        }
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        if !is_result(step) {
            // The error is kept, not returned: one true item decides `exists`, and one false item decides
            // `all`, even if others fail.
            self.names[result].1 = match self.value(step) {
                Err(Fault::TooCostly) => return Err(Fault::TooCostly),
                Err(Fault::Failed(error)) => Err(error),
                Ok(value) => Ok(value),
            };
        }
        Ok(())
    }
}

pub(crate) fn no_overload() -> Fault {
    Fault::Failed(ExecutionError::NoSuchOverload)
}

fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

/// Returns the content of an optional, such as the one that `a.?b` gives: `Some(None)` if the optional is
/// empty, and `None` if the value is not an optional.
pub fn held(value: &Value) -> Option<Option<&Value>> {
    optional(value).map(OptionalValue::value)
}

/// Returns an item of a list or map. An item after `?` is unwrapped, or left out if its optional is empty.
fn given(value: Value, may_lack: bool) -> Option<Value> {
    match optional(&value).filter(|_| may_lack) {
        Some(held) => held.value().cloned(),
        None => Some(value),
    }
}

/// Returns `of[key]`, as an optional if `may_lack` is set or `of` is itself an optional.
fn indexed(of: &Value, key: &Value, may_lack: bool) -> Result<Value, ExecutionError> {
    let found = match optional(of) {
        Some(held) => held.value().and_then(|value| index(value, key).ok()),
        None if may_lack => index(of, key).ok(),
        None => return index(of, key),
    };
    Ok(Value::Opaque(Arc::new(found.map_or_else(OptionalValue::none, OptionalValue::of))))
}

fn entry(map: &Map, key: &KeyRef<'_>) -> Result<Value, ExecutionError> {
    // The error omits the key, which may be a value.
    map.get(key).cloned().ok_or_else(|| ExecutionError::no_such_key(""))
}

fn index(of: &Value, key: &Value) -> Result<Value, ExecutionError> {
    match (of, key) {
        (Value::Map(map), key) => {
            let key = KeyRef::try_from(key).map_err(ExecutionError::UnsupportedKeyType)?;
            entry(map, &key)
        }
        (Value::List(list), Value::Int(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| list.get(at).cloned())
            .ok_or_else(|| ExecutionError::IndexOutOfBounds(key.clone())),
        (Value::List(list), Value::UInt(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| list.get(at).cloned())
            .ok_or_else(|| ExecutionError::IndexOutOfBounds(key.clone())),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{parse, typing::Type};

    fn text(value: &str) -> Value {
        HashMap::from([("h".to_owned(), Value::from(value)), ("a".to_owned(), Value::from("1"))]).into()
    }

    fn evaluated(expression: &str, value: &str) -> Result<Value, Fault> {
        let environment = Environment::new([("text", Type::TextMap)]);
        let (program, mut budget) = (parse::parse(expression).unwrap(), Budget::new(500_000_000, 24 << 20));
        Evaluation::new(&environment, vec![("text", text(value))], &mut budget).whole(&program)
    }

    /// The walk through the tree is ours, what things mean is not.
    #[test]
    fn the_library_says_the_same() {
        let environment = Environment::new([("text", Type::TextMap)]);
        let mut scope = environment.functions.new_inner_scope();
        scope.add_variable_from_value("text", text("x,y,z"));
        for expression in [
            "1 + 2 * 3 == 7 && 7 / 2 == 3 && 7 % 2 == 1 && -(1) < 0 && 'a' + 'b' == 'ab'",
            "text.h == 'x,y,z' && text['a'] != '2' && text.h.size() == 5 && size(text) == 2",
            "'a' in text && !('b' in text) && 'x' in ['x', 'y'] && !(1 in [])",
            "has(text.h) && !has(text.b)",
            "true || 1 / 0 == 1",
            "1 / 0 == 1 || true",
            "1 / 0 == 1 || false",
            "false && 1 / 0 == 1",
            "1 / 0 == 1 && false",
            "true && text.b == ''",
            "true ? 'a' : 1 / 0",
            "text.b",
            "text.h.a.b == 1 || true",
            "[1, 2, 3][1] + [4][0]",
            "[1][5]",
            "{'a': 1, 2: 'b'}['a']",
            "{'a': {'b': [1, 2]}}.a.b[1]",
            "text[?'a'].orValue('x') + text[?'b'].orValue('x')",
            "text.?a.hasValue() && !text.?b.hasValue()",
            "[?text.?a, ?text.?b, 'c']",
            "{?'a': text.?a, ?'b': text.?b}",
            "optional.of(1).value() == 1 && optional.none().orValue(2) == 2",
            "text.h.split(',').map(one, one + '!')",
            "text.h.split(',').map(one, one != 'y', one + '!')",
            "text.h.split(',').filter(one, one >= 'y')",
            "text.h.split(',').all(one, one < 'zz') && !text.h.split(',').exists(one, one == 'w')",
            "text.h.split(',').exists_one(one, one == 'x')",
            "[[1, 2], [3]].map(list, list.map(one, one * 2))",
            "[1, 2].exists(one, one / 1 == 1 || one == 2)",
            "[0, 1].all(one, 1 / one == 1)",
            "text.h.matches('^[xyz,]+$') && text.h.find('[yz]') == 'y'",
            "text.h.findAll('[a-z]') == ['x', 'y', 'z'] && text.h.findAll('[a-z]', 2).size() == 2",
            "text.h.matches('(')",
            "math.greatest(1, 2, 3) == 3 && sets.contains([1, 2], [2]) && lists.range(3) == [0, 1, 2]",
            "base64.decode(base64.encode(b'a')) == b'a' && '%s-%d'.format(['a', 1]) == 'a-1'",
            "int('1') == 1 && string(1) == '1' && double('1.5') > 1.0 && timestamp('2023-01-01T00:00:00Z') != null",
            "int('x')",
            "quantity('1Gi').isGreaterThan(quantity('1Mi')) && duration('1h') > duration('1m')",
            "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
            "'a' < 1",
            "1 + 'a'",
        ] {
            let program = parse::parse(expression).unwrap();
            let expected = Value::resolve(&program, &scope);
            match (evaluated(expression, "x,y,z"), expected) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{expression}"),
                (Err(Fault::Failed(_)), Err(_)) => {}
                (ours, theirs) => panic!("{expression}: {ours:?}, and the library {theirs:?}"),
            }
        }
    }

    /// Each of these would take minutes, or more memory than there is.
    #[test]
    fn nothing_takes_long_or_much() {
        let (same, commas) = ("a".repeat(1 << 20), ",".repeat(1 << 20));
        let distinct: String = (0..20_000).map(|number| format!("{number},")).collect();
        for (expression, value) in [
            ("text.h.split(',').all(a, text.h.split(',').exists_one(b, a == b))", &commas),
            ("text.h.split(',').all(a, {'a': 1, 'b': 2, 'c': 3}.all(k, k != a))", &commas),
            ("lists.range(2000).all(i, !(text.h in text))", &same),
            ("lists.range(2000).all(i, text[?text.h].orValue('') == '')", &same),
            ("text.h.replace('a', text.h) == ''", &same),
            ("text.h.split('').join(text.h) == ''", &same),
            ("text.h.lastIndexOf(text.h.substring(500000)) == 1", &same),
            ("text.h.findAll('a.*b|a').size() > 0", &same),
            ("text.h.matches('(a|b)*a(a|b){2000}c')", &same),
            (
                "[text.h].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).size() == 1",
                &same,
            ),
            ("lists.range(1000000000000).size() > 0", &same),
            ("lists.range(9999).all(i, text.h.size() > i)", &same),
            ("lists.range(9999).all(i, text == text)", &same),
            ("lists.range(9999).map(i, text.h + 'x').size() > 0", &same),
            ("lists.range(9999).all(i, text.h.matches('x{1000}' + string(i)) || true)", &distinct),
            ("text.h.split(',').distinct().size() > 0", &distinct),
            ("sets.contains(text.h.split(','), text.h.split(','))", &distinct),
            (
                "'%.60000f%.60000f'.format([1, 1]).size() * lists.range(500).map(i, '%.60000f'.format([i])).size() > 0",
                &same,
            ),
        ] {
            let result = evaluated(expression, value);
            assert!(matches!(result, Err(Fault::TooCostly)), "{expression}: {result:?}");
        }
    }

    #[test]
    fn one_loop_over_a_large_value_is_no_trouble() {
        let lines: String = (0..40_000).map(|number| format!("host-{number:06}.example.com\n")).collect();
        for expression in [
            "text.h.split('\\n').all(line, 'a,b,c,d,e,f'.split(',').exists(part, line != part))",
            "text.h.split('\\n').all(line, line == '' || line.startsWith('host-'))",
            "text.h.split('\\n').filter(line, line.matches('^host-[0-9]+')).size() == 40000",
            "text.h.matches('^[a-z0-9.\\n-]+$') && !text.h.contains('  ')",
        ] {
            assert_eq!(evaluated(expression, &lines).ok(), Some(Value::Bool(true)), "{expression}");
        }
    }
}
