//! What a CEL expression speaks of, read from its syntax tree before it ever runs.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// How deep comprehensions (`all`, `exists`, `map`, …) may nest: each level multiplies the work.
const DEEPEST_LOOP: usize = 2;
/// How deep the tree may be: evaluating takes stack for each level.
const DEEPEST_TREE: usize = 32;

/// What an expression speaks of.
#[derive(Debug, Default)]
pub(super) struct Terms<'e> {
    /// Variables that it does not bind itself.
    pub(super) variables: BTreeSet<&'e str>,
    /// Functions, by the name they are registered under.
    pub(super) functions: BTreeSet<String>,
    /// The keys of `text` that it names literally.
    pub(super) text_keys: BTreeSet<&'e str>,
    /// It uses `text` in another way, so that any key may matter.
    pub(super) whole_text: bool,
    /// Comprehensions nest too deep.
    pub(super) is_too_costly: bool,
    /// The tree is too deep; the other fields say nothing then.
    pub(super) is_too_deep: bool,
    bound: Vec<&'e str>,
    loops: usize,
    level: usize,
}

/// Namespaces of functions, which look like variables.
const LIBRARIES: [&str; 7] = ["math", "sets", "base64", "jsonpatch", "optional", "lists", "format"];

impl<'e> Terms<'e> {
    pub(super) fn of(expression: &'e IdedExpr) -> Self {
        let mut terms = Self::default();
        terms.visit(&expression.expr);
        terms
    }

    fn visit(&mut self, expr: &'e Expr) {
        self.level += 1;
        self.is_too_deep |= self.level > DEEPEST_TREE;
        if !self.is_too_deep {
            self.visit_parts(expr);
        }
        self.level -= 1;
    }

    fn visit_parts(&mut self, expr: &'e Expr) {
        match expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) if is_text(&select.operand) && !self.bound.contains(&"text") => {
                self.variables.insert("text");
                self.text_keys.insert(&select.field);
            }
            Expr::Select(select) => self.visit(&select.operand.expr),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(&element.expr)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(fields) => fields.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(all) => {
                self.visit(&all.iter_range.expr);
                self.visit(&all.accu_init.expr);
                let names = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
                let before = self.bound.len();
                self.bound.extend(names.into_iter().flatten().map(String::as_str));
                self.loops += 1;
                self.is_too_costly |= self.loops > DEEPEST_LOOP;
                for part in [&all.loop_cond, &all.loop_step, &all.result] {
                    self.visit(&part.expr);
                }
                self.loops -= 1;
                self.bound.truncate(before);
            }
        }
    }

    fn entry(&mut self, entry: &'e EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value.expr),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key.expr);
                self.visit(&entry.value.expr);
            }
        }
    }

    fn call(&mut self, call: &'e CallExpr) {
        if let Some(key) = named_key(call)
            && !self.bound.contains(&"text")
        {
            self.variables.insert("text");
            self.text_keys.insert(key);
            return;
        }
        match call.target.as_ref().map(|target| &target.expr) {
            Some(Expr::Ident(library))
                if LIBRARIES.contains(&library.as_str()) && !self.bound.contains(&library.as_str()) =>
            {
                self.functions.insert(format!("{library}.{}", call.func_name));
            }
            target => {
                if !is_operator(&call.func_name) {
                    self.functions.insert(call.func_name.clone());
                }
                if let Some(target) = target {
                    self.visit(target);
                }
            }
        }
        call.args.iter().for_each(|argument| self.visit(&argument.expr));
    }

    fn variable(&mut self, name: &'e str) {
        if self.bound.contains(&name) || name.starts_with('@') {
            return;
        }
        self.variables.insert(name);
        self.whole_text |= name == "text";
    }
}

/// `text['key']`, `text[?'key']`, `text.?key` or `'key' in text`: the key.
fn named_key(call: &CallExpr) -> Option<&str> {
    let [left, right] = call.args.as_slice() else { return None };
    let (map, key) = match call.func_name.as_str() {
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => (left, right),
        operators::IN => (right, left),
        _ => return None,
    };
    match &key.expr {
        Expr::Literal(LiteralValue::String(key)) if is_text(map) => Some(key.inner()),
        _ => None,
    }
}

fn is_text(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "text")
}

fn is_operator(name: &str) -> bool {
    name.contains(['_', '@', '!', '-', '?'])
}
