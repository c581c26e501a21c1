//! Trees for people: a line for each object, and numbered notes below all lines.

use super::grow::{Forest, Node};
use crate::terminal::line;

/// The colour of nodes with notes.
const NOTED: u8 = 33;

/// Renders trees; `wide` with the state of every node.
pub(super) fn draw(forest: &Forest, wide: bool, colour: bool) -> String {
    let mut pen = Pen { text: String::new(), wide, colour };
    for root in &forest.roots {
        pen.line("", root);
        pen.children("", root);
    }
    if !forest.notes.is_empty() {
        pen.text.push('\n');
    }
    for note in &forest.notes {
        let said = match note.message.as_str() {
            "" => note.reason.clone(),
            message => format!("{}: {message}", note.reason),
        };
        pen.text.push_str(&line(&format!("{}) {said}", note.number)));
        pen.text.push('\n');
    }
    pen.text
}

struct Pen {
    text: String,
    wide: bool,
    colour: bool,
}

impl Pen {
    fn children(&mut self, indent: &str, node: &Node) {
        for (index, child) in node.children.iter().enumerate() {
            let is_last = index + 1 == node.children.len();
            self.line(&format!("{indent}{}", if is_last { "└── " } else { "├── " }), child);
            self.children(&format!("{indent}{}", if is_last { "    " } else { "│   " }), child);
        }
    }

    fn line(&mut self, indent: &str, node: &Node) {
        let mut words = match node.kind.as_str() {
            "Pods" => format!("Pods of ConfigMonitor {}/{}", node.namespace, node.name),
            kind => format!("{kind} {}/{}", node.namespace, node.name),
        };
        if let Some(rule) = &node.rule {
            words.push_str(&format!(", by {rule}"));
        }
        if let Some(state) = node.state.as_ref().filter(|_| self.wide) {
            words.push_str(&format!(", {state}"));
        }
        if !node.notes.is_empty() {
            let numbers: Vec<String> = node.notes.iter().map(ToString::to_string).collect();
            words.push_str(&format!(" ({})", numbers.join(",")));
        }
        let words = line(&words);
        match self.colour && !node.notes.is_empty() {
            true => self.text.push_str(&format!("{indent}\x1b[{NOTED}m{words}\x1b[0m\n")),
            false => self.text.push_str(&format!("{indent}{words}\n")),
        }
    }
}
