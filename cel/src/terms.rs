//! Variables and functions that a CEL expression uses, read from its syntax tree before it ever runs.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// The longest expression, in bytes.
pub(crate) const LONGEST: usize = 4096;
/// How deep comprehensions (`all`, `exists`, `map`, …) may nest: each level multiplies the work.
pub(crate) const DEEPEST_LOOP: usize = 2;
/// How deep the tree may be: evaluating takes stack for each level.
const DEEPEST_TREE: usize = 32;

/// Identifiers that the language reserves: no variable has such a name, and a field of such a name is read by
/// index (<https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax>).
pub const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// A variable that an expression reads, and the fields and keys that follow it as literals:
/// `object.data['a'].?b` is `object` and `data`, `a`, `b`. The expression `'b' in object.data.a` gives the
/// same path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The name of the variable.
    pub variable: String,
    /// Fields and keys; none where the whole variable is read.
    pub steps: Vec<String>,
    /// How many of the steps must exist for the expression to have a value: those before the first that is
    /// optional (`.?b`) or tested (`has(a.b)`, `'b' in a`).
    pub required: usize,
}

/// Variables and functions that an expression uses.
#[derive(Debug, Default)]
pub(crate) struct Terms<'e> {
    /// Variables with their fields and keys, without the variables that loops bind.
    pub(crate) paths: BTreeSet<Path>,
    /// Functions, by the name they are registered under.
    pub(crate) functions: BTreeSet<String>,
    /// Whether comprehensions nest too deep.
    pub(crate) is_too_costly: bool,
    /// Whether the tree is too deep; if so, the other fields are incomplete.
    pub(crate) is_too_deep: bool,
    bound: Vec<&'e str>,
    loops: usize,
    level: usize,
}

/// Libraries of functions, whose names look like variables.
const LIBRARIES: [&str; 9] =
    ["math", "sets", "base64", "jsonpatch", "optional", "lists", "format", "strings", "ip"];

impl<'e> Terms<'e> {
    pub(crate) fn of(expression: &'e IdedExpr) -> Self {
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
        if let Some((variable, steps, required)) =
            path(expr).filter(|(variable, ..)| !self.is_bound(variable))
        {
            return self.mention(variable, &steps, required);
        }
        match expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
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
        if let (operators::IN, [key, map]) = (call.func_name.as_str(), call.args.as_slice())
            && let Some(key) = literal(key)
            && let Some((variable, mut steps, required)) =
                path(&map.expr).filter(|(variable, ..)| !self.is_bound(variable))
        {
            steps.push(key);
            return self.mention(variable, &steps, required);
        }
        match call.target.as_ref().map(|target| &target.expr) {
            Some(Expr::Ident(library))
                if LIBRARIES.contains(&library.as_str()) && !self.is_bound(library) =>
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

    fn mention(&mut self, variable: &str, steps: &[&str], required: usize) {
        self.is_too_deep |= self.level + steps.len() > DEEPEST_TREE;
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        self.paths.insert(Path { variable: variable.to_owned(), steps, required });
    }

    fn is_bound(&self, name: &str) -> bool {
        self.bound.contains(&name) || name.starts_with('@')
    }
}

/// Returns a variable, the fields or keys after it, as in `object.data['a'].?b`, and how many of these must
/// exist.
fn path(mut expr: &Expr) -> Option<(&str, Vec<&str>, usize)> {
    let mut steps = Vec::new();
    // The steps are counted from the end, since the tree begins with the last step.
    let mut after_optional = 0;
    loop {
        match expr {
            Expr::Ident(name) => {
                steps.reverse();
                let required = steps.len() - after_optional;
                return Some((name, steps, required));
            }
            Expr::Select(select) => {
                steps.push(select.field.as_str());
                if select.test {
                    after_optional = steps.len();
                }
                expr = &select.operand.expr;
            }
            Expr::Call(call) => {
                let [of, key] = call.args.as_slice() else { return None };
                if !matches!(
                    call.func_name.as_str(),
                    operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT
                ) {
                    return None;
                }
                steps.push(literal(key)?);
                if call.func_name != operators::INDEX {
                    after_optional = steps.len();
                }
                expr = &of.expr;
            }
            _ => return None,
        }
    }
}

fn literal(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn is_operator(name: &str) -> bool {
    name.contains(['_', '@', '!', '-', '?'])
}
