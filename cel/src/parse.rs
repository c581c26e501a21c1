//! Parser of untrusted CEL expressions. The library's parser takes some 200 KB of stack per bracket, and
//! panics on some inputs, so it runs on a thread with its own stack. The resulting tree is shallow enough to
//! be evaluated on any stack.

use std::thread;

use kube_cel::cel::{
    common::ast::{EntryExpr, Expr, IdedExpr, operators},
    parser::Parser,
};

use crate::{
    error::CompileError,
    terms::{LONGEST, Terms},
};

/// Enough stack for the longest expression. Only touched pages use memory.
const STACK: usize = 64 << 20;

/// Parses an expression.
pub(crate) fn parse(expression: &str) -> Result<IdedExpr, CompileError> {
    if expression.len() > LONGEST {
        return Err(CompileError::TooLong);
    }
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("cel".into()).stack_size(STACK);
        let reader = reader.spawn_scoped(scope, || read(expression));
        let reader = reader.map_err(|_| CompileError::Unreadable)?;
        reader.join().unwrap_or(Err(CompileError::Unreadable))
    })
}

fn read(expression: &str) -> Result<IdedExpr, CompileError> {
    let mut program = Parser::new().enable_optional_syntax(true).parse(expression).map_err(|errors| {
        let first = errors.errors.first();
        let said = first.map(|error| format!("line {} column {}: {}", error.pos.0, error.pos.1, error.msg));
        CompileError::Syntax(said.unwrap_or_else(|| "the parser gives no reason".to_owned()))
    })?;
    if Terms::of(&program).is_too_deep {
        return Err(CompileError::TooDeep);
    }
    change(&mut program.expr, &mut mend);
    Ok(program)
}

/// `a.?b` means the same as `a[?'b']`, but the evaluator (cel 0.13) fails on `a.?b` if `b` is missing.
fn mend(expr: &mut Expr) {
    if let Expr::Call(call) = expr
        && call.func_name == operators::OPT_SELECT
    {
        call.func_name = operators::OPT_INDEX.to_owned();
    }
}

/// Replaces a call `f(x)` by the variable named `f(x)`, where one is declared.
pub(crate) fn look_up(program: &mut IdedExpr, is_variable: impl Fn(&str) -> bool) {
    change(&mut program.expr, &mut |expr| {
        if let Expr::Call(call) = expr
            && let (None, [IdedExpr { expr: Expr::Ident(of), .. }]) = (&call.target, call.args.as_slice())
        {
            let name = format!("{}({of})", call.func_name);
            if is_variable(&name) {
                *expr = Expr::Ident(name);
            }
        }
    });
}

/// Applies `one` to each part of an expression, the inner parts first.
fn change(expr: &mut Expr, one: &mut impl FnMut(&mut Expr)) {
    match expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => change(&mut select.operand.expr, one),
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| change(&mut target.expr, one));
            call.args.iter_mut().for_each(|argument| change(&mut argument.expr, one));
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| change(&mut element.expr, one)),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| change_entry(&mut entry.expr, one)),
        Expr::Struct(fields) => {
            fields.entries.iter_mut().for_each(|entry| change_entry(&mut entry.expr, one));
        }
        Expr::Comprehension(all) => {
            let parts = [
                &mut all.iter_range,
                &mut all.accu_init,
                &mut all.loop_cond,
                &mut all.loop_step,
                &mut all.result,
            ];
            parts.into_iter().for_each(|part| change(&mut part.expr, one));
        }
    }
    one(expr);
}

fn change_entry(entry: &mut EntryExpr, one: &mut impl FnMut(&mut Expr)) {
    match entry {
        EntryExpr::StructField(field) => change(&mut field.value.expr, one),
        EntryExpr::MapEntry(entry) => {
            change(&mut entry.key.expr, one);
            change(&mut entry.value.expr, one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these took the whole process down when read on an ordinary stack.
    #[test]
    fn hostile_shapes_are_refused_and_harm_nobody() {
        let n = 500;
        for expression in [
            "(".repeat(n),
            "(".repeat(n) + "1" + &")".repeat(n),
            "[".repeat(n) + "1" + &"]".repeat(n),
            "{1:".repeat(n / 2) + "1" + &"}".repeat(n / 2),
            "f(".repeat(n) + "1" + &")".repeat(n),
            "1+".repeat(n) + "1",
            "a".to_owned() + &".b".repeat(n),
            "a".to_owned() + &"[0]".repeat(n),
            "a?b:".repeat(n / 2) + "c",
            "a?".repeat(n / 2) + "c" + &":b".repeat(n / 2),
            "a+".repeat(2500),
        ] {
            assert!(parse(&expression).is_err(), "{}", &expression[..9]);
        }
        // Balanced or flat by nature.
        for expression in
            ["!".repeat(n) + "a", "a||".repeat(n) + "a", "[".to_owned() + &"1,".repeat(n) + "1]"]
        {
            assert!(parse(&expression).is_ok(), "{}", &expression[..9]);
        }
    }
}
