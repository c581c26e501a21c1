//! The sections of a PEM text, as OpenSSL and Go read them. A section that OpenSSL or Go would skip or refuse
//! is a fault.

use base64::{
    Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use super::byte_order_mark::no_mark;
use crate::validate::policy::{Position, fault::Fault};

/// Base64 as OpenSSL and Go decode it, with required padding and ignored trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);
/// The length of the lines after a blank line. OpenSSL reads the lines before the blank line as a header, and
/// checks the length of the lines after a header.
const HEADED_LINE: usize = 64;

/// One section.
pub(super) struct Section {
    /// The label of the section's BEGIN and END lines, such as `CERTIFICATE`.
    pub(super) label: String,
    /// The position of the section's BEGIN line.
    pub(super) place: Position,
    /// The section's content; `None` if a header says that the content is encrypted.
    pub(super) content: Option<Vec<u8>>,
}

/// A section whose END line has not come yet.
struct Open<'v> {
    /// The label of the section's BEGIN line.
    label: &'v [u8],
    /// The position of the section's BEGIN line.
    place: Position,
    /// The lines of the section's content so far.
    lines: Vec<&'v [u8]>,
}

/// Reads all sections. Other text may be between sections.
pub(super) fn sections(value: &[u8]) -> Result<Vec<Section>, Fault> {
    no_mark(value)?;
    let mut sections = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for (line, place) in value.split(|byte| *byte == b'\n').zip(1..) {
        let (line, place) = (line.trim_ascii_end(), Position { line: place, column: 1 });
        open = match (open, dashed(line)) {
            (None, Dashed::No) => None,
            (None, Dashed::Begin(label)) => Some(Open { label, place, lines: Vec::new() }),
            (Some(mut section), Dashed::No) => {
                section.lines.push(line);
                Some(section)
            }
            (Some(section), Dashed::End(end)) if end == section.label => {
                let Open { label, place, lines } = section;
                let content = content(&lines).ok_or_else(|| damaged(place))?;
                let label = String::from_utf8_lossy(label).into_owned();
                sections.push(Section { label, place, content });
                None
            }
            (_, Dashed::Other) => return Err(shared_line(place)),
            (_, Dashed::Begin(_) | Dashed::End(_)) => return Err(damaged(place)),
        };
    }
    match open {
        Some(section) => Err(damaged(section.place)),
        None => Ok(sections),
    }
}

/// A line, classified by its marker: five dashes with BEGIN or END.
enum Dashed<'l> {
    No,
    /// The whole line begins a section with this label.
    Begin(&'l [u8]),
    /// The whole line ends a section with this label.
    End(&'l [u8]),
    /// The line has a marker and other text.
    Other,
}

fn dashed(line: &[u8]) -> Dashed<'_> {
    let has = |word: &[u8]| line.windows(word.len()).any(|part| part == word);
    let between = |word: &[u8]| {
        let label = line.strip_prefix(word)?.strip_suffix(b"-----")?;
        (!label.windows(5).any(|part| part == b"-----")).then_some(label)
    };
    match (between(b"-----BEGIN "), between(b"-----END ")) {
        (Some(label), _) => Dashed::Begin(label),
        (_, Some(label)) => Dashed::End(label),
        _ if has(b"-----BEGIN") || has(b"-----END") => Dashed::Other,
        _ => Dashed::No,
    }
}

/// Returns the content of a section's lines; `None` for damaged lines, `Some(None)` for encrypted lines.
fn content(lines: &[&[u8]]) -> Option<Option<Vec<u8>>> {
    let blank = lines.iter().position(|line| line.is_empty());
    let (header, lines) = blank.map_or((&[][..], lines), |at| (&lines[..at], &lines[at + 1..]));
    if !header.is_empty() {
        let is_encrypted = header.iter().any(|line| line.starts_with(b"Proc-Type: 4,ENCRYPTED"));
        return is_encrypted.then_some(None);
    }
    let is_even = |lines: &[&[u8]]| {
        let (last, others) = lines.split_last()?;
        (last.len() <= HEADED_LINE && others.iter().all(|line| line.len() == HEADED_LINE)).then_some(())
    };
    if lines.iter().any(|line| line.is_empty()) || (blank.is_some() && is_even(lines).is_none()) {
        return None;
    }
    let text: Vec<u8> =
        lines.iter().flat_map(|line| *line).copied().filter(|byte| !b" \t".contains(byte)).collect();
    BASE64.decode(text).ok().map(Some)
}

fn shared_line(place: Position) -> Fault {
    let fault = Fault::new(
        "has a damaged PEM section: a BEGIN or END line contains other text",
        "put each BEGIN and END line on its own line; if you joined files, end each file with a line break",
    );
    Fault { place: Some(place), ..fault }
}

