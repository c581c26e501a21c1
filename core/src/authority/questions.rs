//! The rights that a spec needs, as questions to the API server.

use std::{borrow::Cow, collections::BTreeSet};

use k8s_openapi::api::{
    core::v1::{Namespace, Pod, ServiceAccount},
    rbac::v1::ClusterRole,
};

use super::Subject;
use crate::{
    api::{ConfigMonitorSpec, CopyratorRuleSpec, ResourceType, StrategyType, TargetTerm, WorkloadKind},
    model::Right,
    names::Kind,
    validate::is_literal,
};

/// Whether a subject has one right, in the terms of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// The user to ask about.
    pub subject: Subject,
    /// The verb, such as `create`.
    pub verb: &'static str,
    /// The API group of the resource; empty for the core.
    pub group: Cow<'static, str>,
    /// The resource in plural, such as `configmaps`.
    pub resource: Cow<'static, str>,
    /// The subresource, such as `eviction`.
    pub subresource: Option<&'static str>,
    /// The object's name; `None` asks about all objects.
    pub name: Option<String>,
    /// The namespace; empty asks about all namespaces.
    pub namespace: String,
}

impl Question {
    /// Whether the question is about reading in a namespace other than `home`, or in all namespaces.
    pub fn reads_elsewhere(&self, home: &str) -> bool {
        ["get", "list"].contains(&self.verb) && *self.namespace != *home
    }
}

/// The rights that a rule in `namespace` needs: reading its sources, which are of the kind `source_kind`, and
/// writing its copies.
pub fn rule_questions(
    namespace: &str,
    spec: &CopyratorRuleSpec,
    source_kind: Kind,
    subject: &Subject,
) -> Vec<Question> {
    rule_questions_within(namespace, spec, source_kind, subject, None)
}

/// Like [`rule_questions`], if Copyrator reads only the namespaces `within`.
pub fn rule_questions_within(
    namespace: &str,
    spec: &CopyratorRuleSpec,
    source_kind: Kind,
    subject: &Subject,
    within: Option<&BTreeSet<String>>,
) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |verb, kind: Kind, name, namespace: &str| {
        questions.push(question(subject, verb, kind.resource(), name, namespace));
    };
    let source = &spec.source;
    let own = [namespace.to_owned()];
    let namespaces = if source.namespaces.is_empty() { &own[..] } else { &source.namespaces };
    for namespace in namespaces {
        match source.names.as_ref().filter(|names| names.iter().all(|name| is_literal(name))) {
            Some(names) => {
                names.iter().for_each(|name| ask("get", source_kind, Some(name.clone()), namespace))
            }
            // With `get` alone, a user reads only objects whose names the user knows. A rule with patterns or
            // labels finds objects of unknown names, so it needs `list`.
            None => ["get", "list"].into_iter().for_each(|verb| ask(verb, source_kind, None, namespace)),
        }
    }
    let kind = spec.copy.as_ref().and_then(|copy| copy.kind).map_or(source_kind, Kind::from);
    for namespace in places(&spec.targets, within) {
        questions.extend(writing(subject, kind, &namespace));
    }
    questions.sort();
    questions.dedup();
    questions
}

/// Asks whether the subject has this right in a namespace; the empty name means all namespaces.
pub fn right_question(subject: &Subject, right: &Right, namespace: &str) -> Question {
    match right {
        Right::Delete(kind) => question(subject, "delete", kind.resource(), None, namespace),
        Right::Bind(role) => binding(subject, role, namespace),
    }
}

/// The rights that a monitor in `namespace` needs to restart workloads by its strategy.
pub fn monitor_questions(namespace: &str, spec: &ConfigMonitorSpec, subject: &Subject) -> Vec<Question> {
    let ask = |verb, resource, name| question(subject, verb, resource, name, namespace);
    let pods = ResourceType::of::<Pod>();
    let mut questions = match spec.strategy.type_ {
        StrategyType::Evict => {
            vec![Question { subresource: Some("eviction"), ..ask("create", pods, None) }]
        }
        StrategyType::Delete => vec![ask("delete", pods, None)],
        StrategyType::Rollout => {
            let names = spec.workloads.as_ref().and_then(|workloads| workloads.names.as_ref());
            match names {
                Some(names) => names
                    .iter()
                    .map(|workload| ask("patch", workload.kind.resource(), Some(workload.name.clone())))
                    .collect(),
                None => WorkloadKind::ALL.map(|kind| ask("patch", kind.resource(), None)).into(),
            }
        }
    };
    questions.sort();
    questions.dedup();
    questions
}

/// Asks whether the subject may list namespaces, and so may know which namespaces exist.
pub fn listing_namespaces(subject: &Subject) -> Question {
    question(subject, "list", ResourceType::of::<Namespace>(), None, "")
}

/// Asks whether a writer may act as the ServiceAccount that the spec names.
pub fn impersonation(namespace: &str, account: &str, writer: &Subject) -> Question {
    let accounts = ResourceType::of::<ServiceAccount>();
    question(writer, "impersonate", accounts, Some(account.to_owned()), namespace)
}

