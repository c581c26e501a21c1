//! Figures as a table for the terminal.

use std::fmt::Write as _;

use crate::figures::{Budget, Figure, Judged, Report};

const HEAD: [&str; 7] = ["what", "budget", "min", "median", "max", "runs", ""];

/// The report as people read it: where and how it was measured, and the table.
pub(crate) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "`{}`, {} UTC, {:.0} s, commit {}.\nMachine: {} cores of {}, {} GB, Linux {}; others used {} % of it just \
         before.",
        report.command,
        report.began,
        report.seconds,
        machine.commit,
        machine.cores,
        machine.processor,
        machine.memory_gb,
        machine.kernel,
        machine.busy_before_percent,
    );
    if !report.program.serve_flags.is_empty() {
        let _ = write!(text, " With `{}`.", report.program.serve_flags.join(" "));
    }
    text.push_str("\n\n");
    text.push_str(&table(&report.figures));
    text
}

fn table(figures: &[Figure]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(figures.iter().map(row));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3);
    let widths: [usize; 7] = std::array::from_fn(width);
    rows.insert(1, std::array::from_fn(|column| "-".repeat(widths[column])));
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
    }
    text
}

fn row(figure: &Figure) -> [String; 7] {
    let show = |value: f64| with_unit(value, figure.unit);
    let budget = figure.budget.map(|Budget { at_most, judged }| match judged {
        Judged::Median => format!("≤ {}", show(at_most)),
        Judged::Max => format!("always ≤ {}", show(at_most)),
    });
    let verdict = match figure.met {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    };
    [
        figure.what.clone(),
        budget.unwrap_or_default(),
        show(figure.summary.min),
        show(figure.summary.median),
        show(figure.summary.max),
        figure.runs.len().to_string(),
        verdict.to_owned(),
    ]
}

/// Three digits that say something, and whole numbers as such.
fn with_unit(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.digits$}{space}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn a_table_shows_what_is_met_and_what_is_missed() {
        let mut figures = Figures::default();
        for value in [1.125, 1.25] {
            figures.add_with("ours ÷ bare", "×", Budget::median(1.0), value);
            figures.add_with("writes", "", Budget::every(0.0), 0.0);
            figures.add("seconds", "s", 100.0 * value);
        }
        let expected = "\
| what        | budget     | min    | median | max    | runs |            |
| ----------- | ---------- | ------ | ------ | ------ | ---- | ---------- |
| ours ÷ bare | ≤ 1 ×      | 1.12 × | 1.19 × | 1.25 × | 2    | **missed** |
| writes      | always ≤ 0 | 0      | 0      | 0      | 2    | met        |
| seconds     |            | 112 s  | 119 s  | 125 s  | 2    |            |
";
        assert_eq!(table(&figures.finish(true)), expected);
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 0.017, 1.234, 12.34, 123.4, 1200.0].map(|value| with_unit(value, "ms"));
        assert_eq!(shown, ["0 ms", "0.02 ms", "1.23 ms", "12.3 ms", "123 ms", "1200 ms"]);
    }
}
