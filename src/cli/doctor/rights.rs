//! What our accounts may do, beside what they are to: the chart's roles are the truth, and RBAC says the
//! rest.

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};

use super::{
    chart::{GIVEN, Given, rules},
    facts::{Facts, Rbac},
    finding::{Findings, Id},
};
use crate::cli::operator::{Install, Role};

/// One right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right<'r> {
    verb: &'r str,
    group: &'r str,
    resource: &'r str,
    /// Of which object; `None`: of any.
    name: Option<&'r str>,
}

/// What one binding gives an account.
pub(super) struct Grant<'f> {
    /// As kubectl names it.
    binding: String,
    /// Where; `None`: everywhere.
    pub(super) namespace: Option<&'f str>,
    pub(super) rules: &'f [PolicyRule],
    /// To that very account, not to a group.
    pub(super) is_direct: bool,
    /// What it gives is a ClusterRole, which takes a right over the cluster to read.
    pub(super) is_of_cluster: bool,
}

/// Every right that an account of ours lacks or has too many.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let rbac = match &facts.rbac {
        Ok(rbac) => rbac,
        Err(unread) => return found.unknown(&[Id::RightMissing, Id::RightTooMany], unread),
    };
    let mut accounts: Vec<(String, Vec<Role>)> = Vec::new();
    for role in [Role::Reconciler, Role::Webhook] {
        let account = install.account(role);
        match accounts.iter_mut().find(|(name, _)| *name == account) {
            Some((_, roles)) => roles.push(role),
            None => accounts.push((account, vec![role])),
        }
    }
    for (account, roles) in accounts {
        let grants = grants(rbac, &facts.namespace, &account);
        let given: Vec<&Given> =
            GIVEN.iter().filter(|given| given.holders.iter().any(|role| roles.contains(role))).collect();
        let object = format!("ServiceAccount {}/{account}", facts.namespace);
        missing(&facts.namespace, &object, &given, &grants, install, found);
        surplus(&facts.namespace, &object, &given, &grants, install, found);
    }
}

fn missing(
    namespace: &str,
    object: &str,
    given: &[&Given],
    grants: &[Grant<'_>],
    install: &Install<'_>,
    found: &mut Findings,
) {
    for given in given {
        let here = |grant: &&Grant<'_>| {
            grant.namespace.is_none() || (given.is_local && grant.namespace == Some(namespace))
        };
        let has: Vec<&PolicyRule> = grants.iter().filter(here).flat_map(|grant| grant.rules).collect();
        let rules = rules(given, &install.stem(), namespace, install.is_self_managed(), false);
        let lacking = lacking(&rules, &has);
        if lacking.is_empty() {
            continue;
        }
        let kind = if given.is_local { "Role" } else { "ClusterRole" };
        let what = format!(
            "may not {}; {kind} {}{} and its binding give it that",
            listed(&lacking),
            install.stem(),
            given.suffix
        );
        found.error(Id::RightMissing, object, what, install.repair());
    }
}

fn surplus(
    namespace: &str,
    object: &str,
    given: &[&Given],
    grants: &[Grant<'_>],
    install: &Install<'_>,
    found: &mut Findings,
) {
    let stem = install.stem();
    let is_self_managed = install.is_self_managed();
    let all: Vec<(bool, Vec<PolicyRule>)> = given
        .iter()
        .map(|given| (given.is_local, rules(given, &stem, namespace, is_self_managed, true)))
        .collect();
    for grant in grants.iter().filter(|grant| grant.is_direct) {
        let here = grant.namespace == Some(namespace);
        let wanted: Vec<&PolicyRule> =
            all.iter().filter(|(is_local, _)| !is_local || here).flat_map(|(_, rules)| rules).collect();
        too_many(object, grant, &wanted, &GIVEN, install, found);
    }
}

/// What a binding gives beyond what is wanted; `given` says which bindings are the chart's.
pub(super) fn too_many(
    object: &str,
    grant: &Grant<'_>,
    wanted: &[&PolicyRule],
    given: &[Given],
    install: &Install<'_>,
    found: &mut Findings,
) {
    let more = lacking(grant.rules, wanted);
    let urls: Vec<&str> = grant
        .rules
        .iter()
        .flat_map(|rule| rule.non_resource_urls.iter().flatten())
        .map(String::as_str)
        .collect();
    if more.is_empty() && urls.is_empty() {
        return;
    }
    let what = format!(
        "may more than it needs, by {}: {}",
        grant.binding,
        [listed(&more), urls.join(", ")].join(" ").trim()
    );
    let stem = install.stem();
    let is_charts = |given: &Given| grant.binding.ends_with(&format!("binding/{stem}{}", given.suffix));
    let fix = match grant.namespace {
        _ if given.iter().any(is_charts) => install.repair(),
        Some(place) => format!("kubectl -n {place} delete {}", grant.binding),
        None => format!("kubectl delete {}", grant.binding),
    };
    found.warning(Id::RightTooMany, object, what, fix);
}

/// The rights of the first that the second do not give.
pub(super) fn lacking<'r>(rules: &'r [PolicyRule], has: &[&PolicyRule]) -> Vec<Right<'r>> {
    rules.iter().flat_map(rights).filter(|right| !covered(right, has)).collect()
}

