//! A sound install, broken in every way there is an id for.

mod calls;
mod order;
mod places;
pub(super) mod sound;

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use copyrator_certs::{CaSecret, Rotation};
use serde_json::{Value, json};

use self::sound::{now, object, rightful, sound, turn};
use super::{
    examine::{examine, in_order},
    facts::{Ca, Facts, HeldCopies, LeaseFacts, Unread, UnreadFacts},
    finding::{Finding, Id, Severity},
    policies,
    table::table,
};
use crate::{
    model::Definition,
    names::{Declarer, Kind, ObjectKey, TemplateKind},
    read::crds::{RULES, TEMPLATES},
};

/// One configuration of our hooks.
fn ours(facts: &mut Facts, index: usize) -> &mut Value {
    &mut facts.hooks.as_mut().unwrap()[index]
}

fn hands_off(facts: &mut Facts, index: usize) {
    ours(facts, index)["metadata"]["annotations"] = json!({"copyrator.dev/hands-off": "incident"});
}

fn rotation(facts: &mut Facts) -> &mut Rotation {
    match facts.ca.as_mut().unwrap() {
        Ca::There(rotation) => rotation,
        other => panic!("{other:?}"),
    }
}

fn ca(facts: &mut Facts) -> &mut CaSecret {
    &mut rotation(facts).secret
}

/// As the chart configures mounted certificates.
fn mounted(facts: &mut Facts) {
    for deployment in facts.deployments.as_mut().unwrap() {
        let container = &mut deployment.spec.template.spec.as_mut().unwrap().containers[0];
        container.args.as_mut().unwrap().push("--tls-dir=/certificates".into());
    }
    rightful(facts);
}

fn foreign(facts: &mut Facts, service: &str, edit: fn(&mut Value)) {
    let mut hook = json!({
        "name": "all.example.com",
        "clientConfig": {"service": {"namespace": "them", "name": service}},
        "rules": [{"apiGroups": ["*"], "resources": ["*"]}],
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn"}]},
    });
    edit(&mut hook);
    let configuration =
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "theirs"}, "webhooks": [hook]});
    facts.hooks.as_mut().unwrap().push(configuration);
}

/// A policy with a pattern that is none.
fn unfit(failure: &str) -> Value {
    json!({"metadata": {"name": "urls"}, "spec": {
        "match": {"kinds": ["ConfigMap"]}, "failurePolicy": failure,
        "data": [{"name": "url", "keys": ["url"], "pattern": "("}]}})
}

fn unread() -> Unread {
    Unread { verb: "get", resource: "things/one".into(), namespace: Some("ours".into()), failure: None }
}

fn brief(found: &[Finding]) -> Vec<(Severity, Id)> {
    found.iter().map(|finding| (finding.severity, finding.id)).collect()
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let facts = sound();
    let found = examine(&facts, &[]);
    assert_eq!(found, []);
    assert_eq!(in_order(&facts, &found, &[]), Id::value_variants());
    assert_eq!(table(&found, 24), "Nothing found: 24 checks passed.\n");
}

