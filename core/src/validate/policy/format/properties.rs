//! Java's `.properties` format, by the rules of `java.util.Properties.load`, except that a key may occur only
//! once.

use std::{collections::HashSet, iter::Peekable, str::CharIndices};

use crate::validate::policy::fault::Fault;

/// Accepts a text in the format of a properties file.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let mut reader = Reader { text, rest: text.char_indices().peekable() };
    let mut keys = HashSet::new();
    while let Some(start) = reader.next_line() {
        let key = reader.key()?;
        let fault = |what, fix| Err(Fault::new(what, fix).at(text.as_bytes(), start));
        if key.is_empty() {
            return fault("has a line without a key", "write key=value");
        }
        if !keys.insert(key) {
            return fault("has a duplicate key", "keep one of the lines");
        }
        while reader.character(|_| false)?.is_some() {}
    }
    Ok(())
}

struct Reader<'t> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().map(|(_, character)| *character)
    }

    /// Skips white space, empty lines and comments.
    fn next_line(&mut self) -> Option<usize> {
        loop {
            while self.rest.next_if(|(_, next)| is_blank(*next) || is_line_end(*next)).is_some() {}
            match self.rest.peek()? {
                (_, '#' | '!') => while self.rest.next_if(|(_, next)| !is_line_end(*next)).is_some() {},
                (start, _) => return Some(*start),
            }
        }
    }

    fn key(&mut self) -> Result<String, Fault> {
        let mut key = String::new();
        while let Some(character) = self.character(|next| is_blank(next) || matches!(next, '=' | ':'))? {
            key.push(character);
        }
        Ok(key)
    }

    /// Reads the next character of this logical line, unless it ends the key or value. Resolves escapes and
    /// joins continued lines.
    fn character(&mut self, ends: impl Fn(char) -> bool) -> Result<Option<char>, Fault> {
        loop {
            let Some((offset, next)) = self.rest.next_if(|(_, next)| !is_line_end(*next) && !ends(*next))
            else {
                return Ok(None);
            };
            if next != '\\' {
                return Ok(Some(next));
            }
            match self.rest.next() {
                None => return Ok(None),
                Some((_, end)) if is_line_end(end) => {
                    if end == '\r' {
                        self.rest.next_if(|(_, next)| *next == '\n');
                    }
                    while self.rest.next_if(|(_, next)| is_blank(*next)).is_some() {}
                }
                Some((_, 'u')) => return self.unicode(offset).map(Some),
                Some((_, 't')) => return Ok(Some('\t')),
                Some((_, 'n')) => return Ok(Some('\n')),
                Some((_, 'r')) => return Ok(Some('\r')),
                Some((_, 'f')) => return Ok(Some('\u{c}')),
                Some((_, other)) => return Ok(Some(other)),
            }
        }
    }

    /// Reads a `\u` escape. Half of a surrogate pair is read as a character: only the equality of keys
    /// matters.
    fn unicode(&mut self, offset: usize) -> Result<char, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|digit| digit.to_digit(16)).ok_or_else(|| {
                Fault::new(r"has \u without four hexadecimal digits", r"write \uXXXX, or \\ for a backslash")
                    .at(self.text.as_bytes(), offset)
            })?;
            self.rest.next();
            code = code * 16 + digit;
        }
        // Surrogates are not characters, so they are mapped to a range without surrogates.
        Ok(char::from_u32(code)
            .or_else(|| char::from_u32(0x10_0000 + code))
            .unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r')
}