pub(super) fn grants<'f>(rbac: &'f Rbac, namespace: &str, account: &str) -> Vec<Grant<'f>> {
    let holds = |subjects: &Option<Vec<Subject>>| -> Option<bool> {
        let held = subjects.iter().flatten().filter_map(|subject| holder(subject, namespace, account));
        held.max()
    };
    let cluster_rules = |of: &RoleRef| -> &'f [PolicyRule] {
        let role = rbac.cluster_roles.iter().find(|role| role.metadata.name.as_ref() == Some(&of.name));
        role.and_then(|role| role.rules.as_deref()).unwrap_or_default()
    };
    let local_rules = |place: &str, of: &RoleRef| -> &'f [PolicyRule] {
        let is_it = |role: &&k8s_openapi::api::rbac::v1::Role| {
            role.metadata.name.as_ref() == Some(&of.name) && role.metadata.namespace.as_deref() == Some(place)
        };
        rbac.roles.iter().find(is_it).and_then(|role| role.rules.as_deref()).unwrap_or_default()
    };
    let cluster = rbac.cluster_role_bindings.iter().filter_map(|binding| {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        Some(Grant {
            binding: format!("clusterrolebinding/{name}"),
            namespace: None,
            rules: cluster_rules(&binding.role_ref),
            is_of_cluster: true,
            is_direct: holds(&binding.subjects)?,
        })
    });
    let local = rbac.role_bindings.iter().filter_map(|binding| {
        let place = binding.metadata.namespace.as_deref().unwrap_or_default();
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        let of = &binding.role_ref;
        Some(Grant {
            binding: format!("rolebinding/{name}"),
            namespace: Some(place),
            rules: if of.kind == "ClusterRole" { cluster_rules(of) } else { local_rules(place, of) },
            is_of_cluster: of.kind == "ClusterRole",
            is_direct: holds(&binding.subjects)?,
        })
    });
    cluster.chain(local).collect()
}

/// Whether the account is the subject itself, or only one of a group.
fn holder(subject: &Subject, namespace: &str, account: &str) -> Option<bool> {
    let who = crate::authority::Subject::service_account(namespace, account);
    match subject.kind.as_str() {
        "ServiceAccount" => {
            (subject.name == account && subject.namespace.as_deref() == Some(namespace)).then_some(true)
        }
        "User" => (subject.name == who.user).then_some(true),
        _ => who.groups.contains(&subject.name).then_some(false),
    }
}

fn rights(rule: &PolicyRule) -> Vec<Right<'_>> {
    let names: Vec<Option<&str>> = match rule.resource_names.as_deref().unwrap_or_default() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let mut rights = Vec::new();
    for verb in &rule.verbs {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                rights.extend(names.iter().map(|name| Right { verb, group, resource, name: *name }));
            }
        }
    }
    rights
}

/// Whether one of the rules gives this right.
fn covered(right: &Right<'_>, rules: &[&PolicyRule]) -> bool {
    let has = |list: &Option<Vec<String>>, one: &str| list.iter().flatten().any(|it| it == one || it == "*");
    rules.iter().any(|rule| {
        let names = rule.resource_names.as_deref().unwrap_or_default();
        rule.verbs.iter().any(|verb| verb == right.verb || verb == "*")
            && has(&rule.api_groups, right.group)
            && has(&rule.resources, right.resource)
            && (names.is_empty() || right.name.is_some_and(|name| names.iter().any(|it| it == name)))
    })
}

/// Rights in words, those to one resource together: as many as a line bears.
pub(super) fn listed(rights: &[Right<'_>]) -> String {
    const SHOWN: usize = 8;
    let mut resources: Vec<(String, Vec<&str>)> = Vec::new();
    for right in rights {
        let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
        let name = right.name.map(|name| format!("/{name}")).unwrap_or_default();
        let resource = format!("{}{group}{name}", right.resource);
        match resources.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, verbs)) => verbs.push(right.verb),
            None => resources.push((resource, vec![right.verb])),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_to_one_object_is_none_to_all() {
        let rule = |names: &[&str]| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".into()]),
            resource_names: (!names.is_empty())
                .then(|| names.iter().map(|name| (*name).to_owned()).collect()),
            verbs: vec!["get".into()],
            ..PolicyRule::default()
        };
        let (any, one) = (rule(&[]), rule(&["a"]));
        assert!(covered(&rights(&one)[0], &[&any]) && covered(&rights(&one)[0], &[&one]));
        assert!(!covered(&rights(&any)[0], &[&one]));
    }
}
