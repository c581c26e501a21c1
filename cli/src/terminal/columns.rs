//! Lines for people: text in columns, without control sequences for the terminal.

use crate::validate::printable;

/// A longer line is cut.
const LONGEST_LINE: usize = 4096;

/// One line, whatever other writers have put into the text (a status, a file): control characters are
/// escaped.
pub(crate) fn line(text: &str) -> String {
    printable(text, LONGEST_LINE)
}

/// Pads every cell to the width of its column, except the last cell of a line.
pub(crate) fn aligned<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    aligned_all(lines)
}

/// Aligns lines of any length, as [`aligned`] does; all lines must have as many cells as the first line.
pub(crate) fn aligned_all<L: AsRef<[String]>>(lines: &[L]) -> Vec<String> {
    let columns = lines.first().map_or(0, |line| line.as_ref().len());
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let padded = |cells: &L| {
        let cells: Vec<String> =
            cells.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        line(cells.join("   ").trim_end())
    };
    lines.iter().map(padded).collect()
}
