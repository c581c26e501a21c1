//! The type of an expression's result, where the text of the expression alone proves it. [`super::typing`]
//! refuses conditions on weaker evidence, such as one branch of `?:`; this module must never be wrong.

use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

/// The type of every value that an expression can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Always {
    /// CEL's `bool`: `true` or `false`.
    Truth,
    /// CEL's `int`, `uint` or `double`, which are not told apart.
    Number,
    /// CEL's `string`, and not `bytes`.
    Text,
    /// CEL's `list`, whatever its elements are.
    List,
    /// CEL's `map`, whatever its entries are.
    Map,
}

/// Returns the type of every value that a program can give; `None` where variables decide it, or it is not
/// known.
pub(crate) fn always(program: &IdedExpr) -> Option<Always> {
    match &program.expr {
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(_) => Some(Always::Truth),
            LiteralValue::String(_) => Some(Always::Text),
            LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Some(Always::Number),
            LiteralValue::Bytes(_) | LiteralValue::Null => None,
        },
        Expr::Select(select) => select.test.then_some(Always::Truth),
        Expr::List(_) => Some(Always::List),
        Expr::Map(_) => Some(Always::Map),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [_, yes, no]) => always(yes).filter(|gives| always(no) == Some(*gives)),
            (
                operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::IN,
                _,
            ) => Some(Always::Truth),
            // A method of such a name may belong to another library.
            ("string", [_]) if call.target.is_none() => Some(Always::Text),
            ("int" | "uint" | "double" | "size", [_]) if call.target.is_none() => Some(Always::Number),
            (operators::ADD, [left, right]) => always(left)
                .filter(|gives| *gives == Always::Text && always(right).is_none_or(|other| other == *gives)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Environment, Evaluation, Type, Value};

    #[test]
    fn what_is_certain_is_told_and_comes_out() {
        for (expression, gives) in [
            ("'three'", Some(Always::Text)),
            ("3", Some(Always::Number)),
            ("2.5", Some(Always::Number)),
            ("true", Some(Always::Truth)),
            ("[a]", Some(Always::List)),
            ("{'a': a}", Some(Always::Map)),
            ("string(a)", Some(Always::Text)),
            ("int(a)", Some(Always::Number)),
            ("size(b)", Some(Always::Number)),
            ("'x' + b", Some(Always::Text)),
            ("a > 1", Some(Always::Truth)),
            ("has(b.c) || a == 3", Some(Always::Truth)),
            ("a > 1 ? 'many' : 'one'", Some(Always::Text)),
            ("a > 1 ? 'many' : 1", None),
            ("a", None),
            ("b + 'x'", None),
            ("a - 1", None),
            ("null", None),
        ] {
            let environment = Environment::new([("a", Type::Any), ("b", Type::Any)]);
            let compiled = environment.compile_value(expression).unwrap();
            assert_eq!(compiled.always(), gives, "{expression}");
            let mut budget = Budget::new(1_000_000, 1 << 20);
            let values = vec![("a", Value::Int(3)), ("b", Value::from("text"))];
            let mut evaluation = Evaluation::new(&environment, values, &mut budget);
            let came_out = match evaluation.run(&compiled) {
                Ok(Value::Bool(_)) => Always::Truth,
                Ok(Value::Int(_) | Value::UInt(_) | Value::Float(_)) => Always::Number,
                Ok(Value::String(_)) => Always::Text,
                Ok(Value::List(_)) => Always::List,
                Ok(Value::Map(_)) => Always::Map,
                _ => continue,
            };
            assert!(gives.is_none_or(|gives| gives == came_out), "{expression}");
        }
    }
}
