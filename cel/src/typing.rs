//! Result types of expressions, as far as the syntax tree shows them. With these types, a condition that can
//! never be true is refused when it is written. Types that depend on the object are left to the evaluation.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

/// The declared type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The value may be of any type.
    Any,
    /// The value is a map.
    Map,
    /// The value is a map whose values are texts, or bytes.
    TextMap,
}

/// Lookup of the type of a variable by name; `None` where no such variable is declared.
type TypeOf<'e> = &'e dyn Fn(&str) -> Option<Type>;

/// The result type of a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    /// The value is true or false.
    Truth,
    /// The value is never true or false; the text says what the value is.
    Other(&'static str),
    /// The type depends on the values.
    Anything,
}

use Gives::{Anything, Other, Truth};

const NUMBER: Gives = Other("a number");
const TEXT: Gives = Other("a text");
const LIST: Gives = Other("a list");
const MAP: Gives = Other("a map");
const OPTIONAL: Gives = Other("an optional");

/// Returns why an expression can never be true; `None` where it may be.
pub(crate) fn fault(program: &IdedExpr, type_of: TypeOf<'_>) -> Option<String> {
    let mut reader = Reader { type_of, bound: Vec::new(), fault: None };
    if let Other(what) = reader.read(program) {
        let fault = format!("returns {what}, not true or false; add a comparison, as in size(text) > 0");
        return Some(reader.fault.unwrap_or(fault));
    }
    reader.fault
}

struct Reader<'e> {
    type_of: TypeOf<'e>,
    /// Variables that loops bind, innermost last.
    bound: Vec<(&'e str, Gives)>,
    fault: Option<String>,
}

impl<'e> Reader<'e> {
    fn read(&mut self, expression: &'e IdedExpr) -> Gives {
        match &expression.expr {
            Expr::Literal(literal) => literal_gives(literal),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => {
                self.read(&select.operand);
                match (select.test, self.has_texts(&select.operand)) {
                    (true, _) => Truth,
                    (false, true) => TEXT,
                    (false, false) => Anything,
                }
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                for element in &list.elements {
                    self.read(element);
                }
                LIST
            }
            Expr::Map(_) => MAP,
            Expr::Struct(_) => Other("a message"),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Unspecified => Anything,
        }
    }

    fn named(&self, name: &str) -> Gives {
        match self.bound.iter().rev().find(|(bound, _)| *bound == name) {
            Some((_, gives)) => *gives,
            None => match (self.type_of)(name) {
                Some(Type::Map | Type::TextMap) => MAP,
                Some(Type::Any) | None => Anything,
            },
        }
    }

    /// Whether the expression is a variable whose values are texts, or bytes.
    fn has_texts(&self, expression: &IdedExpr) -> bool {
        let Expr::Ident(name) = &expression.expr else { return false };
        let is_bound = self.bound.iter().any(|(bound, _)| *bound == name.as_str());
        !is_bound && (self.type_of)(name) == Some(Type::TextMap)
    }

    /// Reads an operand that must be true or false, and records a fault if the operand never is.
    fn truth(&mut self, expression: &'e IdedExpr, of: &str) {
        if let Other(what) = self.read(expression) {
            let fault = || format!("has {of} with {what}, which is not true or false; add a comparison");
            self.fault.get_or_insert_with(fault);
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Gives {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, arguments) => {
                let of = if call.func_name == operators::LOGICAL_AND { "&&" } else { "||" };
                arguments.iter().for_each(|argument| self.truth(argument, of));
                Truth
            }
            (operators::LOGICAL_NOT, [one]) => {
                self.truth(one, "!");
                Truth
            }
            (operators::CONDITIONAL, [condition, yes, no]) => {
                self.truth(condition, "?");
                match (self.read(yes), self.read(no)) {
                    (Other(what), _) | (_, Other(what)) => Other(what),
                    (Truth, Truth) => Truth,
                    _ => Anything,
                }
            }
            (operators::INDEX, [of, key]) => {
                self.read(of);
                self.read(key);
                if self.has_texts(of) { TEXT } else { Anything }
            }
            (name, arguments) => {
                let target = call.target.as_deref().map(|target| (target, self.read(target)));
                for argument in arguments {
                    self.read(argument);
                }
                match target {
                    Some((IdedExpr { expr: Expr::Ident(library), .. }, Anything))
                        if matches!(library.as_str(), "math" | "sets" | "base64" | "optional" | "lists") =>
                    {
                        library_gives(library, name)
                    }
                    _ => gives(name),
                }
            }
        }
    }

