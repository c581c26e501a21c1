//! The variables and functions that expressions may use, and expressions compiled against them.

use std::{collections::BTreeSet, fmt};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        Context, ExecutionError, Value,
        common::ast::{CallExpr, Expr, IdedExpr, LiteralValue},
    },
};

use crate::{
    error::CompileError,
    parse, standard,
    terms::{Path, Terms},
    typing::{self, Type},
};

/// The variables that expressions may read. The functions are those of CEL and of Kubernetes.
pub struct Environment {
    variables: Vec<(String, Type)>,
    pub(crate) functions: Context<'static>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Environment {
    /// Returns an environment with these variables.
    pub fn new(variables: impl IntoIterator<Item = (impl Into<String>, Type)>) -> Self {
        let variables = variables.into_iter().map(|(name, type_)| (name.into(), type_));
        Self { variables: variables.collect(), functions: Context::default().with_all() }
    }

    /// Compiles a condition: an expression whose value is true or false.
    ///
    /// # Errors
    /// The first error in the expression.
    pub fn compile(&self, source: &str) -> Result<Expression, CompileError> {
        let condition = self.compile_value(source)?;
        match typing::fault(&condition.program, &|name| self.type_of(name)) {
            Some(fault) => Err(CompileError::NoCondition(fault)),
            None => Ok(condition),
        }
    }

    /// Compiles an expression of any type. The name of a variable may look like a call, such as
    /// `pods(deploy)`: an expression that makes this call reads the variable.
    ///
    /// # Errors
    /// The first error in the expression.
    pub fn compile_value(&self, source: &str) -> Result<Expression, CompileError> {
        let mut program = parse::parse(source)?;
        parse::look_up(&mut program, |name| self.type_of(name).is_some());
        let terms = Terms::of(&program);
        if let Some(unknown) = terms.paths.iter().find(|path| self.type_of(&path.variable).is_none()) {
            let known = self.variables.iter().map(|(name, _)| name.clone()).collect();
            return Err(CompileError::UnknownVariable { name: unknown.variable.clone(), known });
        }
        if let Some(unknown) = terms.functions.iter().find(|name| !self.has_function(name)) {
            return Err(CompileError::UnknownFunction(unknown.clone()));
        }
        if terms.is_too_costly {
            return Err(CompileError::LoopsTooDeep);
        }
        let paths = terms.paths;
        Ok(Expression { program, paths })
    }

    fn type_of(&self, variable: &str) -> Option<Type> {
        self.variables.iter().find(|(name, _)| name == variable).map(|(_, type_)| *type_)
    }

    /// Whether a function exists. A trial call with null arguments reports an undeclared reference only for
    /// an unknown function.
    fn has_function(&self, name: &str) -> bool {
        if standard::ADDED.contains(&name) {
            return true;
        }
        let nothing = || IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
        let target = (!name.contains('.')).then(|| Box::new(nothing()));
        let call = CallExpr { func_name: name.to_owned(), target, args: vec![nothing(), nothing()] };
        let result = Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &self.functions);
        !matches!(result, Err(ExecutionError::UndeclaredReference(unknown)) if *unknown == name)
    }
}

/// A compiled expression, to be evaluated in the environment that compiled it.
pub struct Expression {
    pub(crate) program: IdedExpr,
    paths: BTreeSet<Path>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Expression {
    /// The variables that the expression reads, with their fields and keys.
    pub fn paths(&self) -> &BTreeSet<Path> {
        &self.paths
    }

    /// Whether the expression reads a variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.paths.iter().any(|path| path.variable == variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Evaluation, EvaluationError};

    fn environment() -> Environment {
        Environment::new([("object", Type::Any), ("text", Type::TextMap)])
    }

    fn refused(source: &str) -> Option<String> {
        environment().compile(source).err().map(|error| error.to_string())
    }

    #[test]
    fn what_cannot_run_is_refused() {
        for (source, says) in [
            ("text.a >", "is not a valid CEL expression (line 1 column "),
            ("self.a == 1", "\"self\" is not a variable here; the variables are object, text"),
            ("frob(text.a)", "\"frob\" is not a function"),
            ("math.frob(1)", "\"math.frob\" is not a function"),
            ("text.all(a, text.all(b, text.all(c, a == b)))", "more than 2 deep"),
            ("1 + 1", "returns a sum, not true or false"),
            ("text.min", "returns a text, not true or false"),
        ] {
            let refused = refused(source);
            assert!(refused.as_ref().is_some_and(|refused| refused.contains(says)), "{source}: {refused:?}");
        }
        assert_eq!(refused("text.all(a, text.exists(b, a == b))"), None);
    }

    #[test]
    fn a_value_is_of_any_type_and_a_variable_can_be_read_by_a_call() {
        let environment = Environment::new([("deploy", Type::Any), ("pods(deploy)", Type::Any)]);
        let names = environment.compile_value("pods(deploy).map(pod, pod + '!')").unwrap();
        assert!(names.reads("pods(deploy)") && !names.reads("deploy"));
        let mut budget = Budget::new(1_000_000, 1 << 20);
        let pods = Value::List(vec![Value::from("a")].into());
        let mut evaluation = Evaluation::new(&environment, vec![("pods(deploy)", pods)], &mut budget);
        assert_eq!(evaluation.run(&names), Ok(Value::List(vec![Value::from("a!")].into())));
        let refused = environment.compile_value("pods(other)").unwrap_err().to_string();
        assert!(refused.contains("\"other\" is not a variable here"), "{refused}");
    }

    #[test]
    fn the_deepest_tree_taken_is_evaluated_on_an_ordinary_stack() {
        let (environment, mut budget) = (environment(), Budget::new(1_000_000, 1 << 20));
        let deepest = environment.compile(&format!("{}1 > 0", "1 + ".repeat(29))).unwrap();
        let mut evaluation = Evaluation::new(&environment, Vec::new(), &mut budget);
        assert_eq!(evaluation.run(&deepest), Ok(Value::Bool(true)));
        let deeper = format!("{}1 > 0", "1 + ".repeat(40));
        assert!(refused(&deeper).is_some_and(|message| message.contains("too deep")));
    }

    #[test]
    fn what_is_read_is_known_and_a_failure_quotes_nothing_of_it() {
        let environment = environment();
        let expression = environment.compile("'a' in text && object.x['y'] == text.secret").unwrap();
        let read: Vec<_> =
            expression.paths().iter().map(|path| (path.variable.as_str(), path.steps.join("/"))).collect();
        assert_eq!(read, [("object", "x/y".into()), ("text", "a".into()), ("text", "secret".to_owned())]);
        assert!(expression.reads("text") && !expression.reads("other"));
        let failing = ["text.secret == 'x'", "int(text) == 1", "text < 1"];
        let failing = failing.map(|source| environment.compile(source).unwrap());
        let mut budget = Budget::new(1_000_000, 1 << 20);
        let variables = vec![("text", Value::from("hunter2")), ("object", Value::Null)];
        let mut evaluation = Evaluation::new(&environment, variables, &mut budget);
        for failing in &failing {
            let result = evaluation.run(failing);
            let Err(EvaluationError::Failed(reason)) = result else { panic!("{failing:?}: {result:?}") };
            assert!(!reason.contains("hunter2"), "{failing:?}: {reason}");
        }
    }
}
