//! A text that nobody writes, put into the values of an object: no part of it may come out.

use base64::{Engine as _, engine::general_purpose::STANDARD};

const CANARY: &str = "Zq7XvK2pWm9T";
/// So much of it in a row is no accident.
const TELLING: usize = 8;

/// Whether the fuzzer has found it out.
pub fn is_in(input: &[u8]) -> bool {
    windows(CANARY.as_bytes()).any(|part| contains(input, part))
}

/// The value with the canary in its middle, or before its first line break: where a parser stumbles, its message would quote that.
pub fn put_into(value: &str) -> String {
    let middle = value.find('\n').unwrap_or(value.len() / 2);
    let at = (0..=middle).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{CANARY}{}", &value[..at], &value[at..])
}

/// Panics if a text holds a telling part of it, in plain or in Base64.
pub fn assert_kept_from(text: &str, what: &str) {
    let plain = windows(CANARY.as_bytes()).any(|part| contains(text.as_bytes(), part));
    let encoded = (0..3).any(|before| {
        let padded = STANDARD.encode(format!("{}{CANARY}", "x".repeat(before)));
        // The first digits and the last ones hang on what stands around it.
        windows(&padded.as_bytes()[4..16]).any(|part| contains(text.as_bytes(), part))
    });
    assert!(!plain && !encoded, "{what} quotes a value: {text}");
}

fn windows(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.windows(TELLING)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
