//! Groups missing rights into as few grants as possible: each grant is a role to create and bind, and gives
//! only rights that a question is about.

use std::collections::BTreeSet;

use super::{Question, Subject};

/// Rights that a subject lacks: each of the verbs, on each of the resources, in each of the namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grant {
    pub(super) subject: Subject,
    /// The namespaces; the empty name alone means all namespaces.
    pub(super) namespaces: BTreeSet<String>,
    /// Resources as kubectl writes them: `configmaps`, `deployments.apps`, `pods/eviction`.
    pub(super) resources: BTreeSet<String>,
    /// Names of objects; empty means all objects.
    pub(super) names: BTreeSet<String>,
    pub(super) verbs: BTreeSet<&'static str>,
}

/// The grants that give exactly the rights of these questions.
pub(super) fn grants<'q>(missing: impl IntoIterator<Item = &'q Question>) -> Vec<Grant> {
    let grants = missing.into_iter().map(Grant::of).collect();
    let grants = join(
        grants,
        |grant| drop(std::mem::take(&mut grant.verbs)),
        |grant, more| grant.verbs.extend(more.verbs),
    );
    // A right to all objects is not merged with a right to named objects, nor a right in all namespaces with
    // a right in some namespaces.
    let all_but_names = |grant: &mut Grant| {
        if !grant.names.is_empty() {
            grant.names = [String::new()].into();
        }
    };
    let grants = join(grants, all_but_names, |grant, more| grant.names.extend(more.names));
    let all_but_places = |grant: &mut Grant| {
        if !grant.is_everywhere() {
            grant.namespaces.clear();
        }
    };
    let grants = join(grants, all_but_places, |grant, more| grant.namespaces.extend(more.namespaces));
    join(grants, |grant| grant.resources.clear(), |grant, more| grant.resources.extend(more.resources))
}

impl Grant {
    fn of(question: &Question) -> Self {
        let group = if question.group.is_empty() { String::new() } else { format!(".{}", question.group) };
        let part = question.subresource.map(|part| format!("/{part}")).unwrap_or_default();
        Self {
            subject: question.subject.clone(),
            namespaces: [question.namespace.clone()].into(),
            resources: [format!("{}{group}{part}", question.resource)].into(),
            names: question.name.iter().cloned().collect(),
            verbs: [question.verb].into(),
        }
    }

    /// Splits the grant into parts whose lists of names are at most `longest` bytes long or hold one name.
    pub(super) fn parts(&self, longest: usize) -> Vec<Self> {
        let (places, names) = (in_parts(&self.namespaces, longest), in_parts(&self.names, longest));
        let part = |namespaces: &BTreeSet<String>, names: &BTreeSet<String>| Self {
            namespaces: namespaces.clone(),
            names: names.clone(),
            ..self.clone()
        };
        places.iter().flat_map(|places| names.iter().map(move |names| part(places, names))).collect()
    }

    /// Whether the rights are missing in all namespaces.
    pub(super) fn is_everywhere(&self) -> bool {
        self.namespaces.contains("")
    }
}

fn in_parts(names: &BTreeSet<String>, longest: usize) -> Vec<BTreeSet<String>> {
    let mut parts = vec![BTreeSet::new()];
    let mut length = 0;
    for name in names {
        length += name.len() + 1;
        if length > longest && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(BTreeSet::new());
            length = name.len() + 1;
        }
        if let Some(part) = parts.last_mut() {
            part.insert(name.clone());
        }
    }
    parts
}

/// Merges grants that differ only in the field that `all_but` clears, in their order.
fn join(grants: Vec<Grant>, all_but: impl Fn(&mut Grant), add: impl Fn(&mut Grant, Grant)) -> Vec<Grant> {
    let mut joined: Vec<(Grant, Grant)> = Vec::new();
    for grant in grants {
        let mut rest = grant.clone();
        all_but(&mut rest);
        match joined.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, whole)) => add(whole, grant),
            None => joined.push((rest, grant)),
        }
    }
    joined.into_iter().map(|(_, whole)| whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::questions::tests::of_rule;

    /// Every single right that the grants give, as text.
    fn given(grants: &[Grant]) -> BTreeSet<String> {
        let mut given = BTreeSet::new();
        for Grant { namespaces, resources, names, verbs, .. } in grants {
            let any = [String::new()].into();
            let names = if names.is_empty() { &any } else { names };
            for (namespace, resource) in
                namespaces.iter().flat_map(|one| resources.iter().map(move |two| (one, two)))
            {
                for (name, verb) in names.iter().flat_map(|one| verbs.iter().map(move |two| (one, two))) {
                    assert!(given.insert(format!("{verb} {resource} {name} {namespace}")), "given twice");
                }
            }
        }
        given
    }

    #[test]
    fn exactly_what_is_missing_is_granted() {
        let spec = serde_json::json!({
            "source": {"kind": "Secret", "names": ["a", "b"], "namespaces": ["one", "two"]},
            "targets": [{"names": ["x", "y", "one"]}],
        });
        let all = of_rule("platform", spec, &Subject::default());
        assert_eq!(all.len(), 2 * 2 + 3 * 3);
        // The loop treats each subset of all rights as the missing rights.
        for mask in 0_u32..(1 << all.len()) {
            let missing: Vec<_> =
                all.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0).map(|(_, one)| one).collect();
            let wanted: BTreeSet<_> = missing
                .iter()
                .map(|one| {
                    let name = one.name.clone().unwrap_or_default();
                    format!("{} {} {name} {}", one.verb, one.resource, one.namespace)
                })
                .collect();
            assert_eq!(given(&grants(missing.clone())), wanted);
            let parts: Vec<_> = grants(missing).iter().flat_map(|grant| grant.parts(4)).collect();
            assert_eq!(given(&parts), wanted);
        }
        assert_eq!(grants(&all).len(), 2, "{:?}", grants(&all));
    }
}
