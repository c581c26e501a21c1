//! Translation of other tools' namespace selection to terms of a rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::finding::{Finding, differs, none};
use crate::{
    api::TargetTerm,
    names::{NameKind, OF_KUBERNETES},
    validate::{Anchoring, Globs, can_match, globs, parse_selector},
};

/// Returns the term that selects every namespace.
pub(super) fn everywhere() -> TargetTerm {
    TargetTerm { namespace_selector: Some(LabelSelector::default()), names: None }
}

/// Returns a term for these names and globs; a glob that matches every name becomes an empty selector.
pub(super) fn named(names: Vec<String>) -> Option<TargetTerm> {
    if names.iter().any(|name| name == "*") {
        return Some(everywhere());
    }
    (!names.is_empty()).then_some(TargetTerm { namespace_selector: None, names: Some(names) })
}

/// Returns a term for these labels, written on one line; white space alone means every namespace.
///
/// # Errors
/// The error in the text.
pub(super) fn labelled(text: &str) -> Result<TargetTerm, String> {
    if text.trim().is_empty() {
        return Ok(everywhere());
    }
    parse_selector(text)
        .map(|selector| TargetTerm { namespace_selector: Some(selector), names: None })
        .map_err(|wrong| format!("{text:?} is not a Kubernetes label selector: {wrong}"))
}

/// Translates a list of patterns to names and globs. A pattern without an equivalent becomes a finding, and
/// selects no namespace.
pub(super) fn patterns<'a>(
    about: &str,
    patterns: impl IntoIterator<Item = &'a str>,
    anchoring: Anchoring,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let mut all = Vec::new();
    for pattern in patterns {
        match globs(pattern, anchoring) {
            Ok(globs) => {
                let (some, none): (Vec<_>, Vec<_>) =
                    globs.into_iter().partition(|glob| can_match(glob, NameKind::Namespace));
                if some.is_empty() && !none.is_empty() {
                    let told = format!("import leaves out the pattern {pattern:?}: it cannot match a namespace name");
                    findings.push(differs(about, told));
                }
                all.extend(some);
            }
            Err(why) => findings.push(none(
                about,
                format!(
                    "the pattern {pattern:?} {why}, so import cannot convert it: write the names or globs into targets.names, or labels \
                     into a namespaceSelector"
                ),
            )),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|glob| seen.insert(glob.clone()));
    all
}

/// Leaves out system namespaces, which never get copies: their names are removed, and globs and selectors
/// that match them become findings.
pub(super) fn without_system(terms: Vec<TargetTerm>, findings: &mut Vec<Finding>) -> Vec<TargetTerm> {
    let mut wide = false;
    let mut kept = Vec::new();
    for mut term in terms {
        if let Some(names) = &mut term.names {
            for name in OF_KUBERNETES.iter().filter(|name| names.iter().any(|one| one == *name)) {
                findings.push(none(
                    "targets",
                    format!("Copyrator never copies to {name}, even if a rule names it"),
                ));
            }
            names.retain(|name| !OF_KUBERNETES.contains(&name.as_str()));
            if names.is_empty() {
                continue;
            }
            wide |= OF_KUBERNETES.iter().any(|name| {
                Globs::compile("names", names, NameKind::Namespace, &mut Vec::new()).matches(name)
            });
        } else {
            wide = true;
        }
        kept.push(term);
    }
    if wide {
        findings.push(differs(
            "targets",
            "Copyrator never copies to kube-system, kube-public, kube-node-lease and its own namespace; existing copies there stay as \
             they are",
        ));
    }
    kept
}

