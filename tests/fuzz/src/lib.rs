//! What must hold whatever comes in: one file a target. A target is a function of bytes that panics where something does
//! not hold. libFuzzer calls it with what it makes up (`make fuzz`), `tests/fuzz/replay.rs` with what is in `seeds/`.

pub mod canary;
pub mod cel;
pub mod formats;
pub mod globs;
pub mod lists;
pub mod pem;
pub mod policy;
pub mod review;
pub mod template;
pub mod webhook;

/// A target: from an input to a panic, or none.
pub type Check = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Check); 8] = [
    ("cel", cel::check),
    ("formats", formats::check),
    ("globs", globs::check),
    ("lists", lists::check),
    ("pem", pem::check),
    ("policy", policy::check),
    ("review", review::check),
    ("template", template::check),
];

/// What stands between the parts of an input.
pub const CUT: &str = "\n----\n";

/// The parts of an input that is text.
pub fn parts(input: &[u8]) -> Option<Vec<&str>> {
    Some(std::str::from_utf8(input).ok()?.split(CUT).collect())
}
