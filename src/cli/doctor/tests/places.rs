//! An install that looks at some namespaces only, with Roles alone.

use super::*;
use crate::cli::doctor::{
    chart::{AT_HOME, Given, IN_PLACES, rules},
    facts::{Rbac, Seen},
};

fn may_not_list() -> Unread {
    Unread { verb: "list", resource: "clusterroles".into(), namespace: None, failure: None }
}

/// What the chart gives there.
fn bound(given: &Given, place: &str) -> Rbac {
    let name = format!("copyrator{}", given.suffix);
    let rules = serde_json::to_value(rules(given, "copyrator", place, None, true)).unwrap();
    let metadata = json!({"name": name, "namespace": place});
    let binding = json!({"metadata": metadata, "roleRef": {"kind": "Role", "name": name, "apiGroup": ""},
        "subjects": [{"kind": "ServiceAccount", "name": "copyrator-reconciler", "namespace": "ours"}]});
    Rbac {
        roles: vec![object(json!({"metadata": metadata, "rules": rules}))],
        role_bindings: vec![object(binding)],
        ..Rbac::default()
    }
}

/// In `shop` and `web`, looked at by a caller who may list roles of the cluster, too.
fn some() -> Facts {
    let mut facts = sound();
    let deployments = facts.deployments.as_mut().unwrap();
    deployments.retain(|deployment| deployment.metadata.name.as_deref() == Some("copyrator-reconciler"));
    let container = &mut deployments[0].spec.template.spec.as_mut().unwrap().containers[0];
    let arguments = container.args.as_mut().unwrap();
    arguments.retain(|argument| !argument.starts_with("--owner-cluster-role"));
    arguments.push("--namespaces=shop,web".into());
    facts.hooks = Ok(Vec::new());
    facts.rbac = Ok(Rbac::default());
    let places = ["shop", "web"].map(|place| (place.to_owned(), Ok(bound(&IN_PLACES, place))));
    facts.places = places.into();
    facts.places.insert("ours".into(), Ok(bound(&AT_HOME, "ours")));
    facts
}

fn of<'f>(facts: &'f mut Facts, place: &str) -> &'f mut Rbac {
    facts.places.get_mut(place).and_then(|seen: &mut Seen<Rbac>| seen.as_mut().ok()).unwrap()
}

/// There are no ClusterRoles, no hooks and no CA, and nothing is wrong with that.
#[test]
fn what_is_the_clusters_is_not_missed() {
    let mut facts = some();
    let found = examine(&facts, &[]);
    assert_eq!(found, []);
    assert_eq!(in_order(&facts, &found, &[]).len(), 14);
    facts.digest_key = Ok(false);
    assert_eq!(brief(&examine(&facts, &[])), [(Severity::Error, Id::DigestKeyMissing)]);
}

#[test]
fn what_a_role_of_one_namespace_lacks_is_found_with_its_place() {
    use Severity::{Error, Warning};
    type Case = (&'static str, fn(&mut Facts), &'static [(Severity, Id)], &'static str);
    let cases: &[Case] = &[
        (
            "a Role without a rule",
            |it| drop(of(it, "web").roles[0].rules.as_mut().unwrap().remove(0)),
            &[(Error, Id::RightMissing)],
            "may not get namespaces/web in namespace web, ",
        ),
        (
            "a RoleBinding gone",
            |it| of(it, "shop").role_bindings.clear(),
            &[(Error, Id::RightMissing)],
            "Role shop/copyrator and the RoleBinding of that name give it that",
        ),
        (
            "one at home",
            |it| of(it, "ours").role_bindings.clear(),
            &[(Error, Id::RightMissing)],
            "create configmaps in namespace ours, ",
        ),
        (
            "a Role with more in it",
            |it| {
                let rule = json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]});
                of(it, "web").roles[0].rules.as_mut().unwrap().push(object(rule));
            },
            &[(Warning, Id::RightTooMany)],
            "create pods/exec",
        ),
        (
            "a right over the cluster",
            |it| {
                let rbac = it.rbac.as_mut().unwrap();
                rbac.cluster_roles.push(object(json!({"metadata": {"name": "all"}, "rules": [
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]})));
                rbac.cluster_role_bindings.push(object(json!({"metadata": {"name": "more"},
                    "roleRef": {"kind": "ClusterRole", "name": "all", "apiGroup": ""},
                    "subjects": [{"kind": "ServiceAccount", "name": "copyrator-reconciler", "namespace": "ours"}]})));
            },
            &[(Warning, Id::RightTooMany)],
            "by clusterrolebinding/more: list secrets",
        ),
    ];
    for (broken, breaks, expected, part) in cases {
        let mut facts = some();
        breaks(&mut facts);
        let found = examine(&facts, &[]);
        assert_eq!(brief(&found), *expected, "{broken}: {found:#?}");
        assert!(found[0].what.contains(part), "{broken}: {}", found[0].what);
    }
}

/// The caller administers these namespaces and no others.
#[test]
fn what_may_not_be_read_is_not_known_and_all_else_is_told() {
    let mut facts = some();
    facts.rbac = Err(may_not_list());
    assert_eq!(brief(&examine(&facts, &[])), [(Severity::Unknown, Id::RightTooMany)]);
    let rule = of(&mut facts, "web").roles[0].rules.as_mut().unwrap().pop();
    assert!(rule.is_some());
    let found = examine(&facts, &[]);
    assert_eq!(
        brief(&found),
        [(Severity::Error, Id::RightMissing), (Severity::Unknown, Id::RightTooMany)],
        "{found:#?}"
    );
    assert!(found[0].what.contains("may not create localsubjectaccessreviews"), "{}", found[0].what);
    // The account may have all of that by a ClusterRole that cannot be read.
    of(&mut facts, "web").role_bindings[0].role_ref.kind = "ClusterRole".into();
    let ids: Vec<_> = brief(&examine(&facts, &[]));
    assert_eq!(ids, [(Severity::Unknown, Id::RightMissing), (Severity::Unknown, Id::RightTooMany)]);
    facts.places.insert("web".into(), Err(unread()));
    let ids: Vec<_> = brief(&examine(&facts, &[]));
    let unknown = |id| (Severity::Unknown, id);
    assert_eq!(ids, [unknown(Id::RightMissing), unknown(Id::RightTooMany), unknown(Id::RightTooMany)]);
}
