//! Translation of regular expressions from RE2, which Kubernetes uses, to the library. In RE2, `\w`, `\d`,
//! `\s` and `\b` mean ASCII. In the library these classes mean all of Unicode, and so accept texts that the
//! API server's CEL refuses.

use std::{convert::Infallible, ops::RangeInclusive};

use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetItem, Flag, Flags, GroupKind, Span,
    Visitor, parse::Parser, visit,
};

/// Returns the pattern with these classes written out in ASCII. A pattern that cannot be parsed stays as it
/// is.
pub(crate) fn in_ascii(pattern: &str) -> String {
    let Ok(ast) = Parser::new().parse(pattern) else { return pattern.to_owned() };
    let Ok(found) = visit(&ast, Shorthands::default());
    let mut written = String::with_capacity(pattern.len());
    let mut at = 0;
    for (span, meant) in found {
        written.push_str(&pattern[at..span.start.offset]);
        written.push_str(meant);
        at = span.end.offset;
    }
    written.push_str(&pattern[at..]);
    written
}

/// The last character that has an upper and a lower case.
const LAST_CASED: u32 = 0x1E943;

/// Returns how many characters the library looks up for a case-insensitive pattern: every character of every
/// class, limited only by the size of Unicode. 0 where the pattern is case-sensitive, or cannot be parsed.
pub(crate) fn folded(pattern: &str) -> u64 {
    let Ok(ast) = Parser::new().parse(pattern) else { return 0 };
    let Ok(found) = visit(&ast, Folding::default());
    found
}

#[derive(Default)]
struct Folding {
    characters: u64,
    ignores_case: bool,
}

impl Folding {
    fn add(&mut self, range: RangeInclusive<u32>) {
        let (first, last) = (*range.start(), (*range.end()).min(LAST_CASED));
        self.characters = self.characters.saturating_add(u64::from((last + 1).saturating_sub(first)));
    }

    fn flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.flag_state(Flag::CaseInsensitive) == Some(true);
    }
}

impl Visitor for Folding {
    type Output = u64;
    type Err = Infallible;

    fn finish(self) -> Result<u64, Infallible> {
        Ok(if self.ignores_case { self.characters } else { 0 })
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        match ast {
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            Ast::ClassUnicode(_) => self.add(0..=LAST_CASED),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        match item {
            ClassSetItem::Range(range) => self.add(range.start.c.into()..=range.end.c.into()),
            ClassSetItem::Unicode(_) => self.add(0..=LAST_CASED),
            // A class inside a class is folded together with the outer class.
            ClassSetItem::Bracketed(_) => self.add(0..=0xFF),
            _ => {}
        }
        Ok(())
    }
}

/// Positions of the classes and boundaries in text order, with their ASCII meaning.
#[derive(Default)]
struct Shorthands(Vec<(Span, &'static str)>);

impl Shorthands {
    fn class(&mut self, class: &ClassPerl) {
        // A class inside a second class means the union of both, so the same text works inside brackets.
        let meant = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r\x20]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r\x20]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.0.push((class.span, meant));
    }
}

impl Visitor for Shorthands {
    type Output = Vec<(Span, &'static str)>;
    type Err = Infallible;

    fn finish(self) -> Result<Self::Output, Infallible> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        match ast {
            Ast::ClassPerl(class) => self.class(class),
            Ast::Assertion(assertion) => {
                let Assertion { span, kind } = &**assertion;
                if *kind == AssertionKind::WordBoundary {
                    self.0.push((*span, r"(?-u:\b)"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        if let ClassSetItem::Perl(class) = item {
            self.class(class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_folded_is_what_ignores_case() {
        let all = u64::from(LAST_CASED) + 1;
        for (pattern, characters) in [
            (r"[a-z]\p{Any}", 0),
            ("(?i)word [a-z]+", 26),
            ("a(?i:[a-cx])", 3),
            (r"(?i)\p{Any}\pL", 2 * all),
            (r"(?i)[\p{Any}\x{0}-\x{10FFFF}]", 2 * all),
            ("(", 0),
        ] {
            assert_eq!(folded(pattern), characters, "{pattern}");
        }
    }

    #[test]
    fn shorthands_speak_of_ascii_and_nothing_else_changes() {
        for (pattern, expected) in [
            (r"^\w+ \d{2}$", r"^[0-9A-Za-z_]+ [0-9]{2}$"),
            (r"[\w.-]+@[^\s\d]", r"[[0-9A-Za-z_].-]+@[^[\t\n\f\r\x20][0-9]]"),
            (r"\bä\W(\D|\S)?", r"(?-u:\b)ä[^0-9A-Za-z_]([^0-9]|[^\t\n\f\r\x20])?"),
            (r"\\w[a-z]\p{L}.", r"\\w[a-z]\p{L}."),
            (r"(\w", r"(\w"),
        ] {
            assert_eq!(in_ascii(pattern), expected);
        }
        let matches =
            |pattern: &str, text: &str| regex::Regex::new(&in_ascii(pattern)).unwrap().is_match(text);
        assert!(matches(r"\Aa\w\s[\d_]\b", "ab 7") && !matches(r"\w|\d|\s", "ß٣\u{a0}"));
        assert!(matches(r"\A[^\w]\W[\W]\z", "äöü") && matches(r"a\bß", "aß"));
    }
}
