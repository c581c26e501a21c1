//! The formats that a policy can require of a value.

mod byte_order_mark;
mod docker;
pub(super) mod document;
mod key;
pub(super) mod pem;
mod pem_sections;
mod properties;
mod toml_text;
mod tree;
mod walk;

use copyrator_cel::{Pattern, PatternError};

use self::{byte_order_mark::no_mark, document::Document};
use super::{Budget, fault::Fault};
use crate::api::Format;

/// The highest cost of reading a byte of text, in nanoseconds.
const TEXT: u64 = 30;
const YAML: u64 = 300;
const KEY: u64 = 2_000;
/// The cost of computing a public key on the largest curve, in nanoseconds.
const CURVE: u64 = 1_500_000;
/// The cost of starting some of the parsers, in nanoseconds.
const BEGINNING: u64 = 5_000;
/// The highest cost of YAML anchors and their aliases, in nanoseconds.
const ALIASES: u64 = 50_000_000;

/// The highest cost of reading a value, in nanoseconds, except for a regular expression.
pub(super) fn reading(format: Format, value: &[u8]) -> u64 {
    let bytes = value.len() as u64;
    match format {
        Format::Yaml if value.contains(&b'&') => BEGINNING + ALIASES + YAML * bytes,
        Format::Yaml => BEGINNING + YAML * bytes,
        Format::PemCertificate => BEGINNING + KEY * bytes,
        Format::PemKey | Format::TlsPair => CURVE + KEY * bytes,
        Format::Json
        | Format::Toml
        | Format::Properties
        | Format::Url
        | Format::Integer
        | Format::Boolean
        | Format::Regex
        | Format::Dockerconfigjson => TEXT * bytes,
    }
}

/// Whether a value can be much larger in memory than its text while [`check`] reads it.
pub(super) fn unpacks(format: Format) -> bool {
    match format {
        Format::Yaml => true,
        Format::Json
        | Format::Toml
        | Format::Properties
        | Format::Url
        | Format::Integer
        | Format::Boolean
        | Format::Regex
        | Format::PemCertificate
        | Format::PemKey
        | Format::TlsPair
        | Format::Dockerconfigjson => false,
    }
}

/// Returns the fault of a value that exceeds a brief budget. No user sees this fault: the value is judged
/// again with more time.
pub(super) fn too_long() -> Fault {
    Fault::new("takes too long to parse", "shorten it")
}

/// Accepts a value in this format. [`pem::pair`] judges a pair of keys, and [`document::check`] judges
/// documents. Checks that cost more than reading the value deduct their cost from the budget.
pub(super) fn check(format: Format, value: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    budget.spend_if_brief(reading(format, value)).map_err(|_| too_long())?;
    match format {
        Format::PemCertificate => pem::certificates(value).map(|_| ()),
        Format::PemKey => pem::key(value).map(|_| ()),
        Format::TlsPair => text(value).map(|_| ()),
        Format::Json => document::check(Document::Json, text(value)?),
        Format::Yaml => document::check(Document::Yaml, text(value)?),
        Format::Toml => document::check(Document::Toml, text(value)?),
        Format::Properties => properties::check(text(value)?),
        Format::Dockerconfigjson => docker::check(text(value)?),
        Format::Url => url(text(value)?),
        Format::Integer => {
            let text = text(value)?;
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => Ok(()),
                false => {
                    Err(Fault::new("is not an integer", "write digits only, without spaces or a line break"))
                }
            }
        }
        Format::Boolean => match text(value)? {
            "true" | "false" => Ok(()),
            _ => Err(Fault::new(
                "is not a boolean",
                "write true or false, in lower case and without a line break",
            )),
        },
        Format::Regex => regex(text(value)?, budget),
    }
}

/// Returns the value as text; a fault for a value that is not UTF-8, or begins with a byte order mark.
pub(super) fn text(value: &[u8]) -> Result<&str, Fault> {
    no_mark(value)?;
    std::str::from_utf8(value)
        .map_err(|error| Fault::new("is not UTF-8 text", "write text").at(value, error.valid_up_to()))
}

fn regex(text: &str, budget: &mut Budget) -> Result<(), Fault> {
    match Pattern::within(text, budget) {
        Ok(_) => Ok(()),
        Err(PatternError::TooCostly) => Err(Fault::new(
            "cannot be parsed: the checks of this write exceeded their time budget",
            "shorten the value, or write fewer keys at once",
        )),
        Err(PatternError::TooLarge) => {
            Err(Fault::new("is a regular expression that is too large", "lower its repetition counts"))
        }
        Err(PatternError::Invalid) => {
            let fault = Fault::new(
                "is not a regular expression",
                "check its brackets and escapes; look-around and back-references are not supported",
            );
            match Pattern::error_offset(text) {
                Some(offset) => Err(fault.at(text.as_bytes(), offset)),
                None => Err(fault),
            }
        }
    }
}

