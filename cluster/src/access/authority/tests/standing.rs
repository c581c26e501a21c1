//! What is asked again of whom, and what ends with a namespace.

use std::sync::Mutex;

use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::super::*;
use crate::{
    api::{CopyratorRule, CopyratorTemplate},
    digest::DigestKey,
    intake::{AsWritten, watched::Watched},
    names::{GrantedKinds, TemplateKind},
    plan::copy::{rule_status, status_of},
};

/// Says no to these, as `verb namespace` of alice and `account: verb namespace` of an account, and remembers what it was asked.
#[derive(Default)]
struct Says {
    no: Vec<&'static str>,
    asked: Mutex<Vec<String>>,
}

impl Authorizer for Says {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let account = question.subject.as_service_account();
        let whose = account.map(|(_, name)| format!("{name}: ")).unwrap_or_default();
        let line = format!("{whose}{} {}", question.verb, question.namespace);
        let says = !self.no.contains(&&*line);
        self.asked.lock().unwrap().push(line);
        Box::pin(async move { Ok(says) })
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn rule() -> Declarer {
    Declarer::rule("home", "r")
}

fn namespace(world: &mut World, name: &str, uid: &str) {
    let namespace = json!({"metadata": {"name": name, "uid": uid}});
    serde_json::from_value::<Namespace>(namespace).unwrap().put(world, at(0));
}

fn write(world: &mut World, spec: &Value, status: &Value) {
    let stamp = json!({"copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]"});
    let metadata =
        json!({"namespace": "home", "name": "r", "uid": "r", "generation": 1, "annotations": stamp});
    let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule", "metadata": metadata,
        "spec": spec, "status": status});
    serde_json::from_value::<AsWritten<CopyratorRule>>(object).unwrap().put(world, at(0));
}

fn world(spec: &Value) -> World {
    let mut world = World::default();
    world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]));
    for name in ["home", "vault", "shop"] {
        namespace(&mut world, name, name);
    }
    write(&mut world, spec, &Value::Null);
    world
}

/// The rule is looked at: what is asked for that, and whether it may.
fn look(world: &mut World, no: &[&'static str], now: i64) -> (Vec<String>, Option<bool>) {
    let says = Says { no: no.to_vec(), ..Says::default() };
    let decided = about_rule(world, &rule(), &TrustedWriters::default(), at(now)).unwrap();
    let answer = match decided {
        Decided::Known => None,
        Decided::Answer(answer) => Some(answer),
        Decided::Ask(inquiry) => Some(inquiry.ask(&says, at(now)).now_or_never().unwrap().unwrap()),
    };
    if let Some(answer) = answer {
        world.note_rule_authority(&rule(), answer, at(now));
    }
    let may = world.rule_authority(&rule()).map(|known| known.answer.is_ok());
    (says.asked.into_inner().unwrap(), may)
}

fn reads_vault() -> Value {
    json!({"source": {"kind": "Secret", "names": ["app"], "namespaces": ["vault"]}, "targets": [{"names": ["shop"]}]})
}

fn reads_home() -> Value {
    json!({"source": {"kind": "Secret", "names": ["app"]}, "targets": [{"names": ["shop"]}]})
}

const ALL: [&str; 4] = ["create shop", "delete shop", "get vault", "patch shop"];

/// Writes down what the rule's status says, as the watch brings it back; then a new process begins.
fn restart(world: &mut World, spec: &Value, now: i64) -> Value {
    let status = serde_json::to_value(rule_status(world, &rule(), at(now)).unwrap()).unwrap();
    write(world, spec, &status);
    world.forget_rule_authority(&rule(), |_| true);
    status
}

fn authorized(status: &Value) -> &str {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == "Authorized").unwrap()["message"].as_str().unwrap()
}

