//! The table of our objects.

use super::ObjectRow;
use crate::terminal::{aligned, line};

/// A table for people: a line for each object, and its problems below the line.
pub fn table(rows: &[ObjectRow]) -> String {
    if rows.is_empty() {
        return "no rules, monitors or policies\n".into();
    }
    let header = ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "SUMMARY"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        [
            row.kind.to_owned(),
            if row.namespace.is_empty() { "-".into() } else { row.namespace.clone() },
            row.name.clone(),
            if row.ready == "True" && row.degraded { "Degraded".into() } else { row.ready.clone() },
            row.reason.clone(),
            row.summary.clone(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(cells).collect();
    let mut text = String::new();
    for (index, first) in aligned(&lines).iter().enumerate() {
        text.push_str(first);
        text.push('\n');
        if let Some(row) = index.checked_sub(1).and_then(|row| rows.get(row)) {
            if row.ready != "True" && !row.message.is_empty() {
                text.push_str(&(line(&format!("    {}", row.message)) + "\n"));
            }
            for problem in &row.problems {
                let said = format!("    {} {}: {}", problem.reason, problem.place(), problem.message);
                text.push_str(&(line(&said) + "\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Problem;

    #[test]
    fn what_a_status_says_stays_a_line() {
        let said = "\u{1b}[2Jgone\nCopyratorRule   home   other   True";
        let problem = Problem { reason: "Refused".into(), message: said.into(), ..Problem::default() };
        let mut row = ObjectRow::default();
        (row.ready, row.message, row.problems) = ("False".into(), said.into(), vec![problem]);
        let text = table(&[row]);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(!text.contains('\u{1b}') && text.matches("\\u{1b}[2Jgone").count() == 2, "{text}");
    }
}
