//! The rights that the chart gives to our accounts: the roles in `charts/copyrator/rbac.yaml`.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::{
    api::Kind,
    authority::{Question, Subject},
    installed::{Install, Role},
    names::{StatusPlace, TemplateKind},
};

const ROLES: &str = include_str!("../../../../charts/copyrator/rbac.yaml");

/// The roles of the chart, for every kind of install.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Roles {
    all_namespaces: Vec<ChartRole>,
    own_namespace: Vec<ChartRole>,
    each_namespace: Vec<ChartRole>,
    definitions: Vec<ChartRole>,
}

/// One role, and the accounts that it is bound to.
#[derive(Deserialize)]
struct ChartRole {
    kind: RoleKind,
    name: &'static str,
    accounts: Vec<Role>,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum RoleKind {
    ClusterRole,
    Role,
}

/// An RBAC rule, which may apply only to some kinds of install.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Rule {
    when: Option<When>,
    /// The rule exists only if Copyrator copies this kind besides ConfigMaps and Secrets.
    copies: Option<Kind>,
    /// The rule depends on the chart's value `copies.bind`, which no flag shows.
    #[serde(default)]
    bind: bool,
    /// The rule exists once for each kind that the chart grants to templates for this use.
    templates: Option<TemplateUse>,
    api_groups: Vec<&'static str>,
    resources: Vec<&'static str>,
    #[serde(default)]
    resource_names: Vec<&'static str>,
    verbs: Vec<&'static str>,
}

/// How templates use the objects of a granted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum TemplateUse {
    Render,
    ForEach,
    Status,
    StatusField,
}

impl TemplateUse {
    fn is_of(self, kind: &TemplateKind) -> bool {
        match self {
            Self::Render => kind.rendered.is_some(),
            Self::ForEach => kind.for_each,
            Self::Status => kind.status == Some(StatusPlace::Subresource),
            Self::StatusField => kind.status == Some(StatusPlace::Object),
        }
    }
}

/// The condition on an install for a rule to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum When {
    SelfManaged,
    Mounted,
    Annotations,
}

impl When {
    /// Whether the condition is known to hold.
    fn holds(self, install: &Install<'_>) -> bool {
        match self {
            Self::SelfManaged => install.is_self_managed() == Some(true),
            Self::Mounted => install.is_self_managed() == Some(false),
            Self::Annotations => install.reads_annotations(),
        }
    }
}

/// A right that the chart gives one of our accounts.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The right as a question to the API server.
    pub(super) question: Question,
    /// Kind and name of the role.
    pub(super) role: String,
}

/// Every right that the chart gives in this install.
pub(super) fn given(install: &Install<'_>) -> Vec<Given> {
    #[allow(clippy::expect_used, reason = "the text is part of the binary, and a test reads it")]
    let roles: Roles = serde_saphyr::from_str(ROLES).expect("the roles of the chart can be read");
    let home = install.namespace();
    let mut given = Vec::new();
    let mut add = |roles: &[ChartRole], place: &str| {
        roles.iter().for_each(|role| given.extend(role.given(install, place)));
    };
    if install.is_namespaced() {
        add(&roles.own_namespace, home);
        install.namespaces().iter().for_each(|place| add(&roles.each_namespace, place));
        if install.reads_definitions() {
            add(&roles.definitions, home);
        }
    } else {
        add(&roles.all_namespaces, home);
    }
    given
}

impl ChartRole {
    /// The rights that the role gives to its accounts in this namespace.
    fn given(&self, install: &Install<'_>, place: &str) -> Vec<Given> {
        let fill = |text: &str| text.replace("$(NAME)", &install.stem()).replace("$(NAMESPACE)", place);
        let (role, namespace) = match self.kind {
            RoleKind::ClusterRole => (format!("ClusterRole {}", fill(self.name)), ""),
            RoleKind::Role => (format!("Role {place}/{}", fill(self.name)), place),
        };
        // One account may serve several roles of the process.
        let accounts: BTreeSet<String> = self.accounts.iter().map(|task| install.account(*task)).collect();
        let (copied, granted) = (install.copy_kinds(), install.template_kinds());
        let is_there = |rule: &&Rule| {
            !rule.bind
                && rule.when.is_none_or(|when| when.holds(install))
                && rule.copies.is_none_or(|it| copied.contains(&it))
        };
        let rules = || self.rules.iter().filter(is_there);
        let mut given = Vec::new();
        for account in accounts {
            let subject = Subject::service_account(install.namespace(), &account);
            let questions = rules().flat_map(|rule| match rule.templates {
                None => rule.questions(&subject, namespace, &fill),
                Some(used) => {
                    let of_kind = |kind: &TemplateKind| {
                        let fill = |text: &str| {
                            text.replace("$(GROUP)", kind.kind.group()).replace("$(RESOURCE)", &kind.plural)
                        };
                        rule.questions(&subject, namespace, &fill)
                    };
                    granted.iter().filter(|kind| used.is_of(kind)).flat_map(of_kind).collect()
                }
            });
            given.extend(questions.map(|question| Given { question, role: role.clone() }));
        }
        given
    }
}

impl Rule {
    fn questions(&self, subject: &Subject, namespace: &str, fill: &dyn Fn(&str) -> String) -> Vec<Question> {
        let names: Vec<Option<String>> = match &*self.resource_names {
            [] => vec![None],
            names => names.iter().map(|name| Some(fill(name))).collect(),
        };
        let mut questions = Vec::new();
        for &verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let (group, resource) = (fill(group), fill(resource));
                    let ask =
                        |name: &Option<String>| question(subject, verb, &group, &resource, name, namespace);
                    questions.extend(names.iter().map(ask));
                }
            }
        }
        questions
    }
}

