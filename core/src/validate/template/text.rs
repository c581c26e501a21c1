//! Splits a text of a template into what is literal and its expressions, which stand in `${…}`.

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text as it is. A written `$${` is the text `${`.
    Literal(String),
    /// The expression between `${` and `}`.
    Expression(String),
}

/// An expression begins with `${` and does not end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("has an expression without an end; close it with }}, or write $${{ for the text ${{")]
pub(super) struct Unclosed;

/// The parts of a text, in order. A text without expressions is one literal, or none if it is empty.
pub(super) fn split(text: &str) -> Result<Vec<Piece>, Unclosed> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            literal.push_str(&rest[..at - 1]);
            literal.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        literal.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end = end_of(inner).ok_or(Unclosed)?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Expression(inner[..end].to_owned()));
        rest = &inner[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

/// Where the brace is that closes an expression. Braces of maps and in texts do not count.
fn end_of(expression: &str) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, byte) in expression.bytes().enumerate() {
        match (quote, byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth == 0 => return Some(at),
            (None, b'}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_expressions() {
        let literal = |text: &str| Piece::Literal(text.to_owned());
        let expression = |text: &str| Piece::Expression(text.to_owned());
        for (text, pieces) in [
            ("", vec![]),
            ("plain $HOME {x} $", vec![literal("plain $HOME {x} $")]),
            ("${a.b}", vec![expression("a.b")]),
            (
                "x-${a}-${b}.y",
                vec![literal("x-"), expression("a"), literal("-"), expression("b"), literal(".y")],
            ),
            ("$${a} is ${a}", vec![literal("${a} is "), expression("a")]),
            ("${{'a': {'b': 1}}}", vec![expression("{'a': {'b': 1}}")]),
            (r#"${'}' + "\"}" + '\'}'}"#, vec![expression(r#"'}' + "\"}" + '\'}'"#)]),
            ("é${ü}", vec![literal("é"), expression("ü")]),
        ] {
            assert_eq!(split(text), Ok(pieces), "{text}");
        }
        for open in ["${", "a ${b", "${'}", "${ {a }"] {
            assert_eq!(split(open), Err(Unclosed), "{open}");
        }
    }
}
