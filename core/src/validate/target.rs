//! Terms that select namespaces, in rules and templates.

use super::{Globs, Selector, invalid};
use crate::{
    api::{Problem, TargetTerm},
    names::NameKind,
};

/// A term of a list of targets: a set of namespaces.
#[derive(Clone, Debug)]
pub struct CompiledTarget {
    /// A selector of the namespaces' labels; `None`: any.
    pub selector: Option<Selector>,
    /// Names and globs of the namespaces; `None`: any.
    pub names: Option<Globs>,
}

impl CompiledTarget {
    /// Compiles a list of terms; `at` is the list's field.
    pub(super) fn compile(at: &str, terms: &[TargetTerm], problems: &mut Vec<Problem>) -> Vec<Self> {
        let compiled = terms.iter().enumerate().map(|(index, term)| {
            let at = format!("{at}[{index}]");
            if term.names.is_none() && term.namespace_selector.is_none() {
                problems.push(invalid(&at, "needs names, namespaceSelector or both"));
            }
            let selector = term.namespace_selector.as_ref();
            let names = term.names.as_ref();
            Self {
                selector: selector.map(|selector| {
                    Selector::of_namespaces(&format!("{at}.namespaceSelector"), selector, problems)
                }),
                names: names.map(|names| {
                    Globs::compile(&format!("{at}.names"), names, NameKind::Namespace, problems)
                }),
            }
        });
        compiled.collect()
    }

    /// Whether the term selects a namespace of this name, whose labels `label` gives.
    pub fn selects<'l>(&self, name: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.names.as_ref().is_none_or(|names| names.matches(name))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(label))
    }
}