/// A right in terms of RBAC: verb, group, and `RESOURCE` or `RESOURCE/SUBRESOURCE`.
pub(super) fn question(
    subject: &Subject,
    verb: &'static str,
    group: &str,
    resource: &str,
    name: &Option<String>,
    namespace: &str,
) -> Question {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, part)) => (resource, known_part(part)),
        None => (resource, None),
    };
    Question {
        subject: subject.clone(),
        verb,
        group: group.to_owned().into(),
        resource: resource.to_owned().into(),
        subresource,
        name: name.clone(),
        namespace: namespace.to_owned(),
    }
}

/// A subresource that the chart's roles name.
fn known_part(part: &str) -> Option<&'static str> {
    ["status", "eviction"].into_iter().find(|known| *known == part)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;
    use crate::commands::doctor::tests::sound::{deployment, object};

    /// The rights of an account, each as `verb resource/name namespace`.
    fn rights(deployments: &[Deployment], account: &str) -> BTreeSet<String> {
        let given = given(&Install::new("ours", deployments));
        let of = given.iter().filter(|one| one.question.subject.user.ends_with(&format!(":{account}")));
        let brief = |Given { question: it, .. }: &Given| {
            let name = it.name.as_deref().unwrap_or("*");
            [it.verb, " ", &*it.resource, "/", name, " ", &it.namespace].concat().trim().to_owned()
        };
        of.map(brief).collect()
    }

    fn install(arguments: &[&str]) -> Vec<Deployment> {
        let both = ["webhook", "reconciler"].map(|role| {
            let mut deployment = deployment(role);
            let told = &mut deployment["spec"]["template"]["spec"]["containers"][0]["args"];
            told.as_array_mut().unwrap().extend(arguments.iter().map(|one| (*one).into()));
            object(deployment)
        });
        both.into()
    }

    #[test]
    fn each_account_is_given_what_the_charts_roles_say() {
        let deployments = install(&[]);
        let (webhook, reconciler) =
            (rights(&deployments, "copyrator-webhook"), rights(&deployments, "copyrator-reconciler"));
        assert!(webhook.contains("list namespaces/*") && reconciler.contains("list namespaces/*"));
        assert!(reconciler.contains("get clusterroles/copyrator") && reconciler.contains("create pods/*"));
        assert!(reconciler.contains("update leases/* ours") && !webhook.contains("update leases/* ours"));
        assert!(!webhook.iter().any(|right| right.ends_with("secrets/*")), "{webhook:?}");
    }

    #[test]
    fn a_ca_of_our_own_takes_rights_to_it_and_a_mounted_one_to_the_hooks() {
        let hooks = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
        let (get, update) =
            ("get secrets/copyrator-webhook-ca ours", "update secrets/copyrator-webhook-ca ours");
        let own = install(&[]);
        assert!(rights(&own, "copyrator-webhook").contains(get));
        assert!(rights(&own, "copyrator-reconciler").contains(update));
        let mounted = install(&["--tls-dir=/certificates"]);
        let webhook = rights(&mounted, "copyrator-webhook");
        assert!(!webhook.contains(get) && !rights(&mounted, "copyrator-reconciler").contains(update));
        for hook in hooks.map(|kind| format!("get {kind}/copyrator")) {
            assert!(webhook.contains(&hook) && !rights(&own, "copyrator-webhook").contains(&hook), "{hook}");
        }
        // Without a Deployment it is not known which of them apply, so none is reported as missing.
        let unknown = rights(&[], "copyrator-webhook");
        assert!(!unknown.is_empty() && !unknown.iter().any(|right| right.starts_with("get ")), "{unknown:?}");
    }

    #[test]
    fn a_kind_that_is_copied_beside_comes_with_its_rights() {
        let rights = |arguments| rights(&install(arguments), "copyrator-reconciler");
        let some = rights(&["--copy-kinds=NetworkPolicy,ServiceAccount"]);
        for right in ["patch networkpolicies/*", "delete serviceaccounts/*"] {
            assert!(some.contains(right), "{right}: {some:?}");
        }
        assert!(!some.contains("list limitranges/*") && !rights(&[]).contains("list networkpolicies/*"));
        let shop = rights(&["--namespaces=shop", "--copy-kinds=LimitRange"]);
        assert!(shop.contains("create limitranges/* shop"), "{shop:?}");
    }

    #[test]
    fn a_kind_that_templates_are_rendered_for_comes_with_the_rights_of_its_use() {
        let rights = |arguments| rights(&install(arguments), "copyrator-reconciler");
        let some = rights(&[
            "--template-kinds=web.example.com/v1/NginxServer/nginxservers/forEach+statusField,a.b/v1/A/as/forEach+status",
        ]);
        for right in ["watch nginxservers/*", "patch nginxservers/*", "list as/*", "patch as/*"] {
            assert!(some.contains(right), "{right}: {some:?}");
        }
        assert!(!some.contains("delete nginxservers/*") && !rights(&[]).contains("list nginxservers/*"));
    }

    #[test]
    fn of_some_namespaces_each_has_its_role_and_nothing_is_of_the_cluster() {
        let rights = |arguments| rights(&install(arguments), "copyrator-reconciler");
        let some = rights(&["--namespaces=shop,web"]);
        assert!(
            some.iter().all(|right| [" ours", " shop", " web"].iter().any(|place| right.ends_with(place)))
        );
        for right in ["get namespaces/shop shop", "get namespaces/web web", "create configmaps/* ours"] {
            assert!(some.contains(right), "{right}: {some:?}");
        }
        let without = rights(&["--namespaces=shop,web", "--annotations=false"]);
        assert!(!without.contains("create configmaps/* ours"), "{without:?}");
    }
}
