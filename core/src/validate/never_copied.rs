//! Objects that Kubernetes keeps in every namespace and that Copyrator therefore never reads. A rule or
//! monitor that names an unread object would have no effect on it.

use super::invalid;
use crate::{api::Problem, names::Kind};

/// Reports each name of an object that Copyrator never reads. `names` are the entries of `field` as the user
/// wrote them.
pub(super) fn check(field: &str, kind: Kind, names: &[String], problems: &mut Vec<Problem>) {
    for (index, name) in names.iter().enumerate() {
        if is_never_copied(kind, name) {
            let what = format!(
                "Copyrator does not copy or watch {name:?}: Kubernetes itself writes a {kind} of this name to every namespace"
            );
            problems.push(invalid(&format!("{field}[{index}]"), what));
        }
    }
}

/// Whether Copyrator leaves an object out of its lists, by its name alone.
fn is_never_copied(kind: Kind, name: &str) -> bool {
    matches!((kind, name), (Kind::ConfigMap, "kube-root-ca.crt") | (Kind::ServiceAccount, "default"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_every_namespace_is_named_with_its_entry() {
        let said = |kind, name: &str| {
            let mut problems = Vec::new();
            check("spec.source.names", kind, &["web".into(), name.into()], &mut problems);
            problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
        };
        let expected = "spec.source.names[1]: Copyrator does not copy or watch \"default\": Kubernetes itself writes a \
                        ServiceAccount of this name to every namespace";
        assert_eq!(said(Kind::ServiceAccount, "default"), expected);
        assert!(
            said(Kind::ConfigMap, "kube-root-ca.crt")
                .contains("Kubernetes itself writes a ConfigMap of this name")
        );
        assert_eq!([said(Kind::Secret, "default"), said(Kind::ConfigMap, "default")], ["", ""]);
    }
}