/// Returns terms for the namespaces that both lists select; `None` instead of a list means every namespace.
/// If the overlap cannot be computed, adds a finding and selects no namespace.
pub(super) fn both(
    one: Option<Vec<TargetTerm>>,
    other: Option<Vec<TargetTerm>>,
    findings: &mut Vec<Finding>,
) -> Vec<TargetTerm> {
    let (one, other) = match (one, other) {
        (None, None) => return vec![everywhere()],
        (Some(terms), None) | (None, Some(terms)) => return terms,
        (Some(one), Some(other)) => (one, other),
    };
    let mut terms = Vec::new();
    for (left, right) in one.iter().flat_map(|left| other.iter().map(move |right| (left, right))) {
        let names = match (&left.names, &right.names) {
            (None, None) => None,
            (Some(names), None) | (None, Some(names)) => Some(names.clone()),
            (Some(left), Some(right)) => Some(names_of_both(left, right, findings)),
        };
        if names.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        let namespace_selector = match (&left.namespace_selector, &right.namespace_selector) {
            (None, None) => None,
            (Some(labels), None) | (None, Some(labels)) => Some(labels.clone()),
            (Some(left), Some(right)) => Some(labels_of_both(left, right)),
        };
        let term = TargetTerm { namespace_selector, names };
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    terms
}

fn labels_of_both(left: &LabelSelector, right: &LabelSelector) -> LabelSelector {
    let mut all = requirements(left);
    for one in requirements(right) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    LabelSelector { match_labels: None, match_expressions: (!all.is_empty()).then_some(all) }
}

/// Returns the requirements of a selector, with `a: b` as `a in (b)`.
pub(super) fn requirements(selector: &LabelSelector) -> Vec<LabelSelectorRequirement> {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".into(),
        values: Some(vec![value.clone()]),
    });
    labels.chain(selector.match_expressions.iter().flatten().cloned()).collect()
}

fn names_of_both(left: &[String], right: &[String], findings: &mut Vec<Finding>) -> Vec<String> {
    let mut both = Vec::new();
    for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (a, b))) {
        let narrower = match (is_glob(a), is_glob(b)) {
            _ if a == b => Some(a),
            (false, _) => matches(b, a).then_some(a),
            (true, false) => matches(a, b).then_some(b),
            (true, true) if covers(a, b) => Some(b),
            (true, true) if covers(b, a) => Some(a),
            (true, true) => {
                let (x, y) = (start(a), start(b));
                if x.starts_with(y) || y.starts_with(x) {
                    findings.push(none(
                        "targets",
                        format!("no glob matches exactly the names that both {a} and {b} match: list the names instead"),
                    ));
                }
                None
            }
        };
        both.extend(narrower.filter(|name| !both.contains(*name)).cloned());
    }
    both
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

fn start(glob: &str) -> &str {
    glob.split(['*', '?', '[']).next().unwrap_or_default()
}

/// The most entries that the schema allows in one list.
pub(super) const MOST: usize = 64;

/// Splits a long list of names into as many terms as necessary.
pub(super) fn listed(terms: Vec<TargetTerm>) -> Vec<TargetTerm> {
    let split = |term: TargetTerm| match term.names {
        Some(ref names) if names.len() > MOST => {
            let part = |names: &[String]| TargetTerm { names: Some(names.to_vec()), ..term.clone() };
            names.chunks(MOST).map(part).collect()
        }
        names => vec![TargetTerm { names, ..term }],
    };
    terms.into_iter().flat_map(split).collect()
}

/// Whether a glob matches a name.
pub(super) fn matches(glob: &str, name: &str) -> bool {
    Globs::compile("names", &[glob.to_owned()], NameKind::Object, &mut Vec::new()).matches(name)
}

/// Whether `outer` matches every name that `inner` matches. Decided only for an `outer` of the form
/// `prefix*`; otherwise false.
fn covers(outer: &str, inner: &str) -> bool {
    outer.strip_suffix('*').is_some_and(|prefix| !is_glob(prefix) && start(inner).starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intersect(left: &[&str], right: &[&str]) -> (Vec<String>, usize) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut findings = Vec::new();
        let names = names_of_both(&owned(left), &owned(right), &mut findings);
        (names, findings.len())
    }

    #[test]
    fn what_both_choose_is_never_more_than_one_of_them() {
        for (left, right, expected, told) in [
            (&["dev", "prod"][..], &["prod", "test"][..], "prod", 0),
            (&["team-*"], &["team-a", "shop"], "team-a", 0),
            (&["team-*"], &["team-a-*"], "team-a-*", 0),
            (&["team-*"], &["shop-*"], "", 0),
            (&["*-dev"], &["team-*"], "", 1),
            (&["team-*"], &["team-*"], "team-*", 0),
        ] {
            let (names, findings) = intersect(left, right);
            assert_eq!((names.join(" ").as_str(), findings), (expected, told), "{left:?} {right:?}");
        }
    }
}