fn damaged(place: Position) -> Fault {
    let fault = Fault::new(
        "has a damaged PEM section",
        "each section needs matching BEGIN and END lines, and base64 without blank lines between them",
    );
    Fault { place: Some(place), ..fault }
}

#[cfg(test)]
mod tests {
    use super::super::pem::certificates;
    use crate::validate::policy::Position;

    const CERTIFICATE: &str = include_str!("fixtures/p256.crt");
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";

    fn body() -> Vec<&'static str> {
        CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect()
    }

    fn of_lines(lines: &[&str]) -> String {
        format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
    }

    /// OpenSSL 3.0 (in Python's `load_cert_chain`) and Go 1.26 (`tls.X509KeyPair`) accept all of these texts.
    #[test]
    fn what_openssl_and_go_take_is_taken() {
        let (body, joined) = (body(), body().concat());
        for text in [
            CERTIFICATE.to_owned(),
            CERTIFICATE.repeat(2),
            CERTIFICATE.trim_end().to_owned(),
            CERTIFICATE.replace('\n', "\r\n"),
            format!("subject=a\nissuer: b\n\n{CERTIFICATE}and so on"),
            CERTIFICATE.replace(BEGIN, &format!("{BEGIN} \t")).replace(END, &format!("{END}  ")),
            of_lines(&[&joined]),
            of_lines(
                &body
                    .iter()
                    .flat_map(|line| [&line[..line.len() / 2], &line[line.len() / 2..]])
                    .collect::<Vec<_>>(),
            ),
            CERTIFICATE.replace(BEGIN, &format!("{BEGIN}\n")),
            CERTIFICATE.replace("\nMII", "\n  M II"),
            format!("-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n{CERTIFICATE}"),
            format!("{}{CERTIFICATE}", include_str!("fixtures/p521.key")),
        ] {
            let said = certificates(text.as_bytes()).map(drop).map_err(|fault| fault.what.into_owned());
            assert_eq!(said, Ok(()), "{text}");
        }
    }

    /// OpenSSL or Go refuses each of these texts, or ignores a certificate in it.
    #[test]
    fn what_one_of_them_does_not_take_is_refused_with_its_line() {
        let body = body();
        let shared = "has a damaged PEM section: a BEGIN or END line contains other text";
        let damaged = "has a damaged PEM section";
        let none = "has no certificate";
        let with = |at: usize, line: &'static str| {
            let mut lines = body.clone();
            lines.insert(at, line);
            of_lines(&lines)
        };
        let last = body.len() as u64 + 2;
        for (text, what, line) in [
            (format!("{}{CERTIFICATE}", CERTIFICATE.trim_end()), shared, last),
            (CERTIFICATE.replace('\n', "\r"), shared, 1),
            (format!("x {CERTIFICATE}"), shared, 1),
            (CERTIFICATE.replace('\n', "\n "), shared, last),
            (CERTIFICATE.replace(END, &format!("{END}x")), shared, last),
            (CERTIFICATE.replace(END, &format!(" {END}")), shared, last),
            (CERTIFICATE.replace(BEGIN, &BEGIN[..BEGIN.len() - 1]), shared, 1),
            (CERTIFICATE.replace(BEGIN, &format!("-{BEGIN}")), shared, 1),
            (format!("{CERTIFICATE}\u{feff}{CERTIFICATE}"), shared, last + 1),
            (CERTIFICATE.replace(BEGIN, &BEGIN[1..]), damaged, last),
            (CERTIFICATE.replace(END, "-----END X509 CERTIFICATE-----"), damaged, last),
            (CERTIFICATE.replace(END, "").repeat(2), damaged, last + 1),
            (CERTIFICATE.replace(END, ""), damaged, 1),
            (with(1, ""), damaged, 1),
            (with(1, "  "), damaged, 1),
            (with(body.len(), ""), damaged, 1),
            (with(1, "AA!A"), damaged, 1),
            (with(1, "AA=="), damaged, 1),
            (with(0, "X: y\n"), damaged, 1),
            (of_lines(&["", &body.concat()]), damaged, 1),
            (
                format!("{CERTIFICATE}-----BEGIN DH PARAMETERS-----\n!\n-----END DH PARAMETERS-----\n"),
                damaged,
                last + 1,
            ),
            (CERTIFICATE.replace("-----", "—————"), none, 0),
            (CERTIFICATE.replace("CERTIFICATE", "TRUSTED CERTIFICATE"), none, 0),
            (CERTIFICATE.replace("CERTIFICATE", "certificate"), none, 0),
            (format!("{BEGIN}\n{END}\n"), "has a PEM section that is not an X.509 certificate", 1),
        ] {
            let fault = certificates(text.as_bytes()).map(drop).unwrap_err();
            let said = (&*fault.what, fault.place.map_or(0, |Position { line, .. }| line));
            assert_eq!(said, (what, line), "{text}");
        }
    }
}