fn url(text: &str) -> Result<(), Fault> {
    let fix = "write scheme://host/path without spaces or a line break";
    let Some((scheme, rest)) = text.split_once("://") else { return Err(Fault::new("is not a URL", fix)) };
    // The parser ignores the text from `#` on.
    let is_clean = !text.contains(|one: char| one.is_whitespace() || one.is_control());
    let scheme_is_fine = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b':'));
    let parsed = format!("http://{rest}").parse::<http::Uri>();
    match parsed {
        Ok(uri) if is_clean && scheme_is_fine && uri.host().is_some_and(|host| !host.is_empty()) => Ok(()),
        _ => Err(Fault::new("is not a URL", fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Position, *};

    fn judged(format: Format, value: &[u8]) -> Result<(), Fault> {
        check(format, value, &mut Budget::default())
    }

    fn is(format: Format, value: &str) -> bool {
        judged(format, value.as_bytes()).is_ok()
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
                Format::Toml,
                vec!["", "a = 1\n[b]\nc = [1979-05-27, 'x']\n[[d]]\ne.f = { g = inf }"],
                vec!["a", "a = 1\na = 2", "[a]\n[a]", "a = ", "a = 01", "a = \"\\q\""],
            ),
            (
                Format::Properties,
                vec!["", "# note\n! note\na = 1\nb: 2\nc 3\nd\n e=x\\\n  y\n\\u0041=\\u00e4\n\\ \\==1"],
                vec!["a=1\na=2", "a=1\n\\u0061=2", "a=\\u12", "a=\\u12g4", "=1"],
            ),
            (
                Format::Url,
                vec!["https://a.b/c?d=e", "postgres://u:p@db:5432/x", "http://[::1]:80"],
                vec!["a.b", "https://", "https://a b", "http://a\n", "http://a/b#c d", "http://a/b#c\n", ""],
            ),
            (Format::Integer, vec!["0", "-12", "+7"], vec!["", "-", "1.0", "1\n", "0x1"]),
            (Format::Boolean, vec!["true", "false"], vec!["True", "yes", "true\n"]),
            (Format::Regex, vec!["^a+$", ""], vec!["(", "((a{1000}){1000}){1000}"]),
            (
                Format::Dockerconfigjson,
                vec![
                    r#"{"auths":{"r.io":{"auth":"dTpw"}}}"#,
                    r#"{"auths":{"r.io":{"username":"u","password":"p","email":"e"}},"credHelpers":{}}"#,
                    r#"{"auths":{"a":{"auth":"dTpw"},"b":{"auth":"dTpwcA"}}}"#,
                ],
                vec![
                    "",
                    "{}",
                    "[]",
                    r#"{"auths":{}}"#,
                    r#"{"r.io":{"auth":"dTpw"}}"#,
                    r#"{"auths":{"r.io":{}}}"#,
                    r#"{"auths":{"r.io":{"auth":"u:p"}}}"#,
                    r#"{"auths":{"r.io":{"auth":"dXA="}}}"#,
                    r#"{"auths":{"r.io":{"auth":5}}}"#,
                    r#"{"auths":{"r.io":{"username":"u"}}}"#,
                    r#"{"auths":{"r.io":"dTpw"}}"#,
                ],
            ),
        ] {
            for value in good {
                assert!(is(format, value), "{format:?} {value:?}: {:?}", judged(format, value.as_bytes()));
            }
            for value in bad {
                assert!(!is(format, value), "{format:?} {value:?}");
            }
        }
    }

    /// Editors on Windows write a byte order mark; Java makes the mark part of the first key.
    #[test]
    fn a_byte_order_mark_is_told_of_in_every_format() {
        for format in [
            Format::Json,
            Format::Yaml,
            Format::Toml,
            Format::Properties,
            Format::Url,
            Format::Integer,
            Format::Boolean,
            Format::Regex,
            Format::Dockerconfigjson,
            Format::PemCertificate,
            Format::PemKey,
            Format::TlsPair,
        ] {
            for value in [&b"\xef\xbb\xbf1"[..], b"\xff\xfe1\0", b"\xfe\xff\x001"] {
                let fault = judged(format, value).unwrap_err();
                assert!(fault.what.contains("begins with a byte order mark"), "{format:?}: {}", fault.what);
                assert!(fault.fix.contains("without BOM") && fault.place.is_some(), "{format:?}");
            }
        }
    }

    #[test]
    fn a_document_is_judged_alike_with_and_without_a_schema() {
        let (json, yaml) = ((Format::Json, Document::Json), (Format::Yaml, Document::Yaml));
        let template = "has a map or list as a key, for example {{ … }} from an unrendered template";
        for ((format, document), text, says) in [
            (yaml, "b: 1\na: {{ .Values.x }}\n", Some((template, 2))),
            (yaml, "- {{ item }}\n", Some((template, 1))),
            (yaml, "a: {{ toYaml .Values.x | nindent 2 }}\n", Some((template, 1))),
            (yaml, "a: {{ lookup(\"x\") }}\n", Some((template, 1))),
            (yaml, "? {a: 1}\n: 2\n", Some((template, 1))),
            (yaml, "? [a, b]\n: 2\n", Some((template, 1))),
            (yaml, "a: \"{{ .Values.x }}\"\n", None),
            (yaml, "1: a\ntrue: b\n~: c\n1.5: d\n123456789012345678901234567890: e\n", None),
            (yaml, "a: !Ref b\nc: !!set {d}\n", None),
            (yaml, "a: 1\na: 2\n", Some(("has a duplicate key", 2))),
            (yaml, "1: a\n\"1\": b\n", Some(("has a duplicate key", 0))),
            (json, "{\"a\": 1,\n \"a\": 2}", Some(("has a duplicate key", 2))),
            (json, "{\"a\": {\"a\": 1}, \"b\": [{\"a\": 1}, {\"a\": 1}]}", None),
        ] {
            let said = |read: Result<(), Fault>| {
                read.err().map(|fault| (fault.what.into_owned(), fault.place.map_or(0, |at| at.line)))
            };
            let expected = says.map(|(what, line)| (what.to_owned(), line));
            assert_eq!(said(judged(format, text.as_bytes())), expected, "{text}");
            assert_eq!(said(document::read(document, text).map(drop)), expected, "{text}");
        }
    }

    #[test]
    fn faults_name_their_place() {
        for (format, value, line, column) in [
            (Format::Json, "{\n  \"a\": x\n}".as_bytes(), 2, 8),
            (Format::Yaml, b"a: 1\nb: @x\n", 2, 4),
            (Format::Toml, b"a = 1\nb = x\n", 2, 5),
            (Format::Toml, b"a = 1\n[b]\nc = 1\nc = 2\n", 4, 1),
            (Format::Properties, b"# note\na=1\nb=x\\\n  \\u00zz\n", 4, 3),
            (Format::Properties, b"a=1\r\n\r\na=2", 3, 1),
            (Format::Regex, b"a\n(b", 2, 1),
            (Format::Dockerconfigjson, b"{\"auths\":\n {\"a\":{\"auth\":\"dTpw\"},\n  \"b\":{}}}", 3, 7),
            (Format::Json, b"a\n\xff", 2, 1),
        ] {
            let fault = judged(format, value).unwrap_err();
            assert_eq!(fault.place, Some(Position { line, column }), "{format:?} {fault:?}");
        }
    }

    #[test]
    fn bombs_are_refused_without_being_unpacked() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let before = vec![format!("*a{}", level - 1); 9].join(", ");
            laughs += &format!("a{level}: &a{level} [{before}]\n");
        }
        let nested = |open: &str, close: &str, n: usize| open.repeat(n) + &close.repeat(n);
        // Each anchor is as deep as allowed, and contains the previous anchor.
        let anchors = |levels| {
            let (open, close) = ("[".repeat(50), "]".repeat(50));
            let held = (1..levels).map(|at| format!("a{at}: &a{at} {open}*a{}{close}\n", at - 1));
            format!("a0: &a0 {}\n", nested("[", "]", 50)) + &held.collect::<String>()
        };
        let deep: String = (0..2_000).map(|depth| " ".repeat(depth) + "a:\n").collect();
        for (format, value) in [
            (Format::Yaml, laughs),
            (Format::Yaml, "[".repeat(100_000)),
            (Format::Yaml, nested("[", "]", 5_000)),
            (Format::Yaml, deep),
            (Format::Yaml, anchors(3)),
            (Format::Yaml, anchors(30)),
            (Format::Yaml, anchors(400)),
            (Format::Json, nested("[", "]", 100_000)),
            (Format::Dockerconfigjson, format!("{{\"auths\":{}}}", nested("[", "]", 100_000))),
            (Format::Toml, "a=".to_owned() + &nested("[", "]", 100_000)),
            (Format::Toml, "a=".to_owned() + &nested("[", "]", 200)),
            (Format::Toml, "a=".to_owned() + &nested("{a=", "}", 50_000)),
            (Format::Toml, format!("a{} = 1", ".a".repeat(100_000))),
            (Format::Toml, format!("[a{}]", ".a".repeat(100_000))),
            (Format::Toml, format!("[[a{}]]", ".a".repeat(1_000))),
            (Format::Toml, "a=[".to_owned() + &"1,".repeat(500_000) + "]"),
        ] {
            assert!(!is(format, &value), "{format:?} {}", &value[..20]);
        }
        // The value is long, but otherwise harmless.
        let keys: String = (0..60_000).map(|key| format!("key{key}=\\u0041\n")).collect();
        assert!(is(Format::Properties, &keys) && is(Format::Properties, &"a\\\n".repeat(300_000)));
        assert!(is(Format::Properties, &("a=".to_owned() + &"\\".repeat(1_000_000))));
    }
}
