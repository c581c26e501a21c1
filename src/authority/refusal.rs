//! What a refusal says: who may not do what, and the way out.

use super::Question;

/// The sentence that a person reads about a refused question, one of several. It says nothing of what exists.
pub fn refusal(question: &Question, of: &[Question]) -> String {
    let Question { subject, verb, resource, name, namespace, .. } = question;
    let part = question.subresource.map(|part| format!("/{part}")).unwrap_or_default();
    let name = name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let place = match namespace.as_str() {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace {namespace:?}"),
    };
    format!(
        "user {:?} may not {verb} {resource}{part}{name} {place}; to allow it: {}",
        subject.user,
        way_out(question, of)
    )
}

/// One line for a shell that grants what was asked, with whatever else is asked of the same objects.
fn way_out(question: &Question, of: &[Question]) -> String {
    let same = |other: &&Question| **other == Question { verb: other.verb, ..question.clone() };
    let mut verbs: Vec<_> = of.iter().filter(same).map(|other| other.verb).chain([question.verb]).collect();
    verbs.sort_unstable();
    verbs.dedup();
    let verbs = verbs.join(",");
    let (kind, place) = match question.namespace.as_str() {
        "" => ("clusterrole", String::new()),
        namespace => ("role", format!(" -n {}", quoted(namespace))),
    };
    let group = if question.group.is_empty() { String::new() } else { format!(".{}", question.group) };
    let part = question.subresource.map(|part| format!("/{part}")).unwrap_or_default();
    let only =
        question.name.as_ref().map(|name| format!(" --resource-name={}", quoted(name))).unwrap_or_default();
    let role = format!("copyrator-{}-{}", verbs.replace(',', "-"), question.resource);
    let to = match question.subject.as_service_account() {
        Some((namespace, name)) => format!("--serviceaccount={}", quoted(&format!("{namespace}:{name}"))),
        None => format!("--user={}", quoted(&question.subject.user)),
    };
    format!(
        "kubectl create {kind} {role} --verb={verbs} --resource={}{group}{part}{only}{place} && \
         kubectl create {kind}binding {role} --{kind}={role} {to}{place}",
        question.resource
    )
}

/// As a shell takes one word.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/@".contains(&b));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Subject, impersonation};

    #[test]
    fn the_way_out_can_be_pasted_into_a_shell() {
        let writer = Subject { user: "o'brien; rm -rf".into(), ..Subject::default() };
        assert_eq!(
            refusal(&impersonation("shop", "copier", &writer), &[]),
            "user \"o'brien; rm -rf\" may not impersonate serviceaccounts \"copier\" in namespace \"shop\"; to allow it: \
             kubectl create role copyrator-impersonate-serviceaccounts --verb=impersonate --resource=serviceaccounts \
             --resource-name=copier -n shop && kubectl create rolebinding copyrator-impersonate-serviceaccounts \
             --role=copyrator-impersonate-serviceaccounts --user='o'\\''brien; rm -rf' -n shop"
        );
        let evict = Question {
            subject: Subject::service_account("shop", "copier"),
            verb: "create",
            group: "",
            resource: "pods",
            subresource: Some("eviction"),
            name: None,
            namespace: String::new(),
        };
        assert!(refusal(&evict, &[]).contains("create pods/eviction in all namespaces"));
        assert!(
            refusal(&evict, &[])
                .ends_with("--clusterrole=copyrator-create-pods --serviceaccount=shop:copier")
        );
    }
}
