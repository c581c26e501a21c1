//! Rules, with an index by the object names that a rule can concern. With ten thousand rules that each name
//! one source, only few rules must be examined.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

use super::RuleFacts;
use crate::{
    api::CopyratorRuleStatus,
    names::Declarer,
    validate::{CompiledRule, Globs},
};

/// Maximum number of names of a rule in the index by name.
const MOST_NAMES: usize = 128;

/// Rules by name. `Rules` reads like a map; only this file changes the map and keeps the indexes up to date.
#[derive(Debug, Default)]
pub struct Rules {
    all: BTreeMap<Declarer, RuleFacts>,
    sources: ByName,
    copies: ByName,
}

impl Deref for Rules {
    type Target = BTreeMap<Declarer, RuleFacts>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<'r> IntoIterator for &'r Rules {
    type Item = (&'r Declarer, &'r RuleFacts);
    type IntoIter = std::collections::btree_map::Iter<'r, Declarer, RuleFacts>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl Rules {
    /// Adds a rule; returns the earlier facts.
    pub fn insert(&mut self, rule: Declarer, facts: RuleFacts) -> Option<RuleFacts> {
        let before = self.remove(&rule);
        if let Ok(compiled) = &facts.compiled {
            self.sources.add(&rule, compiled, source_names(compiled));
            self.copies.add(&rule, compiled, copy_names(&rule, compiled));
        }
        self.all.insert(rule, facts);
        before
    }

    /// Removes a rule, and returns the rule's facts.
    pub fn remove(&mut self, rule: &Declarer) -> Option<RuleFacts> {
        let facts = self.all.remove(rule)?;
        if let Ok(compiled) = &facts.compiled {
            self.sources.remove(rule, source_names(compiled));
            self.copies.remove(rule, copy_names(rule, compiled));
        }
        Some(facts)
    }

    /// A rule's status, to be changed.
    pub fn status_mut(&mut self, rule: &Declarer) -> Option<&mut Option<CopyratorRuleStatus>> {
        self.all.get_mut(rule).map(|facts| &mut facts.status)
    }

    /// The valid rules that could copy an object of this name.
    pub fn copying_from<'r>(
        &'r self,
        name: &str,
    ) -> impl Iterator<Item = (&'r Declarer, &'r CompiledRule)> + use<'r> {
        self.sources.get(name)
    }

    /// The valid rules that could have a copy of this name.
    pub fn copying_to<'r>(
        &'r self,
        name: &str,
    ) -> impl Iterator<Item = (&'r Declarer, &'r CompiledRule)> + use<'r> {
        self.copies.get(name)
    }
}

/// Compiled rules, in order.
type Understood = BTreeMap<Declarer, Arc<CompiledRule>>;

/// Rules by the object names that they concern.
#[derive(Debug, Default)]
struct ByName {
    named: BTreeMap<Box<str>, Understood>,
    /// Rules whose object names are only known from the cluster.
    any: Understood,
}

impl ByName {
    fn add(&mut self, rule: &Declarer, compiled: &Arc<CompiledRule>, names: Option<BTreeSet<String>>) {
        match names {
            None => drop(self.any.insert(rule.clone(), compiled.clone())),
            Some(names) => {
                for name in names {
                    self.named.entry(name.into()).or_default().insert(rule.clone(), compiled.clone());
                }
            }
        }
    }

    fn remove(&mut self, rule: &Declarer, names: Option<BTreeSet<String>>) {
        self.any.remove(rule);
        for name in names.into_iter().flatten() {
            if let Some(rules) = self.named.get_mut(name.as_str()) {
                rules.remove(rule);
                if rules.is_empty() {
                    self.named.remove(name.as_str());
                }
            }
        }
    }

    fn get<'r>(&'r self, name: &str) -> impl Iterator<Item = (&'r Declarer, &'r CompiledRule)> + use<'r> {
        let named = self.named.get(name).into_iter().flatten();
        named.chain(&self.any).map(|(rule, compiled)| (rule, &**compiled))
    }
}

/// The names of a rule's sources, if the rule alone determines them.
fn source_names(compiled: &CompiledRule) -> Option<BTreeSet<String>> {
    let names = compiled.names.as_ref().and_then(Globs::literals)?;
    (names.len() <= MOST_NAMES).then(|| names.iter().cloned().collect())
}

/// The names of a rule's copies, if the rule alone determines them.
fn copy_names(rule: &Declarer, compiled: &CompiledRule) -> Option<BTreeSet<String>> {
    let template = &compiled.shape.name;
    let names = match compiled.names.as_ref().and_then(Globs::literals) {
        Some(names) => names,
        None if template.is_constant() => &[String::new()][..],
        None => return None,
    };
    let own = [rule.namespace().to_string()];
    let namespaces = match compiled.source_namespaces.as_slice() {
        [] => &own[..],
        namespaces => namespaces,
    };
    if names.len().saturating_mul(namespaces.len()) > MOST_NAMES {
        return None;
    }
    let of = |namespace: &String| {
        let namespace = namespace.clone();
        names.iter().map(move |name| template.of(&namespace, name))
    };
    Some(namespaces.iter().flat_map(of).collect())
}
