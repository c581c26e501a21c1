//! A JUnit test report: one suite for each file, one test case for each object.

use std::fmt::Write as _;

use super::report::{Finding, Judged, Level, Report};

/// Renders a report. With `strict`, warnings, audit notes and unknown results are failures, too.
pub(super) fn junit(report: &Report, strict: bool) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let failures = |objects: &[Judged]| objects.iter().filter(|object| object.is_failed(strict)).count();
    let (tests, failed) = (report.objects.len(), failures(&report.objects));
    line(
        &mut text,
        format_args!("<testsuites name=\"copyrator check\" tests=\"{tests}\" failures=\"{failed}\">"),
    );
    for suite in report.objects.chunk_by(|one, other| one.place.file == other.place.file) {
        let (file, tests, failed) = (escaped(&suite[0].place.file), suite.len(), failures(suite));
        line(
            &mut text,
            format_args!("  <testsuite name=\"{file}\" tests=\"{tests}\" failures=\"{failed}\">"),
        );
        suite.iter().for_each(|object| case(&mut text, &file, object, strict));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(text: &mut String, file: &str, object: &Judged, strict: bool) {
    let (title, at) = (escaped(&object.title()), object.place.line);
    line(
        text,
        format_args!("    <testcase name=\"{title}\" classname=\"{file}\" file=\"{file}\" line=\"{at}\">"),
    );
    let fails = |finding: &&Finding| strict || finding.level == Level::Refused;
    let (failed, told): (Vec<&Finding>, Vec<&Finding>) = object.findings.iter().partition(fails);
    let all = |findings: &[&Finding]| {
        escaped(&findings.iter().map(|finding| finding.message.as_str()).collect::<Vec<_>>().join("\n"))
    };
    if let [first, ..] = failed.as_slice() {
        let rule = escaped(&first.rule_id());
        let all = all(&failed);
        line(
            text,
            format_args!(
                "      <failure type=\"{rule}\" message=\"{}\">{all}</failure>",
                escaped(&first.message)
            ),
        );
    }
    if !told.is_empty() {
        line(text, format_args!("      <system-out>{}</system-out>", all(&told)));
    }
    text.push_str("    </testcase>\n");
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a text never fails.
    let _ = text.write_fmt(what);
    text.push('\n');
}

/// Escapes a text for XML, also within attributes. Characters that XML cannot contain are dropped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => {}
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_escaped_or_left_out() {
        assert_eq!(escaped("<a b=\"c\">&\u{1}\u{ffff}\nd"), "&lt;a b=&quot;c&quot;&gt;&amp;&#10;d");
    }
}
