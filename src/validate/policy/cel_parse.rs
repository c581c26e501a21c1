//! Reads a CEL expression without trusting it: the parser takes some 200 KB of stack a bracket, and panics on
//! some inputs. So it runs on a stack of its own, and what it gives is shallow enough to be evaluated anywhere.

use std::thread;

use kube_cel::cel::{common::ast::IdedExpr, parser::Parser};

use super::cel_terms::Terms;

/// The longest expression, in bytes.
const LONGEST: usize = 4096;
/// Enough for any expression that long; only what is touched counts as memory.
const STACK: usize = 64 << 20;

/// Reads an expression, or says what is wrong with it.
pub(super) fn parse(expression: &str) -> Result<IdedExpr, String> {
    if expression.len() > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes; split it"));
    }
    let cannot = |_| "cannot be read; simplify it".to_owned();
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("cel".into()).stack_size(STACK);
        let reader = reader.spawn_scoped(scope, || read(expression)).map_err(cannot)?;
        reader.join().unwrap_or_else(|_| Err("cannot be read; simplify it".into()))
    })
}

fn read(expression: &str) -> Result<IdedExpr, String> {
    let program = Parser::new().enable_optional_syntax(true).parse(expression).map_err(|errors| {
        let first = errors
            .errors
            .first()
            .map(|error| format!(" (line {} column {}: {})", error.pos.0, error.pos.1, error.msg));
        format!("is no CEL expression{}", first.unwrap_or_default())
    })?;
    match Terms::of(&program).is_too_deep {
        true => Err("nests too deep; flatten it, or split it into several".into()),
        false => Ok(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these took the whole process down when read on an ordinary stack.
    #[test]
    fn hostile_shapes_are_refused_and_harm_nobody() {
        let n = 1300;
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
            "a".repeat(5000),
        ] {
            assert!(parse(&expression).is_err(), "{}", &expression[..20]);
        }
        // Balanced or flat by nature.
        for expression in
            ["!".repeat(n) + "a", "a||".repeat(n) + "a", "[".to_owned() + &"1,".repeat(n) + "1]"]
        {
            assert!(parse(&expression).is_ok(), "{}", &expression[..20]);
        }
    }
}
