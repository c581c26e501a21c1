//! Checks the rights of our accounts: the chart defines the needed rights, and the API server reports the
//! existing rights.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;

use super::{
    chart::{Given, given, question},
    facts::{Facts, Readable, Right, Unread},
    finding::{Findings, Id},
};
use crate::{
    access::{AskError, Authorizer, LocalAuthorizer, ReviewAuthorizer, ask},
    authority::{Question, Subject},
    installed::{Install, Role},
    terminal::with_distinct_causes,
};

/// The right to do everything.
const EVERYTHING: (&str, &str, &str) = ("*", "*", "*");

/// The most harmful rights in all namespaces: verb, group and resource. Our accounts only have the rights
/// that the chart gives.
const HARMFUL: [(&str, &str, &str); 7] = [
    EVERYTHING,
    ("get", "", "secrets"),
    ("create", "", "pods"),
    ("create", "", "serviceaccounts/token"),
    ("impersonate", "", "users"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
];

impl Right {
    fn id(&self) -> Id {
        if self.role.is_some() { Id::RightMissing } else { Id::RightTooMany }
    }
}

/// The rights to check, sorted by namespace.
pub(super) fn rights(install: &Install<'_>) -> Vec<Right> {
    let given = given(install);
    let mut rights = Vec::new();
    for account in accounts(install) {
        let subject = Subject::service_account(install.namespace(), &account);
        let harmful =
            HARMFUL.map(|(verb, group, resource)| question(&subject, verb, group, resource, &None, ""));
        let is_given = |question: &Question| given.iter().any(|given| given.question == *question);
        let surplus = harmful.into_iter().filter(|question| !is_given(question));
        rights.extend(surplus.map(|question| Right { question, role: None }));
    }
    rights.extend(given.into_iter().map(|Given { question, role }| Right { question, role: Some(role) }));
    rights.sort_by(|a, b| a.question.namespace.cmp(&b.question.namespace));
    rights
}

/// Our accounts. If Copyrator reads only some namespaces, no webhook exists.
fn accounts(install: &Install<'_>) -> BTreeSet<String> {
    let webhook = (!install.is_namespaced()).then_some(Role::Webhook);
    [Role::Reconciler].into_iter().chain(webhook).map(|role| install.account(role)).collect()
}

/// Asks the API server which of these rights our accounts have. If Copyrator reads only some namespaces, asks
/// in each of these namespaces, which needs no cluster-wide right.
pub(super) async fn look(client: &Client, install: &Install<'_>) -> Vec<(Right, Readable<bool>)> {
    let rights = rights(install);
    let mut answers = Vec::new();
    for rights in rights.chunk_by(|a, b| a.question.namespace == b.question.namespace) {
        let questions: Vec<&Question> = rights.iter().map(|right| &right.question).collect();
        let place =
            Some(&*questions[0].namespace).filter(|place| install.is_namespaced() && !place.is_empty());
        let authorizer: &dyn Authorizer = match place {
            Some(_) => &LocalAuthorizer::new(client.clone()),
            None => &ReviewAuthorizer::new(client.clone()),
        };
        let allowed = ask(authorizer, &questions).await.map_err(|error| unasked(place, &error));
        answers.extend(rights.iter().enumerate().map(|(at, right)| {
            let allowed = allowed.as_ref().map(|allowed| allowed[at]).map_err(Unread::clone);
            (right.clone(), allowed)
        }));
    }
    answers
}

fn unasked(place: Option<&str>, error: &AskError) -> Unread {
    let reviews = if place.is_some() { "localsubjectaccessreviews" } else { "subjectaccessreviews" };
    Unread {
        verb: "create",
        resource: format!("{reviews}.authorization.k8s.io"),
        namespace: place.map(str::to_owned),
        failure: (!error.is_forbidden()).then(|| with_distinct_causes(error)),
    }
}

/// Finds the rights that our accounts lack, and harmful rights that they do not need.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let mut wrong: BTreeMap<(&Subject, Option<&str>), Vec<&Question>> = BTreeMap::new();
    for (right, allowed) in &facts.rights {
        match allowed {
            Err(unread) => found.unknown(&[right.id()], unread),
            Ok(allowed) if *allowed == right.role.is_some() => {}
            Ok(_) => {
                let key = (&right.question.subject, right.role.as_deref());
                wrong.entry(key).or_default().push(&right.question);
            }
        }
    }
    for ((subject, role), questions) in wrong {
        let account =
            subject.as_service_account().map_or_else(String::new, |(place, name)| format!("{place}/{name}"));
        let object = format!("ServiceAccount {account}");
        match role {
            Some(role) => {
                let place = match &*questions[0].namespace {
                    "" => "all namespaces".to_owned(),
                    place => format!("namespace {place}"),
                };
                let kind = role.split(' ').next().unwrap_or_default();
                let what = format!(
                    "may not {} in {place}, which {role} and the {kind}Binding of that name should grant",
                    listed(&questions)
                );
                found.error(Id::RightMissing, object, what, install.repair());
            }
            None => {
                let is_all = questions.iter().any(|question| question.verb == EVERYTHING.0);
                let harmful = if is_all { "do everything".to_owned() } else { listed(&questions) };
                let what = format!(
                    "may {harmful} in all namespaces, although no ServiceAccount of Copyrator needs this"
                );
                let fix = format!(
                    "kubectl get clusterrolebindings -o wide | grep -e {account} -e system:serviceaccounts"
                );
                found.warning(Id::RightTooMany, object, what, fix);
            }
        }
    }
}

/// Rights in words, grouped by resource: as many as fit on a line.
fn listed(questions: &[&Question]) -> String {
    const SHOWN: usize = 8;
    let mut resources: Vec<(String, Vec<&str>)> = Vec::new();
    for question in questions {
        let part = question.subresource.map(|part| format!("/{part}")).unwrap_or_default();
        let group = if question.group.is_empty() { String::new() } else { format!(".{}", question.group) };
        let name = question.name.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
        let resource = format!("{}{part}{group}{name}", question.resource);
        match resources.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, verbs)) => verbs.push(question.verb),
            None => resources.push((resource, vec![question.verb])),
        }
    }
    let more = resources.len().saturating_sub(SHOWN);
    resources.truncate(SHOWN);
    let mut words: Vec<String> =
        resources.iter().map(|(resource, verbs)| format!("{} {resource}", verbs.join("/"))).collect();
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}