/// What breaks, how, the expected findings, and a word of the fix.
type Case = (&'static str, fn(&mut Facts), &'static [(Severity, Id)], &'static str);

#[test]
fn every_fault_is_found_and_no_other() {
    use Severity::{Error, Warning};
    let cases: &[Case] = &[
        (
            "no Deployment",
            |it| it.deployments = Ok(Vec::new()),
            &[(Error, Id::NotInstalled)],
            "helm upgrade --install",
        ),
        (
            "1.29",
            |it| it.server = Ok("1.29".parse().unwrap()),
            &[(Error, Id::ServerTooOld), (Error, Id::HooksDrifted)],
            "",
        ),
        (
            "a policy that is invalid",
            |it| it.inert_policies = Ok(policies::sorted(vec![object(unfit("Fail"))]).1),
            &[(Error, Id::PolicyOff)],
            "kubectl edit configpolicy urls",
        ),
        (
            "the same that lets writes pass",
            |it| it.inert_policies = Ok(policies::sorted(vec![object(unfit("Ignore"))]).1),
            &[(Warning, Id::PolicyOff)],
            "kubectl edit configpolicy urls",
        ),
        (
            "a policy of a newer version",
            |it| {
                let mut newer = unfit("Fail");
                newer["spec"]["data"][0]["pattern"] = json!("a");
                newer["spec"]["quorum"] = json!(3);
                it.inert_policies = Ok(policies::sorted(vec![object(newer)]).1);
            },
            &[(Error, Id::PolicyOff)],
            "kubectl edit configpolicy urls",
        ),
        (
            "no CRD",
            |it| it.definitions[1].1 = Ok(None),
            &[(Error, Id::CrdMissing)],
            "copyrator crds --kube-version 1.36 | kubectl apply --server-side -f -",
        ),
        (
            "no CRD, of those that Helm has made",
            |it| {
                it.definitions[1].1 = Ok(None);
                let other = it.definitions[0].1.as_mut().unwrap().as_mut().unwrap();
                let release = ("meta.helm.sh/release-name".to_owned(), "copyrator".to_owned());
                other.metadata.annotations = Some([release].into());
            },
            &[(Error, Id::CrdMissing)],
            "helm upgrade copyrator charts/copyrator -n ours --reset-then-reuse-values",
        ),
        (
            "a guard that is not over what templates declare",
            |it| {
                let deployments = it.deployments.as_mut().unwrap().iter_mut();
                for spec in deployments.filter_map(|one| one.spec.template.spec.as_mut()) {
                    let kinds = "--template-kinds=a.b/v1/A/as/forEach,cert-manager.io/v1/Issuer/issuers/forEach+copy+render";
                    spec.containers[0].args.get_or_insert_default().push(kinds.into());
                }
            },
            &[(Error, Id::PolicyChanged)],
            "copyrator crds --kube-version 1.36 --template-kinds cert-manager.io/v1/Issuer/issuers/render+copy | kubectl apply",
        ),
        (
            "a CRD that was made anew without its rules",
            |it| {
                let definition = Definition { uid: "anew".into(), created: now() };
                let rules = [(Declarer::rule("home", "app"), 300)].into();
                it.held = Ok(vec![HeldCopies {
                    of: RULES,
                    definition,
                    rules,
                    kinds: [Kind::ConfigMap, Kind::Secret].into(),
                }]);
            },
            &[(Warning, Id::CopiesHeld)],
            "kubectl annotate configmaps,secrets -A -l copyrator.dev/rule --overwrite copyrator.dev/definition=anew",
        ),
        (
            "a CRD that was made anew without its templates",
            |it| {
                let definition = Definition { uid: "anew".into(), created: now() };
                let rules = [(Declarer::template("home", "kit"), 2)].into();
                let certificates = "cert-manager.io/v1/Certificate/certificates/render";
                let certificate = TemplateKind::read(certificates, &it.kinds).unwrap().rendered.unwrap();
                let kinds = BTreeSet::from([Kind::ConfigMap, certificate]);
                let held = HeldCopies { of: TEMPLATES, definition, rules, kinds };
                it.held = Ok(vec![HeldCopies { of: RULES, rules: [].into(), ..held.clone() }, held]);
            },
            &[(Warning, Id::CopiesHeld)],
            "kubectl annotate configmaps,certificates.cert-manager.io -A -l copyrator.dev/rule --overwrite copyrator.dev/definition=anew",
        ),
        (
            "a copy that was restored elsewhere",
            |it| it.stray = vec![ObjectKey::new(Kind::Secret, "restored", "wild")],
            &[(Warning, Id::StrayMarks)],
            "kubectl label secrets wild -n restored copyrator.dev/rule- app.kubernetes.io/managed-by-",
        ),
        (
            "an object that cannot be read",
            |it| {
                let objects = [("Secret shop/deep".to_owned(), "cannot be read".to_owned())].into();
                it.unread = Ok(UnreadFacts { objects, ..UnreadFacts::default() });
            },
            &[(Error, Id::ObjectUnreadable)],
            "kubectl get -n shop Secret deep -o yaml --show-managed-fields",
        ),
        (
            "a list that fails",
            |it| {
                let lists =
                    [("Secrets cannot be read".to_owned(), "CopyratorRule home/app".to_owned())].into();
                it.unread = Ok(UnreadFacts { lists, ..UnreadFacts::default() });
            },
            &[(Error, Id::ListFailing)],
            "kubectl -n ours logs -l app.kubernetes.io/part-of=copyrator",
        ),
        (
            "annotations without the label beside",
            |it| it.unlabelled = Ok(vec![ObjectKey::new(Kind::Secret, "shop", "registry")]),
            &[(Warning, Id::LabelMissing)],
            "kubectl -n shop label secret registry copyrator.dev/declares=true",
        ),
        (
            "a CRD on its way out",
            |it| {
                let definition = it.definitions[0].1.as_mut().unwrap().as_mut().unwrap();
                definition.metadata.deletion_timestamp = Some(object(json!("2026-11-21T11:00:00Z")));
            },
            &[(Error, Id::CrdMissing)],
            "",
        ),
        (
            "a CRD that is not served",
            |it| it.definitions[0].1.as_mut().unwrap().as_mut().unwrap().status = None,
            &[(Error, Id::CrdMissing)],
            "",
        ),
        (
            "an old CRD",
            |it| {
                let definition = it.definitions[2].1.as_mut().unwrap().as_mut().unwrap();
                let schema =
                    definition.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
                schema
                    .properties
                    .as_mut()
                    .unwrap()
                    .get_mut("spec")
                    .unwrap()
                    .properties
                    .as_mut()
                    .unwrap()
                    .remove("limits");
            },
            &[(Error, Id::CrdOld)],
            "copyrator crds --kube-version 1.36 | kubectl apply --server-side -f -",
        ),
        (
            "an edited CRD",
            |it| {
                let definition = it.definitions[2].1.as_mut().unwrap().as_mut().unwrap();
                let schema =
                    definition.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
                schema.properties.as_mut().unwrap().get_mut("spec").unwrap().required =
                    Some(vec!["limits".into()]);
            },
            &[(Warning, Id::CrdOld)],
            "",
        ),
        (
            "no policy",
            |it| it.admission[0].live = Ok(None),
            &[(Error, Id::PolicyMissing)],
            "kubectl apply --server-side",
        ),
        (
            "no policy that stamps, so that a hook has to",
            |it| it.admission[2].live = Ok(None),
            &[(Warning, Id::PolicyMissing)],
            "",
        ),
        (
            "a policy that lets all pass",
            |it| {
                it.admission[0].live.as_mut().unwrap().as_mut().unwrap()["spec"]["failurePolicy"] =
                    "Ignore".into()
            },
            &[(Error, Id::PolicyChanged)],
            "",
        ),
        (
            "a ClusterRole without a rule",
            |it| turn(it, ["copyrator-reconciler", "delete", "pods", ""]),
            &[(Error, Id::RightMissing)],
            "helm upgrade",
        ),
        (
            "a webhook that may not read its CA",
            |it| turn(it, ["copyrator-webhook", "get", "secrets", "ours"]),
            &[(Error, Id::RightMissing)],
            "helm upgrade",
        ),
        (
            "a reconciler that may not rotate its CA",
            |it| turn(it, ["copyrator-reconciler", "update", "secrets", "ours"]),
            &[(Error, Id::RightMissing)],
            "helm upgrade",
        ),
        (
            "a webhook that may do everything",
            |it| turn(it, ["copyrator-webhook", "*", "*", ""]),
            &[(Warning, Id::RightTooMany)],
            "grep -e ours/copyrator-webhook -e system:serviceaccounts",
        ),
        (
            "a webhook that may read every Secret",
            |it| turn(it, ["copyrator-webhook", "get", "secrets", ""]),
            &[(Warning, Id::RightTooMany)],
            "kubectl get clusterrolebindings",
        ),
        (
            "nobody leads",
            |it| it.lease = Ok(LeaseFacts::default()),
            &[(Error, Id::LeaseStale)],
            "rollout restart deployment/copyrator-reconciler",
        ),
        (
            "a leader that is dead",
            |it| it.lease.as_mut().unwrap().is_renewed = false,
            &[(Error, Id::LeaseStale)],
            "",
        ),
        (
            "another leader",
            |it| it.lease.as_mut().unwrap().is_ours = false,
            &[(Error, Id::LeaseStolen)],
            "kubectl -n ours delete lease copyrator-reconciler",
        ),
        ("no key", |it| it.digest_key = Ok(false), &[(Error, Id::DigestKeyMissing)], ""),
        (
            "no answer",
            |it| it.canary = Some(Ok(Err("connection refused".into()))),
            &[(Error, Id::WebhookDown)],
            "rollout restart deployment/copyrator-webhook",
        ),
        (
            "switched off by scale",
            |it| {
                it.canary = Some(Ok(Err("connection refused".into())));
                it.deployments.as_mut().unwrap().iter_mut().for_each(|one| one.spec.replicas = Some(0));
            },
            &[(Error, Id::WebhookDown)],
            "kubectl -n ours scale deployment/copyrator-webhook --replicas=1",
        ),
        (
            "no pod, and nothing to try it with",
            |it| {
                it.canary = Some(Err(unread()));
                it.deployments.as_mut().unwrap()[0].status = None;
            },
            &[(Error, Id::WebhookDown), (Warning, Id::PodsNotReady)],
            "",
        ),
        (
            "one pod of two",
            |it| it.deployments.as_mut().unwrap()[1].status.as_mut().unwrap().ready_replicas = Some(1),
            &[(Warning, Id::PodsNotReady)],
            "describe pods",
        ),
        (
            "a foreign hook",
            |it| foreign(it, "up", |_| {}),
            &[(Warning, Id::ForeignFailHook)],
            "copyrator doctor --ignore foreign-fail-hook",
        ),
        (
            "a foreign hook that nobody answers",
            |it| foreign(it, "down", |_| {}),
            &[(Error, Id::ForeignFailHook)],
            r#"kubectl patch validatingwebhookconfiguration theirs --type=json -p '[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'"#,
        ),
        (
            "a foreign hook that fails nobody",
            |it| foreign(it, "down", |hook| hook["failurePolicy"] = "Ignore".into()),
            &[],
            "",
        ),
        (
            "a foreign hook of others' kinds",
            |it| foreign(it, "down", |hook| hook["rules"][0]["apiGroups"] = json!(["apps"])),
            &[],
            "",
        ),
        (
            "a foreign hook of some namespaces",
            |it| foreign(it, "down", |hook| hook["namespaceSelector"]["matchLabels"] = json!({"a": "b"})),
            &[],
            "",
        ),
    ];
    let mut seen: Vec<Id> = Vec::new();
    let whole = sound();
    for (what, break_it, expected, fix) in cases.iter().chain(calls::CASES) {
        let mut facts = whole.clone();
        break_it(&mut facts);
        let found = examine(&facts, &[]);
        assert_eq!(brief(&found), *expected, "{what}: {found:#?}");
        assert!(fix.is_empty() || found.iter().any(|one| one.fix.contains(fix)), "{what}: {found:#?}");
        assert!(found.iter().all(|one| !one.fix.is_empty() && !one.object.is_empty()), "{what}: {found:#?}");
        seen.extend(expected.iter().map(|(_, id)| *id));
    }
    let untried: Vec<&Id> = Id::value_variants().iter().filter(|id| !seen.contains(id)).collect();
    assert!(untried.is_empty(), "nothing breaks for {untried:?}");
}

/// Of some namespaces, copies are held only where definitions are read.
#[test]
fn copies_are_held_in_some_namespaces_where_definitions_are_read() {
    for (more, expected) in [(None, None), (Some("--read-definitions=true"), Some(Id::CopiesHeld))] {
        let mut facts = sound();
        for deployment in facts.deployments.as_mut().unwrap() {
            let arguments =
                deployment.spec.template.spec.as_mut().unwrap().containers[0].args.as_mut().unwrap();
            arguments.extend(["--namespaces=shop,web"].into_iter().chain(more).map(str::to_owned));
        }
        let definition = Definition { uid: "anew".into(), created: now() };
        let (rules, kinds) = ([(Declarer::rule("shop", "app"), 3)].into(), [Kind::ConfigMap].into());
        facts.held = Ok(vec![HeldCopies { of: RULES, definition, rules, kinds }]);
        let found = examine(&facts, &[]);
        let held = found.iter().find(|finding| finding.id == Id::CopiesHeld);
        assert_eq!(held.map(|finding| finding.id), expected, "{more:?}: {found:#?}");
        assert!(
            held.is_none_or(|held| held
                .fix
                .starts_with("for n in shop web; do kubectl annotate configmaps -n $n ")),
            "{held:?}"
        );
    }
}

/// A fact that may not be read counts as unknown, not as in order.
#[test]
fn what_cannot_be_looked_at_is_not_known_and_says_which_right_is_missing() {
    let mut facts = sound();
    facts.server = Err(unread());
    facts.deployments = Err(unread());
    facts.definitions.iter_mut().for_each(|(_, live)| *live = Err(unread()));
    facts.admission.iter_mut().for_each(|pair| pair.live = Err(unread()));
    facts.hooks = Err(unread());
    facts.policies = Err(unread());
    facts.inert_policies = Err(unread());
    facts.canary = Some(Err(unread()));
    facts.ca = Err(unread());
    facts.digest_key = Err(unread());
    facts.lease = Err(unread());
    facts.rights.iter_mut().for_each(|(_, allowed)| *allowed = Err(unread()));
    facts.owner = Err(unread());
    facts.held = Err(unread());
    facts.unlabelled = Err(unread());
    facts.unread = Err(unread());
    let found = examine(&facts, &[]);
    assert_eq!(in_order(&facts, &found, &[]), []);
    assert!(found.iter().all(|finding| finding.severity == Severity::Unknown), "{found:#?}");
    for finding in &found {
        assert!(finding.what.contains("you may not get things/one in namespace ours"), "{finding:?}");
        assert_eq!(finding.fix, "kubectl auth can-i get things/one -n ours");
    }
}

/// Every id has a line in the table of docs/doctor.md, and the table has no others.
#[test]
fn the_documents_explain_every_id() {
    let text = include_str!("../../../../docs/doctor.md");
    let ids = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(id, _)| id.to_owned()));
    let known: Vec<String> = Id::value_variants().iter().map(|id| id.text()).collect();
    assert_eq!(ids.collect::<Vec<_>>(), known);
}