#[test]
fn what_an_author_may_read_elsewhere_is_asked_again_and_what_the_author_may_write_is_not() {
    let spec = reads_vault();
    let mut world = world(&spec);
    assert_eq!(look(&mut world, &[], 0), (ALL.map(str::to_owned).to_vec(), Some(true)));
    assert_eq!(look(&mut world, &[], 19), (vec![], Some(true)));
    assert_eq!(look(&mut world, &["create shop"], 20), (vec!["get vault".into()], Some(true)));
    let before = restart(&mut world, &spec, 21);
    assert_eq!(look(&mut world, &["create shop"], 30), (vec!["get vault".into()], Some(true)));
    assert_eq!(restart(&mut world, &spec, 31), before, "asking again is nothing to write");
    let said = "user alice had the rights that this rule needs at the last check at 1970-01-01T00:00:20Z; Copyrator checks the rights to \
     read in other namespaces again every 20 s";
    assert_eq!(authorized(&before), said);

    assert_eq!(look(&mut world, &["get vault"], 50), (vec!["get vault".into()], Some(false)));
    let withdrawn = restart(&mut world, &spec, 51);
    assert!(authorized(&withdrawn).contains("may not get secrets"), "{withdrawn}");
    let given_back = look(&mut world, &["create shop"], 70);
    assert_eq!(given_back, (vec!["get vault".into()], Some(true)), "what the author may write stays settled");
}

#[test]
fn an_author_who_reads_at_home_is_not_asked_again() {
    let mut world = world(&reads_home());
    assert_eq!(look(&mut world, &[], 0).0.len(), 4);
    assert_eq!(look(&mut world, &["get home"], 10_000), (vec![], Some(true)));
    restart(&mut world, &reads_home(), 10_001);
    assert_eq!(look(&mut world, &["get home"], 20_000), (vec![], Some(true)));
}

/// Roles and bindings of a namespace go with it; so does what they granted.
#[test]
fn a_namespace_made_anew_grants_nothing() {
    for name in ["vault", "shop"] {
        let spec = reads_vault();
        let mut world = world(&spec);
        look(&mut world, &[], 0);
        world.forget_namespace(name);
        let asked = if name == "vault" { vec![] } else { vec!["get vault".to_owned()] };
        assert_eq!(
            look(&mut world, &["create shop"], 30),
            (asked, Some(true)),
            "{name} is gone, the rest stays"
        );
        // The same whether this process saw it go, or the next one finds it so.
        for restarts in [false, true] {
            let mut world = self::world(&spec);
            look(&mut world, &[], 0);
            if restarts {
                restart(&mut world, &spec, 1);
            }
            namespace(&mut world, name, "anew");
            assert_eq!(world.rule_authority(&rule()), None, "{name}: nobody has been asked of this one");
            assert_eq!(look(&mut world, &["create shop"], 2), (ALL.map(str::to_owned).to_vec(), Some(false)));
        }
    }
}

/// A refused author learns nothing of what is there: everything that the author names is asked about, whether
/// it is there or not.
#[test]
fn what_is_not_there_is_asked_about_as_what_is() {
    let spec = json!({"source": {"kind": "Secret", "names": ["app"], "namespaces": ["nowhere"]}, "targets": [{"names": ["none"]}]});
    let mut world = world(&spec);
    let asked = ["create none", "delete none", "get nowhere", "patch none"].map(str::to_owned).to_vec();
    assert_eq!(look(&mut world, &["create none"], 0), (asked.clone(), Some(false)));
    assert_eq!(look(&mut world, &["create none"], 20), (asked, Some(false)));
}

/// A template of home with this `forEach`.
fn template(world: &mut World, for_each: &Value, account: Option<&str>) -> Declarer {
    let stamp = json!({"copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]"});
    let objects = json!([{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}]);
    let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": {"namespace": "home", "name": "t", "uid": "t", "generation": 1, "annotations": stamp},
        "spec": {"forEach": for_each, "objects": objects, "serviceAccountName": account}});
    serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(world, at(0));
    let granted = TemplateKind::read("a.b/v1/Nginx/nginxes/forEach", &GrantedKinds::default()).unwrap();
    world.settings_mut().template_kinds = [granted].into();
    Declarer::template("home", "t")
}

fn of_objects(namespaces: Value) -> Value {
    json!({"objects": {"apiVersion": "a.b/v1", "kind": "Nginx", "namespaces": namespaces}})
}