    fn comprehension(&mut self, all: &'e ComprehensionExpr) -> Gives {
        self.read(&all.iter_range);
        let start = self.read(&all.accu_init);
        let before = self.bound.len();
        self.bound.push((&all.iter_var, Anything));
        self.bound.extend(all.iter_var2.as_ref().map(|name| (name.as_str(), Anything)));
        self.bound.push((&all.accu_var, start));
        self.read(&all.loop_step);
        let result = self.read(&all.result);
        self.bound.truncate(before);
        result
    }
}

fn literal_gives(literal: &LiteralValue) -> Gives {
    match literal {
        LiteralValue::Boolean(_) => Truth,
        LiteralValue::String(_) => TEXT,
        LiteralValue::Bytes(_) => Other("bytes"),
        LiteralValue::Null => Other("null"),
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => NUMBER,
    }
}

fn gives(function: &str) -> Gives {
    match function {
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::IN
        | "matches"
        | "contains"
        | "startsWith"
        | "endsWith"
        | "hasValue" => Truth,
        operators::NEGATE
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO => NUMBER,
        // `+` also joins texts and lists.
        operators::ADD => Other("a sum"),
        "size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf" => NUMBER,
        "string" | "lowerAscii" | "upperAscii" | "replace" | "join" | "substring" | "trim" | "find"
        | "charAt" | "format" => TEXT,
        "split" | "findAll" | "distinct" | "sort" | "slice" | "flatten" => LIST,
        "bytes" => Other("bytes"),
        "timestamp" => Other("a time"),
        "duration" => Other("a duration"),
        "quantity" => Other("a quantity"),
        "url" => Other("a URL"),
        "type" => Other("a type"),
        operators::OPT_INDEX | operators::OPT_SELECT => OPTIONAL,
        _ => Anything,
    }
}

fn library_gives(library: &str, function: &str) -> Gives {
    match (library, function) {
        ("math", "isInf" | "isNaN" | "isFinite") | ("sets", _) => Truth,
        ("math", _) => NUMBER,
        ("base64", "encode") => TEXT,
        ("base64", "decode") => Other("bytes"),
        ("optional", _) => OPTIONAL,
        ("lists", "range") => LIST,
        _ => Anything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn told(expression: &str) -> Option<String> {
        let type_of = |name: &str| match name {
            "object" => Some(Type::Any),
            "request" => Some(Type::Map),
            "text" => Some(Type::TextMap),
            _ => None,
        };
        fault(&parse::parse(expression).unwrap(), &type_of)
    }

    #[test]
    fn what_is_never_true_is_told() {
        for (expression, says) in [
            ("1 + 1", "returns a sum"),
            ("-1", "returns a number"),
            ("'true'", "returns a text"),
            ("[true]", "returns a list"),
            ("{'a': true}", "returns a map"),
            ("null", "returns null"),
            ("text", "returns a map"),
            ("text.enabled", "returns a text"),
            ("text['enabled']", "returns a text"),
            ("text.?enabled", "returns an optional"),
            ("size(text)", "returns a number"),
            ("text.a.size()", "returns a number"),
            ("text.map(key, key == 'a')", "returns a list"),
            ("text.filter(key, key == 'a')", "returns a list"),
            ("text.a.find('[0-9]')", "returns a text"),
            ("math.greatest(1, 2)", "returns a number"),
            ("'a' in text ? 1 : true", "returns a number"),
            ("has(text.a) && text.a", "has && with a text"),
            ("text.a || true", "has || with a text"),
            ("!size(text)", "has ! with a number"),
            ("1 ? true : false", "has ? with a number"),
            ("text.all(key, text[key])", "has && with a text"),
            ("text.exists(key, 1)", "has || with a number"),
            ("text.exists_one(key, text[key])", "has ? with a text"),
        ] {
            let told = told(expression).unwrap_or_else(|| panic!("{expression} is taken"));
            assert!(told.contains(says), "{expression}: {told}");
        }
    }

    #[test]
    fn what_may_be_true_is_taken() {
        for expression in [
            "true",
            "has(text.a)",
            "text.a == 'true'",
            "'a' in text",
            "bool(text.a)",
            "object.immutable",
            "object.?immutable.orValue(false)",
            "dyn(text.a)",
            "text.all(key, key != 'a') && text.exists_one(key, key == 'b')",
            "text.map(key, key).all(one, one != '')",
            "has(object.metadata.labels) ? object.metadata.labels.a == 'b' : true",
            "[true, false].exists(one, one)",
            "['a'].exists(text, text == 'a')",
            "[{'a': true}].all(text, text.a)",
            "isURL('https://a.b') && ip('10.0.0.1').isLoopback()",
            "request.dryRun",
            "[true][0]",
            "sets.contains([1], [1])",
            "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !math.isNaN(1.0)",
        ] {
            assert_eq!(told(expression), None, "{expression}");
        }
    }
}
