//! Aligns text in columns.

use crate::validate::printable;

/// Control characters that others have written (in a status) must not reach a terminal, so each line is
/// escaped, and cut at this length.
const LONGEST_LINE: usize = 4096;

/// Pads every cell to the width of its column; the last one of a line is not padded.
pub(crate) fn aligned<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    aligned_all(lines)
}

/// The same for lines of any length; all must have as many cells as the first.
pub(crate) fn aligned_all<L: AsRef<[String]>>(lines: &[L]) -> Vec<String> {
    let columns = lines.first().map_or(0, |line| line.as_ref().len());
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let padded = |line: &L| {
        let cells: Vec<String> =
            line.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        printable(cells.join("   ").trim_end(), LONGEST_LINE)
    };
    lines.iter().map(padded).collect()
}
