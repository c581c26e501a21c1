//! The formats that a value can be required to have.

use super::{Place, pattern::Pattern, pem, walk::Walked};
use crate::api::Format;

/// What is wrong with a value, where, and what to write instead. Holds no part of the value.
pub(super) struct Fault {
    pub(super) what: &'static str,
    pub(super) fix: &'static str,
    pub(super) place: Option<Place>,
}

fn fault(what: &'static str, fix: &'static str) -> Fault {
    Fault { what, fix, place: None }
}

/// Whether a value is of a format. A pair of keys is judged by [`pem::pair`] instead.
pub(super) fn check(format: Format, value: &[u8]) -> Result<(), Fault> {
    if format == Format::PemCertificate {
        return pem::certificates(value).map(|_| ());
    }
    let text = std::str::from_utf8(value).map_err(|error| Fault {
        what: "is not UTF-8 text",
        fix: "write text",
        place: Some(place_of_byte(value, error.valid_up_to())),
    })?;
    match format {
        Format::Json => json(text),
        Format::Yaml => yaml(text),
        Format::Url => url(text),
        Format::Integer => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => Ok(()),
                false => Err(fault("is no integer", "write digits only, without spaces or a line break")),
            }
        }
        Format::Boolean => match text {
            "true" | "false" => Ok(()),
            _ => Err(fault("is no boolean", "write true or false, in lower case and without a line break")),
        },
        Format::Regex => match Pattern::somewhere(text) {
            Ok(_) => Ok(()),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err(fault("is too large a regular expression", "lower its repetition counts"))
            }
            Err(_) => Err(fault(
                "is no regular expression",
                "check its brackets and escapes; look-around and back-references are not taken",
            )),
        },
        Format::PemCertificate | Format::TlsPair => Ok(()),
    }
}

fn json(text: &str) -> Result<(), Fault> {
    serde_json::from_str::<Walked>(text).map(|_| ()).map_err(|error| Fault {
        what: match error.classify() {
            serde_json::error::Category::Eof => "is JSON that ends too early",
            _ => "is no valid JSON, or nests more than 128 levels",
        },
        fix: "correct the document there",
        place: Some(Place { line: error.line() as u64, column: error.column() as u64 }),
    })
}

fn yaml(text: &str) -> Result<(), Fault> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: yaml_budget(),
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    serde_saphyr::from_multiple_with_options::<Walked>(text, options).map(|_| ()).map_err(|error| {
        let place = error.location().map(|at| Place { line: at.line(), column: at.column() });
        Fault {
            what: "is no valid YAML, has a key twice, or nests or expands beyond the limits",
            fix: "correct the document there",
            place,
        }
    })
}

fn yaml_budget() -> Option<serde_saphyr::Budget> {
    serde_saphyr::budget! {
        max_depth: 64,
        max_aliases: 1_000,
        max_anchors: 1_000,
    }
}

fn url(text: &str) -> Result<(), Fault> {
    let fix = "write scheme://host and what follows, without spaces or a line break";
    let Some((scheme, rest)) = text.split_once("://") else { return Err(fault("is no URL", fix)) };
    // The parser drops what follows `#` unread.
    let is_clean = !text.contains(|one: char| one.is_whitespace() || one.is_control());
    let scheme_is_fine = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b':'));
    let parsed = format!("http://{rest}").parse::<http::Uri>();
    match parsed {
        Ok(uri) if is_clean && scheme_is_fine && uri.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        _ => Err(fault("is no URL", fix)),
    }
}

fn place_of_byte(value: &[u8], offset: usize) -> Place {
    let before = &value[..offset];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    Place { line: lines as u64 + 1, column: (offset - line_start) as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(format: Format, value: &str) -> bool {
        check(format, value.as_bytes()).is_ok()
    }

    #[test]
    fn formats_take_what_they_name() {
        for (format, good, bad) in [
            (Format::Json, vec!["{}", "[1,null,\"a\"]", "1.5"], vec!["", "{", "{} x", "{'a':1}"]),
            (
                Format::Yaml,
                vec!["a: 1\nb: [x, y]\n", "---\na: 1\n---\nb: 2\n", ""],
                vec!["a: [", "a: 1\n b: 2", "a: 1\na: 2"],
            ),
            (
                Format::Url,
                vec!["https://a.b/c?d=e", "postgres://u:p@db:5432/x", "http://[::1]:80"],
                vec!["a.b", "https://", "https://a b", "http://a\n", "http://a/b#c d", "http://a/b#c\n", ""],
            ),
            (Format::Integer, vec!["0", "-12", "+7"], vec!["", "-", "1.0", "1\n", "0x1"]),
            (Format::Boolean, vec!["true", "false"], vec!["True", "yes", "true\n"]),
            (Format::Regex, vec!["^a+$", ""], vec!["(", "((a{1000}){1000}){1000}"]),
        ] {
            for value in good {
                assert!(is(format, value), "{format:?} {value:?}");
            }
            for value in bad {
                assert!(!is(format, value), "{format:?} {value:?}");
            }
        }
    }

    #[test]
    fn faults_name_their_place() {
        let place = |format, value: &[u8]| check(format, value).err().and_then(|fault| fault.place).unwrap();
        assert_eq!(place(Format::Json, b"{\n  \"a\": x\n}").line, 2);
        assert_eq!(place(Format::Yaml, b"a: 1\nb: @x\n").line, 2);
        assert_eq!(place(Format::Json, b"a\n\xff"), Place { line: 2, column: 1 });
    }

    #[test]
    fn bombs_are_refused_without_being_unpacked() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let before = vec![format!("*a{}", level - 1); 9].join(", ");
            laughs += &format!("a{level}: &a{level} [{before}]\n");
        }
        assert!(!is(Format::Yaml, &laughs));
        assert!(!is(Format::Yaml, &"[".repeat(100_000)));
        assert!(!is(Format::Yaml, &("[".repeat(5_000) + &"]".repeat(5_000))));
        assert!(!is(Format::Json, &("[".repeat(100_000) + &"]".repeat(100_000))));
        let deep: String = (0..2_000).map(|depth| " ".repeat(depth) + "a:\n").collect();
        assert!(!is(Format::Yaml, &deep));
    }
}