/// The rights to keep objects of a kind in a namespace; the empty name means all namespaces. Every
/// deletionPolicy needs `delete`: Copyrator deletes and recreates an object that no update can correct (an
/// immutable object, or a Secret of a different type).
pub(super) fn writing<'q>(
    subject: &'q Subject,
    kind: Kind,
    namespace: &'q str,
) -> impl Iterator<Item = Question> + 'q {
    let verbs = ["create", "patch", "delete"].into_iter();
    verbs.map(move |verb| question(subject, verb, kind.resource(), None, namespace))
}

/// The right to bind a ClusterRole in a namespace, beside the right to write a RoleBinding. RBAC checks the
/// right to bind against escalation. RBAC also lets a subject with all rights of the role bind it, but no
/// review asks about these rights.
pub(super) fn binding(subject: &Subject, role: &str, namespace: &str) -> Question {
    question(subject, "bind", ResourceType::of::<ClusterRole>(), Some(role.to_owned()), namespace)
}

/// The namespaces that objects can be written to: `within`, or the namespaces that the terms select. The
/// empty name means all: the terms can select more over time.
pub(super) fn places(terms: &[TargetTerm], within: Option<&BTreeSet<String>>) -> Vec<String> {
    if let Some(within) = within {
        return within.iter().cloned().collect();
    }
    let mut namespaces = Vec::new();
    for term in terms {
        match &term.names {
            // A selector beside literal names only narrows the names.
            Some(names) if names.iter().all(|name| is_literal(name)) => {
                namespaces.extend(names.iter().cloned())
            }
            _ => return vec![String::new()],
        }
    }
    namespaces
}

pub(super) fn question(
    subject: &Subject,
    verb: &'static str,
    resource: ResourceType,
    name: Option<String>,
    namespace: &str,
) -> Question {
    Question {
        subject: subject.clone(),
        verb,
        group: resource.group.into(),
        resource: resource.plural.into(),
        subresource: None,
        name,
        namespace: namespace.into(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::authority) fn asked(questions: &[Question]) -> Vec<String> {
        let line = |question: &Question| {
            let namespace = if question.namespace.is_empty() { "*" } else { &question.namespace };
            let part = question.subresource.map(|part| format!("/{part}")).unwrap_or_default();
            let name = question.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("{} {}{part}{name} in {namespace}", question.verb, question.resource)
        };
        questions.iter().map(line).collect()
    }

    /// The questions of a rule that copies a kind with a name of its own.
    pub(in crate::authority) fn of_rule(
        namespace: &str,
        json: serde_json::Value,
        subject: &Subject,
    ) -> Vec<Question> {
        let spec: CopyratorRuleSpec = serde_json::from_value(json).unwrap();
        rule_questions(namespace, &spec, Kind::named(&spec.source.kind).unwrap(), subject)
    }

    fn rule(json: serde_json::Value) -> Vec<String> {
        asked(&of_rule("platform", json, &Subject::default()))
    }

    #[test]
    fn names_are_asked_for_by_name_and_what_can_grow_for_all() {
        assert_eq!(
            rule(serde_json::json!({
                "source": {"kind": "Secret", "names": ["a"]},
                "targets": [{"names": ["shop"], "namespaceSelector": {"matchLabels": {"a": "b"}}}, {"names": ["web"]}],
                "deletionPolicy": "Retain"
            })),
            [
                "create secrets in shop",
                "create secrets in web",
                "delete secrets in shop",
                "delete secrets in web",
                "get secrets a in platform",
                "patch secrets in shop",
                "patch secrets in web"
            ]
        );
        assert_eq!(
            rule(serde_json::json!({
                "source": {"kind": "Secret", "names": ["a-*"], "namespaces": ["one", "two"]},
                "targets": [{"names": ["shop"]}, {"namespaceSelector": {}}],
                "copy": {"kind": "ConfigMap"}
            })),
            [
                "create configmaps in *",
                "delete configmaps in *",
                "get secrets in one",
                "get secrets in two",
                "list secrets in one",
                "list secrets in two",
                "patch configmaps in *"
            ]
        );
        assert_eq!(
            rule(
                serde_json::json!({"source": {"kind": "ConfigMap", "objectSelector": {}}, "targets": [{"names": ["t?"]}]})
            )[2],
            "get configmaps in platform"
        );
    }

    #[test]
    fn a_monitor_asks_for_what_its_strategy_does() {
        for (json, expected) in [
            (r#"{"watch":[],"strategy":{"type":"Evict"}}"#, vec!["create pods/eviction in shop"]),
            (r#"{"watch":[],"strategy":{"type":"Delete"}}"#, vec!["delete pods in shop"]),
            (
                r#"{"watch":[],"workloads":{"names":[{"kind":"Deployment","name":"web"}]}}"#,
                vec!["patch deployments web in shop"],
            ),
            (
                r#"{"watch":[]}"#,
                vec!["patch daemonsets in shop", "patch deployments in shop", "patch statefulsets in shop"],
            ),
        ] {
            let spec = serde_json::from_str(json).unwrap();
            assert_eq!(asked(&monitor_questions("shop", &spec, &Subject::default())), expected, "{json}");
        }
    }
}
