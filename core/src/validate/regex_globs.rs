//! Converts a regular expression to names and globs that match exactly the same names, or returns the reason
//! why that is impossible. The parser is the parser of our own patterns; it accepts only syntax that has the
//! same meaning in Go, Python and .NET.

use regex_syntax::ast::{
    AssertionKind, Ast, ClassPerlKind, ClassSet, ClassSetItem, Literal, LiteralKind, RepetitionKind,
    parse::ParserBuilder,
};

/// How a tool matches its pattern against a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchoring {
    /// The pattern matches anywhere in the name, unless the pattern itself has `^` or `$`.
    Nowhere,
    /// The pattern matches at the beginning of the name (Python's `re.match`).
    Start,
    /// The first match must be the whole name (reflector), unlike in an anchored pattern: `a|ab` does not
    /// match `ab`.
    FirstMatchIsAll,
}

/// A pattern with more alternatives than this is not converted.
const MOST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Char(char),
    /// Any one character, `?` in a glob.
    Any,
    /// Any text, `*` in a glob.
    Text,
    /// One of these characters, in a glob's notation.
    Class(String),
    Start,
    End,
}

type Branch = Vec<Piece>;

/// Returns names and globs that match the same names as the pattern.
///
/// # Errors
/// The part of the pattern that no glob can express.
pub fn globs(pattern: &str, anchoring: Anchoring) -> Result<Vec<String>, String> {
    let read = ParserBuilder::new().nest_limit(50).build().parse(pattern);
    let ast = read.map_err(|error| format!("cannot be read ({})", error.kind()))?;
    let branches = expand(&ast, anchoring)?;
    if anchoring == Anchoring::FirstMatchIsAll {
        order_is_harmless(&branches)?;
    }
    let mut globs = Vec::new();
    for branch in branches {
        let glob = glob(branch, anchoring)?;
        if !globs.contains(&glob) {
            globs.push(glob);
        }
    }
    Ok(globs)
}

fn expand(ast: &Ast, anchoring: Anchoring) -> Result<Vec<Branch>, String> {
    let one = |piece| Ok(vec![vec![piece]]);
    match ast {
        Ast::Empty(_) => Ok(vec![Vec::new()]),
        Ast::Literal(literal) => one(Piece::Char(character(literal)?)),
        Ast::Dot(_) => one(Piece::Any),
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartLine | AssertionKind::StartText => one(Piece::Start),
            AssertionKind::EndLine | AssertionKind::EndText => one(Piece::End),
            _ => Err("has a word boundary, which a glob cannot express".into()),
        },
        Ast::ClassPerl(class) if class.kind == ClassPerlKind::Digit && !class.negated => {
            one(Piece::Class("[0-9]".into()))
        }
        Ast::ClassBracketed(class) if !class.negated => one(Piece::Class(bracketed(&class.kind)?)),
        Ast::ClassPerl(_) | Ast::ClassBracketed(_) | Ast::ClassUnicode(_) => {
            Err("has a character class that a glob cannot express".into())
        }
        Ast::Group(group) if group.flags().is_none_or(|flags| flags.items.is_empty()) => {
            expand(&group.ast, anchoring)
        }
        Ast::Group(_) | Ast::Flags(_) => Err("has flags, such as (?i), which a glob cannot express".into()),
        Ast::Repetition(repeated) => {
            if anchoring == Anchoring::FirstMatchIsAll && !repeated.greedy {
                return Err("has a lazy repetition, which may match only a part of the name".into());
            }
            match (&repeated.op.kind, &*repeated.ast) {
                (RepetitionKind::ZeroOrMore, Ast::Dot(_)) => one(Piece::Text),
                (RepetitionKind::OneOrMore, Ast::Dot(_)) => Ok(vec![vec![Piece::Any, Piece::Text]]),
                (RepetitionKind::ZeroOrOne, what) => {
                    let mut branches = expand(what, anchoring)?;
                    branches.push(Vec::new());
                    Ok(branches)
                }
                _ => Err("repeats an expression other than a dot, which a glob cannot express".into()),
            }
        }
        Ast::Alternation(choice) => {
            let mut all = Vec::new();
            for one in &choice.asts {
                all.extend(expand(one, anchoring)?);
            }
            few(all)
        }
        Ast::Concat(parts) => {
            let mut all = vec![Vec::new()];
            for part in &parts.asts {
                let tails = expand(part, anchoring)?;
                let joined = |head: &Branch| {
                    let join = |tail: &Branch| head.iter().chain(tail).cloned().collect::<Branch>();
                    tails.iter().map(join).collect::<Vec<_>>()
                };
                all = few(all.iter().flat_map(joined).collect())?;
            }
            Ok(all)
        }
    }
}

