//! Byte order marks, which editors on Windows write.

use crate::validate::policy::fault::Fault;

/// Refuses a value that begins with a byte order mark: JSON, Java and OpenSSL do not accept the mark, and
/// other parsers read it as part of the first word.
pub(super) fn no_mark(value: &[u8]) -> Result<(), Fault> {
    let marks: [&[u8]; 3] = ["\u{feff}".as_bytes(), b"\xfe\xff", b"\xff\xfe"];
    if marks.into_iter().any(|mark| value.starts_with(mark)) {
        let what = "begins with a byte order mark (U+FEFF), which the format does not allow";
        return Err(Fault::new(what, "save the file as UTF-8 without BOM").at(value, 0));
    }
    Ok(())
}
