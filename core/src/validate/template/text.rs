//! Splits a text of a template into literal parts and expressions, written as `${…}`.

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text. A written `$${` is the text `${`.
    Literal(String),
    /// The expression between `${` and `}`.
    Expression(String),
}

/// An expression that begins with `${` and does not end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("has an expression without an end; close the expression with }}, or write $${{ for a literal ${{")]
pub(super) struct Unclosed;

/// Returns the parts of a text, in order. A text without expressions is one literal, or none if it is empty.
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

/// Returns the index of the brace that closes an expression. Braces of maps, and in strings and comments of
/// CEL, are skipped.
fn end_of(expression: &str) -> Option<usize> {
    let (bytes, mut at, mut depth) = (expression.as_bytes(), 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => {
                at = after_text(bytes, at)?;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += bytes[at..].iter().position(|byte| *byte == b'\n')?;
            }
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index after a CEL string that begins with the quote at `from`. The string ends with the same
/// quote, or with three if it begins with three. A raw string, `r'…'`, has no escapes.
fn after_text(bytes: &[u8], from: usize) -> Option<usize> {
    let quotes = [bytes[from]; 3];
    let end = if bytes[from..].starts_with(&quotes) { &quotes[..] } else { &quotes[..1] };
    let is_raw = from > 0 && matches!(bytes[from - 1], b'r' | b'R');
    let mut at = from + end.len();
    while at < bytes.len() {
        if bytes[at..].starts_with(end) {
            return Some(at + end.len());
        }
        at += if bytes[at] == b'\\' && !is_raw { 2 } else { 1 };
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
            (r"${r'\'}", vec![expression(r"r'\'")]),
            ("${'''a}'b'''}", vec![expression("'''a}'b'''")]),
            ("${''}", vec![expression("''")]),
            ("${1 // }\n}", vec![expression("1 // }\n")]),
            ("é${ü}", vec![literal("é"), expression("ü")]),
        ] {
            assert_eq!(split(text), Ok(pieces), "{text}");
        }
        for open in ["${", "a ${b", "${'}", "${ {a }", "${a // }", "${'\\"] {
            assert_eq!(split(open), Err(Unclosed), "{open}");
        }
    }
}