fn few(branches: Vec<Branch>) -> Result<Vec<Branch>, String> {
    match branches.len() {
        0..=MOST => Ok(branches),
        _ => Err(format!("has more than {MOST} alternatives")),
    }
}

/// A character that means itself in a pattern and in a glob. Letters that a namespace's name cannot contain
/// are accepted; a glob's own special characters are not.
fn character(literal: &Literal) -> Result<char, String> {
    let plain = matches!(literal.kind, LiteralKind::Verbatim | LiteralKind::Meta);
    let known = literal.c.is_ascii_alphanumeric() || matches!(literal.c, '-' | '.' | '_');
    if plain && known {
        Ok(literal.c)
    } else {
        Err(format!("contains {:?}, which no name contains", literal.c))
    }
}

fn bracketed(set: &ClassSet) -> Result<String, String> {
    let none = || "has a character class that a glob cannot express".to_owned();
    let ClassSet::Item(item) = set else { return Err(none()) };
    let items = match item {
        ClassSetItem::Union(union) => union.items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (mut inside, mut dash) = (String::new(), "");
    for item in items {
        match item {
            ClassSetItem::Literal(literal) if literal.c == '-' => dash = "-",
            ClassSetItem::Literal(literal) => inside.push(character(literal)?),
            ClassSetItem::Range(range) => {
                let (from, to) = (character(&range.start)?, character(&range.end)?);
                if !(from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric()) {
                    return Err(none());
                }
                inside.extend([from, '-', to]);
            }
            _ => return Err(none()),
        }
    }
    // A dash at the end means itself, in globs too.
    Ok(format!("[{inside}{dash}]"))
}

fn glob(mut branch: Branch, anchoring: Anchoring) -> Result<String, String> {
    let from_start = branch.first() == Some(&Piece::Start);
    let to_end = branch.last() == Some(&Piece::End);
    branch.retain({
        let (mut at, last) = (0, branch.len().saturating_sub(1));
        move |piece| {
            let outer = (at == 0 && *piece == Piece::Start) || (at == last && *piece == Piece::End);
            at += 1;
            !outer
        }
    });
    let mut glob = String::new();
    if !from_start && anchoring == Anchoring::Nowhere {
        glob.push('*');
    }
    for piece in branch {
        match piece {
            Piece::Char(one) => glob.push(one),
            Piece::Any => glob.push('?'),
            Piece::Class(class) => glob.push_str(&class),
            Piece::Text if glob.ends_with('*') => {}
            Piece::Text => glob.push('*'),
            Piece::Start | Piece::End => return Err("has an anchor in the middle".into()),
        }
    }
    if !to_end && anchoring != Anchoring::FirstMatchIsAll && !glob.ends_with('*') {
        glob.push('*');
    }
    if glob.is_empty() { Err("matches no name".into()) } else { Ok(glob) }
}

/// Refuses alternatives whose order matters. If the first match must be the whole name, an alternative that
/// matches the beginning of a later alternative's match hides the later alternative.
fn order_is_harmless(branches: &[Branch]) -> Result<(), String> {
    let start = |branch: &Branch| -> (String, bool) {
        let mut text = String::new();
        let pieces: Vec<_> = branch.iter().filter(|piece| **piece != Piece::Start).collect();
        for piece in &pieces {
            match piece {
                Piece::Char(one) => text.push(*one),
                _ => break,
            }
        }
        let whole = text.len() == pieces.len();
        (text, whole)
    };
    for (index, later) in branches.iter().enumerate() {
        let (later, later_whole) = start(later);
        for earlier in &branches[..index] {
            if earlier.last() == Some(&Piece::End) {
                continue;
            }
            let (earlier, earlier_whole) = start(earlier);
            let hides = if earlier_whole && later_whole {
                later.len() > earlier.len() && later.starts_with(&earlier)
            } else {
                later.starts_with(&earlier) || earlier.starts_with(&later)
            };
            if hides {
                return Err("has alternatives that may match the same name, so their order matters".into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
