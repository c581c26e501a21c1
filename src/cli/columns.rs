//! Text in columns.

use crate::validate::printable;

/// Of what others have written (a status) a terminal obeys nothing.
const LONGEST_LINE: usize = 4096;

/// Pads every cell to the width of its column; the last one of a line is not padded.
pub(super) fn aligned<const N: usize>(lines: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    });
    let padded = |line: &[String; N]| {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        printable(cells.join("   ").trim_end(), LONGEST_LINE)
    };
    lines.iter().map(padded).collect()
}
