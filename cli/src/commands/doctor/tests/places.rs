//! An install that looks at some namespaces only, with Roles alone.

use super::*;

/// Looks at `shop` and `web`; the caller may ask about the whole cluster.
fn some() -> Facts {
    let mut facts = sound();
    let deployments = facts.deployments.as_mut().unwrap();
    deployments.retain(|deployment| deployment.metadata.name.as_deref() == Some("copyrator-reconciler"));
    let container = &mut deployments[0].spec.template.spec.as_mut().unwrap().containers[0];
    let arguments = container.args.as_mut().unwrap();
    arguments.retain(|argument| !argument.starts_with("--owner-cluster-role"));
    arguments.push("--namespaces=shop,web".into());
    facts.hooks = Ok(Vec::new());
    rightful(&mut facts);
    facts
}

/// There are no ClusterRoles, no hooks and no CA, which is right here.
#[test]
fn what_is_the_clusters_is_not_missed() {
    let mut facts = some();
    let found = examine(&facts, &[]);
    assert_eq!(found, []);
    assert_eq!(in_order(&facts, &found, &[]).len(), 17);
    facts.digest_key = Ok(false);
    assert_eq!(brief(&examine(&facts, &[])), [(Severity::Error, Id::DigestKeyMissing)]);
}

#[test]
fn what_a_role_of_one_namespace_lacks_is_found_with_its_place() {
    use Severity::{Error, Warning};
    let account = "copyrator-reconciler";
    for (turned, expected, part) in [
        (
            ["get", "namespaces", "web"],
            (Error, Id::RightMissing),
            "may not get namespaces/web in namespace web, which Role web/copyrator and the RoleBinding of that name should grant",
        ),
        (
            ["create", "configmaps", "ours"],
            (Error, Id::RightMissing),
            "may not create configmaps in namespace ours, which Role ours/copyrator-reconciler",
        ),
        (["get", "secrets", ""], (Warning, Id::RightTooMany), "may get secrets in all namespaces"),
    ] {
        let mut facts = some();
        turn(&mut facts, [account, turned[0], turned[1], turned[2]]);
        let found = examine(&facts, &[]);
        assert_eq!(brief(&found), [expected], "{turned:?}: {found:#?}");
        assert!(found[0].what.contains(part), "{turned:?}: {}", found[0].what);
    }
}

/// The caller administers these namespaces and no others.
#[test]
fn what_may_not_be_asked_is_not_known_and_all_else_is_told() {
    let mut facts = some();
    let may_not_ask = |facts: &mut Facts, place: &str| {
        let of = facts.rights.iter_mut().filter(|(right, _)| right.question.namespace == place);
        of.for_each(|(_, allowed)| *allowed = Err(unread()));
    };
    may_not_ask(&mut facts, "");
    assert_eq!(brief(&examine(&facts, &[])), [(Severity::Unknown, Id::RightTooMany)]);
    turn(&mut facts, ["copyrator-reconciler", "create", "localsubjectaccessreviews", "web"]);
    let found = examine(&facts, &[]);
    assert_eq!(
        brief(&found),
        [(Severity::Error, Id::RightMissing), (Severity::Unknown, Id::RightTooMany)],
        "{found:#?}"
    );
    may_not_ask(&mut facts, "web");
    let unknown = |id| (Severity::Unknown, id);
    assert_eq!(brief(&examine(&facts, &[])), [unknown(Id::RightMissing), unknown(Id::RightTooMany)]);
}