/// The template is looked at: what is asked for that, and whether it may.
fn look_at_template(
    world: &mut World,
    name: &Declarer,
    no: &[&'static str],
    now: i64,
) -> (Vec<String>, Option<bool>) {
    let says = Says { no: no.to_vec(), ..Says::default() };
    match about_template(world, name, &TrustedWriters::default(), at(now)).unwrap() {
        Decided::Known => {}
        Decided::Answer(answer) => world.note_rule_authority(name, answer, at(now)),
        Decided::Ask(inquiry) => {
            let answer = inquiry.ask(&says, at(now)).now_or_never().unwrap().unwrap();
            world.note_rule_authority(name, answer, at(now));
        }
    }
    let may = world.rule_authority(name).map(|known| known.answer.is_ok());
    (says.asked.into_inner().unwrap(), may)
}

/// As of a rule: what the author of a template may read in other namespaces is taken back with the right.
#[test]
fn what_the_author_of_a_template_may_read_elsewhere_is_asked_again() {
    for (for_each, again) in [
        (of_objects(json!([{"names": ["shop"]}])), &["get shop", "list shop"][..]),
        (of_objects(json!([{"namespaceSelector": {}}])), &["get ", "list "]),
        (of_objects(json!([])), &[]),
        // It reads nothing.
        (json!({"namespaces": [{"names": ["shop"]}]}), &[]),
    ] {
        let mut world = world(&reads_home());
        let name = template(&mut world, &for_each, None);
        let (asked, may) = look_at_template(&mut world, &name, &[], 0);
        assert!(asked.len() >= 3 && may == Some(true), "{for_each}: {asked:?}");
        let status = serde_json::to_value(status_of(&world, &name, at(0)).unwrap()).unwrap();
        let says_so = authorized(&status)
            .ends_with("; Copyrator checks the rights to read in other namespaces again every 20 s");
        assert_eq!(says_so, !again.is_empty(), "{for_each}: {status}");
        let declared = world.declaration(&name).unwrap();
        assert_eq!(can_be_withdrawn(&world, &name, declared), !again.is_empty(), "{for_each}");
        let lost = ["create shop", "create home", "create "];
        let (asked, _) = look_at_template(&mut world, &name, &lost, 20);
        assert_eq!(asked, again, "{for_each}: nothing else is asked again");
        let (_, may) = look_at_template(&mut world, &name, &["list shop", "list "], 40);
        assert_eq!(may, Some(again.is_empty()), "{for_each}");
    }
}

/// As of a rule: the account's rights count, all of them and as long as it has them. The author must have been allowed to
/// impersonate the account; further rights of the author do not count.
#[test]
fn of_a_template_with_an_account_all_that_the_account_may_is_asked_again() {
    for (for_each, asked) in [
        (
            of_objects(json!([{"names": ["shop"]}])),
            &["create shop", "delete shop", "get shop", "list shop", "patch shop"][..],
        ),
        (of_objects(json!([])), &["create home", "delete home", "get home", "list home", "patch home"]),
        (json!({"namespaces": [{"names": ["shop"]}]}), &["create shop", "delete shop", "patch shop"]),
    ] {
        let of_account: Vec<String> = asked.iter().map(|line| format!("stamper: {line}")).collect();
        let author = std::iter::once("impersonate home".to_owned());
        let with_author: Vec<String> = author.chain(of_account.iter().cloned()).collect();
        let created = if asked[0] == "create home" { "stamper: create home" } else { "stamper: create shop" };
        let mut world = world(&reads_home());
        let name = template(&mut world, &for_each, Some("stamper"));
        for (now, no, expected) in [
            // Nothing was allowed yet, so the author is asked about, too.
            (0, "impersonate home", (&with_author, false)),
            (20, created, (&with_author, false)),
            (40, "create shop", (&with_author, true)),
            // From then on it is the account's business.
            (60, "impersonate home", (&of_account, true)),
            (80, created, (&of_account, false)),
        ] {
            let (asked, may) = look_at_template(&mut world, &name, &[no], now);
            assert_eq!((&asked, may), (expected.0, Some(expected.1)), "{for_each} at {now}, no to {no}");
            let status = serde_json::to_value(status_of(&world, &name, at(now)).unwrap()).unwrap();
            assert_eq!(status["identity"], "serviceaccount home/stamper", "{status}");
        }
        let declared = world.declaration(&name).unwrap();
        assert!(can_be_withdrawn(&world, &name, declared), "{for_each}");
    }
}
