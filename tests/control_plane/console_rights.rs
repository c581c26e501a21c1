//! A console shows what its caller's rights show, as if there were nothing else: the API server says what that is, as `kubectl auth
//! can-i` asks it.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, data, deployment, namespace, ours, secret};
use crate::bed::{Person, Story, eventually, peaceful};
use crate::console::{Caller, Run};
use crate::console_cluster::{Console, token};
use crate::plan::account;

/// An object, and where it is; of a cluster-scoped one the namespace is empty.
struct Thing {
    kind: &'static str,
    group: &'static str,
    resource: &'static str,
    namespace: String,
    name: String,
}

fn thing(kind: &'static str, namespace: &str, name: &str) -> Thing {
    let (group, resource) = match kind {
        "ConfigMap" => ("", "configmaps"),
        "Secret" => ("", "secrets"),
        "Service" => ("", "services"),
        "Namespace" => ("", "namespaces"),
        "Event" => ("", "events"),
        "Deployment" => ("apps", "deployments"),
        "CopyratorRule" => ("copyrator.dev", "copyratorrules"),
        "CopyratorTemplate" => ("copyrator.dev", "copyratortemplates"),
        "ConfigMonitor" => ("copyrator.dev", "configmonitors"),
        "ConfigPolicy" => ("copyrator.dev", "configpolicies"),
        other => panic!("{other} is of no use here"),
    };
    Thing { kind, group, resource, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Whether the API server would let somebody do this: what `kubectl auth can-i` asks it.
fn can_i(who: &Person, verb: &str, thing: &Thing) -> bool {
    let Thing { group, resource, namespace, name, .. } = thing;
    // A namespace is in itself, for rights.
    let place = if *resource == "namespaces" { name } else { namespace };
    let (place, name) =
        if verb == "list" && *resource == "namespaces" { ("", "") } else { (place.as_str(), name.as_str()) };
    let name = if verb == "list" { "" } else { name };
    let attributes =
        json!({ "verb": verb, "group": group, "resource": resource, "namespace": place, "name": name });
    let question = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "metadata": {}, "spec": { "resourceAttributes": attributes } });
    who.create(&question).ok()["status"]["allowed"] == json!(true)
}

/// A namespace in which everything has `tree` in its name: rules, a template, copies (one of which is in the way), a monitor and its
/// workload, a violation and a report.
fn furnish(story: &Story<'_>, tree: &str, place: &str, beside: &str) -> Vec<Thing> {
    let admin = story.admin();
    let named = |what: &str| format!("{tree}-{what}");
    for one in [place, beside] {
        if admin.get("Namespace", "", one).is_none() {
            admin.create(&namespace(one, &data([("story", "seen"), ("tree", tree)]))).ok();
        }
    }
    admin.create(&config_map(place, &named("settings"), [("url", "nonsense")])).ok();
    admin.create(&config_map(beside, &named("settings"), [("url", "in the way")])).ok();
    admin.create(&secret(place, &named("secret"), [("password", "hunter2")])).ok();
    for (kind, name, source) in [("Secret", "rule", "secret"), ("ConfigMap", "blocked", "settings")] {
        let spec = json!({ "source": { "kind": kind, "names": [named(source)] }, "targets": [{ "names": [beside] }] });
        admin.create(&ours("CopyratorRule", place, &named(name), spec)).ok();
    }
    let made = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": named("made") }, "data": { "k": "v" } });
    let each = json!({ "namespaces": [{ "names": [beside] }] });
    let kit = json!({ "forEach": each, "objects": [{ "id": "made", "template": made }] });
    admin.create(&ours("CopyratorTemplate", place, &named("kit"), kit)).ok();
    let mut web = deployment(
        place,
        &named("web"),
        json!({ "envFrom": [{ "configMapRef": { "name": named("settings") } }] }),
    );
    web["spec"]["replicas"] = json!(0);
    admin.create(&web).ok();
    let monitor = json!({ "watch": [{ "kind": "ConfigMap", "names": [named("settings")] }] });
    admin.create(&ours("ConfigMonitor", place, &named("monitor"), monitor)).ok();
    let port = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
    let metadata = json!({ "namespace": place, "name": named("service") });
    admin.create(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": port })).ok();
    report(story, place, &named("report"));
    let mut all = vec![thing("Namespace", "", place), thing("Namespace", "", beside)];
    let here = [
        ("ConfigMap", "settings"),
        ("Secret", "secret"),
        ("CopyratorRule", "rule"),
        ("CopyratorRule", "blocked"),
        ("CopyratorTemplate", "kit"),
        ("Deployment", "web"),
        ("ConfigMonitor", "monitor"),
        ("Service", "service"),
    ];
    all.extend(here.map(|(kind, name)| thing(kind, place, &named(name))));
    all.extend([thing("Secret", beside, &named("secret")), thing("ConfigMap", beside, &named("made"))]);
    all
}

/// An Event as the reconciler writes them.
fn report(story: &Story<'_>, place: &str, name: &str) {
    let about = json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule", "namespace": place, "name": name });
    let event = json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "namespace": place, "name": name },
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "copyrator", "reportingInstance": "story",
        "action": "Copy", "reason": "Reported", "note": name, "type": "Normal", "regarding": about });
    story.admin().create(&event).ok();
}

/// Waits until the reconciler has told of everything in a place.
fn until_told(story: &Story<'_>, tree: &str, place: &str, beside: &str) {
    let named = |what: &str| format!("{tree}-{what}");
    story.until("Secret", beside, &named("secret"), [("password", "hunter2")]);
    story.until("ConfigMap", beside, &named("made"), [("k", "v")]);
    let told = |kind: &str, name: &str, is_told: fn(&Value) -> bool| {
        eventually(&format!("{kind} {name} is told of"), || {
            let object = story.admin().get(kind, place, name).ok_or("it is not there")?;
            if is_told(&object) { Ok(()) } else { Err(object["status"].to_string()) }
        });
    };
    let is_ready = |object: &Value| condition(object, "Ready").is_some_and(|(status, _)| status == "True");
    let is_degraded =
        |object: &Value| condition(object, "Degraded").is_some_and(|(status, _)| status == "True");
    told("CopyratorRule", &named("rule"), is_ready);
    told("CopyratorRule", &named("blocked"), is_degraded);
    told("CopyratorTemplate", &named("kit"), is_ready);
    told("ConfigMonitor", &named("monitor"), |object| object["status"]["upToDate"] == 1);
}

/// Somebody with these rights in a namespace.
fn somebody(story: &Story<'_>, name: &str, role: Option<Value>) -> std::path::PathBuf {
    let (kubeconfig, home) = (account(story, name, json!([])), &story.home);
    let group = "rbac.authorization.k8s.io";
    let subject = json!({ "kind": "ServiceAccount", "namespace": home, "name": name });
    let (kind, of) = match role {
        Some(rules) => {
            let role = json!({ "apiVersion": format!("{group}/v1"), "kind": "Role", "rules": rules,
                "metadata": { "namespace": home, "name": name } });
            story.admin().create(&role).ok();
            ("Role", name)
        }
        None => ("ClusterRole", "edit"),
    };
    let binding = json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "subjects": [subject],
        "metadata": { "namespace": home, "name": name }, "roleRef": { "apiGroup": group, "kind": kind, "name": of } });
    story.admin().create(&binding).ok();
    kubeconfig
}

/// One request: the method, the path, and the manifests.
type Probe = (&'static str, String, String);

/// Every path of the API and every view, about each of these namespaces and about none of them; what is new or absent is asked of,
/// too. Those about the same namespaces come together: they are answered from one survey.
fn probes(caller: &Caller, places: &[(&str, &str)], tree: &str) -> Vec<Probe> {
    let (_, document) = caller.api("/openapi.json");
    let mut all = Vec::new();
    let views = ["/", "/where", "/restarts", "/policies", "/live"].map(str::to_owned);
    let views = || views.iter().map(|view| (view.clone(), true, "GET"));
    let is_asked = |verb: &Value| verb["parameters"].to_string().contains("\"namespaces\"");
    let paths: Vec<(String, bool, &'static str)> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .filter(|(path, _)| !path.ends_with("/events"))
        .flat_map(|(path, verbs)| {
            let of = |verb: &'static str| {
                let found = &verbs[verb.to_lowercase()];
                found.is_object().then(|| (path.clone(), is_asked(found), verb))
            };
            ["GET", "POST"].map(of).into_iter().flatten()
        })
        .chain(views())
        .chain([("/object/{kind}/{namespace}/{name}".to_owned(), false, "GET")])
        .collect();
    assert!(paths.len() > 25, "{paths:?}");
    for (place, words) in places.iter().chain(&[("", "")]) {
        for (path, takes_places, verb) in &paths {
            let body = match *verb {
                "POST" => manifests(places, tree),
                _ => String::new(),
            };
            if path.contains('{') {
                let kinds = ["configmap", "secret", "deployment", "copyratorrule", "copyratortemplate"];
                let kinds = if path.contains("{kind}") { &kinds[..] } else { &kinds[..1] };
                for kind in kinds.iter().filter(|_| !place.is_empty()) {
                    let what = match *kind {
                        "configmap" => "settings",
                        "deployment" => "web",
                        "copyratorrule" => "rule",
                        "copyratortemplate" => "kit",
                        other => other,
                    };
                    let name = if path.contains("/templates/") { "kit" } else { what };
                    let path = path.replace("{kind}", kind).replace("{namespace}", place);
                    all.push((*verb, path.replace("{name}", &format!("{words}-{name}")), body.clone()));
                }
            } else if place.is_empty() {
                all.push((*verb, path.clone(), body));
            } else if *takes_places {
                all.push((*verb, format!("{path}?namespaces={place}"), body));
            }
        }
    }
    all
}

/// A rule and a template at home that reach for the other namespaces, and one that names what is there.
fn manifests(places: &[(&str, &str)], tree: &str) -> String {
    let (home, _) = places[0];
    let targets =
        json!([{ "names": [places[1].0] }, { "namespaceSelector": { "matchLabels": { "tree": tree } } }]);
    let rule = json!({ "source": { "kind": "ConfigMap", "names": ["oak-settings"] }, "targets": targets });
    let made = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("{tree}-settings") } });
    let template =
        json!({ "forEach": { "namespaces": targets }, "objects": [{ "id": "made", "template": made }] });
    let written = [
        ours("CopyratorRule", home, "reaching", rule),
        ours("CopyratorTemplate", home, "reaching", template),
    ];
    written.map(|object| object.to_string()).join("\n---\n")
}

fn ask(caller: &Caller, (verb, path, body): &Probe) -> (u16, String) {
    // A page that begins before its view is there says in its title what was asked for, whether or not it exists.
    let headers = [("Cache-Control", "no-cache"), ("Prefer", "wait=60")];
    let (code, _, text) = caller.send(verb, path, &headers, body);
    assert!(code < 500, "{verb} {path}: {code} {text}");
    (code, text)
}

/// What must be the same whatever else there is: all but the time.
fn calm(text: &str) -> String {
    let times = Regex::new(r#"\d{4}-\d\d-\d\dT[\d:.]+Z|data-after="[^"]*"|"resourceVersion":"\d+""#)
        .expect("an expression");
    times.replace_all(text, "-").into_owned()
}

/// The parts of names by which things give themselves away that this caller's rights do not show.
fn hidden(who: &Person, identity: &str, things: &[Thing], story: &Story<'_>) -> BTreeSet<String> {
    let (mut known, mut words) = (identity.to_owned(), BTreeSet::new());
    for thing in things {
        words.insert(thing.name.clone());
        if ["get", "list"].iter().any(|verb| can_i(who, verb, thing)) {
            let object = story.admin().get(thing.kind, &thing.namespace, &thing.name);
            known += &object.unwrap_or_else(|| panic!("{} is not there", thing.name)).to_string();
        }
    }
    words.retain(|word| !known.contains(word));
    words
}

/// Asks everything, and finds nothing that is hidden in any byte. What a request names itself is not told by its answer.
fn nothing_hidden(
    caller: &Caller,
    probes: &[Probe],
    hidden: &BTreeSet<String>,
    who: &str,
) -> Vec<(u16, String)> {
    let ask = |probe: &Probe| {
        let (code, text) = ask(caller, probe);
        let (verb, path, body) = probe;
        let told =
            hidden.iter().find(|word| text.contains(*word) && !path.contains(*word) && !body.contains(*word));
        assert_eq!(told, None, "{who}: {verb} {path} tells of it: {code} {text}");
        (code, calm(&text))
    };
    probes.iter().map(ask).collect()
}

#[test]
fn every_answer_is_the_same_as_if_nothing_else_existed() {
    let story = Story::new(peaceful(), "seen");
    let (home, annex) = (story.home.clone(), story.called("annex"));
    let (birch, alder) = (story.called("birch"), story.called("alder"));
    let trees = [("oak", &home, &annex), ("birch", &birch, &alder)];
    let mut things = Vec::new();
    for (tree, place, beside) in trees {
        things.extend(furnish(&story, tree, place, beside));
    }
    // What somebody brings from elsewhere is seen here, with where it is from.
    let giver = story.bystander("giver");
    story.admin().create(&config_map(&giver, "willow-gift", [("k", "1")])).ok();
    let gift = json!({ "source": { "kind": "ConfigMap", "names": ["willow-gift"] }, "targets": [{ "names": [home] }] });
    story.admin().create(&ours("CopyratorRule", &giver, "willow-rule", gift)).ok();
    story.until("ConfigMap", &home, "willow-gift", [("k", "1")]);
    things.extend([
        thing("ConfigMap", &home, "willow-gift"),
        thing("ConfigMap", &giver, "willow-gift"),
        thing("CopyratorRule", &giver, "willow-rule"),
    ]);
    let spec = json!({ "match": { "namespaceSelector": { "matchLabels": { "tree": "birch" } }, "kinds": ["ConfigMap"] },
        "data": [{ "name": "birch-url", "keys": ["url"], "format": "url" }] });
    story.admin().create(&ours("ConfigPolicy", "", "birch-policy", spec)).ok();
    things.push(thing("ConfigPolicy", "", "birch-policy"));
    for (tree, place, beside) in trees {
        until_told(&story, tree, place, beside);
    }
    eventually("the policy tells of what violates it", || {
        let policy = story.admin().get("ConfigPolicy", "", "birch-policy").ok_or("it is not there")?;
        if policy["status"]["violationCount"].as_i64() > Some(0) {
            Ok(())
        } else {
            Err(policy["status"].to_string())
        }
    });

    let places = [(&*home, "oak"), (&*birch, "birch")];
    // A caller who may see it all does: what is asked shows each of the things.
    let admin = Run::start(&story, None, &[]);
    let probes = probes(&admin, &places, "birch");
    let all: String = probes.iter().map(|probe| ask(&admin, probe).1).collect();
    let unseen: Vec<&str> =
        things.iter().map(|thing| &*thing.name).filter(|name| !all.contains(name)).collect();
    assert_eq!(unseen, Vec::<&str>::new(), "nothing that is asked shows these");

    let all_of = |verbs: &[&str], resources: &[&str]| json!({ "apiGroups": ["*"], "resources": resources, "verbs": verbs });
    let partly = json!([
        all_of(&["get"], &["namespaces"]),
        all_of(
            &["get", "list", "watch"],
            &[
                "configmaps",
                "copyratorrules",
                "configmonitors",
                "deployments",
                "statefulsets",
                "daemonsets",
                "events"
            ]
        )
    ]);
    let people = [
        ("editor", somebody(&story, "editor", None)),
        ("partly", somebody(&story, "partly", Some(partly))),
        ("getter", somebody(&story, "getter", Some(json!([all_of(&["get"], &["*"])])))),
        ("nobody", somebody(&story, "nobody", Some(json!([])))),
    ];
    let may = |kubeconfig: &Path, verb: &str, kind: &'static str| {
        can_i(&Person::with(kubeconfig), verb, &thing(kind, &home, "x"))
    };
    eventually("the rights are in force", || {
        let seen = people.each_ref().map(|(_, file)| {
            [may(file, "list", "Secret"), may(file, "list", "CopyratorRule"), may(file, "get", "Secret")]
        });
        let wanted = [[true, true, true], [false, true, false], [false, false, true], [false, false, false]];
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let hidden = people.each_ref().map(|(name, kubeconfig)| {
        let identity = format!("system:serviceaccount:{home}:{name}");
        let hidden = hidden(&Person::with(kubeconfig), &identity, &things, &story);
        assert!(hidden.contains("birch-rule") && hidden.contains(&birch), "{name}: {hidden:?}");
        hidden
    });
    let consoles = Consoles::start(&story, &people);
    for ((_, kubeconfig), (hidden, callers)) in people.iter().zip(hidden.iter().zip(consoles.callers())) {
        for caller in callers {
            follow(&story, caller, (&home, &birch), hidden, may(kubeconfig, "list", "Event"));
        }
    }
    let mut before = Vec::new();
    for ((name, _), (hidden, callers)) in people.iter().zip(hidden.iter().zip(consoles.callers())) {
        for caller in callers {
            let answers = nothing_hidden(caller, &probes, hidden, name);
            let shown: String = answers.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(shown.contains("oak-rule"), ["editor", "partly"].contains(name), "{name}: {shown}");
            before.push(answers);
        }
    }
    drop(consoles);

    // The same where the other namespaces are gone.
    story.admin().delete("ConfigPolicy", "", "birch-policy").ok();
    for (kind, name) in [
        ("CopyratorRule", "birch-rule"),
        ("CopyratorRule", "birch-blocked"),
        ("CopyratorTemplate", "birch-kit"),
    ] {
        story.admin().delete(kind, &birch, name).ok();
    }
    for place in [&birch, &alder] {
        story.admin().delete("Namespace", "", place).ok();
    }
    for place in [&birch, &alder] {
        story.until_gone("Namespace", "", place);
    }
    let consoles = Consoles::start(&story, &people);
    let callers = people
        .iter()
        .zip(consoles.callers())
        .flat_map(|((name, _), callers)| callers.map(|caller| (*name, caller)));
    for ((name, caller), before) in callers.zip(before) {
        for (probe, before) in probes.iter().zip(before) {
            let (code, text) = ask(caller, probe);
            assert_eq!((code, calm(&text)), before, "{name}: {probe:?} tells that namespaces have gone");
        }
    }
}

/// Of each person a console on their machine, and one in the cluster that they share.
struct Consoles {
    runs: Vec<(Run, Caller)>,
    _in_cluster: Console,
}

impl Consoles {
    fn start(story: &Story<'_>, people: &[(&str, std::path::PathBuf)]) -> Consoles {
        let in_cluster = Console::start(story, &[]);
        let start = |(name, kubeconfig): &(&str, std::path::PathBuf)| {
            let run = Run::start(story, Some(kubeconfig), &["--namespaces", &story.home]);
            (run, in_cluster.caller(&token(story, name)))
        };
        Consoles { runs: people.iter().map(start).collect(), _in_cluster: in_cluster }
    }

    fn callers(&self) -> impl Iterator<Item = [&Caller; 2]> {
        self.runs.iter().map(|(run, there)| [&**run, there])
    }
}

/// Of what is reported, a stream tells what its reader may list.
fn follow(
    story: &Story<'_>,
    caller: &Caller,
    (home, other): (&str, &str),
    hidden: &BTreeSet<String>,
    may_list: bool,
) {
    let mut lines = caller.follow(&format!("/api/v1/events?namespaces={home},{other}"), "");
    let status = lines.next().expect("a status");
    assert_eq!(status.contains("200 OK"), may_list, "{status}");
    let marker = format!("oak-marker-{}", story.admin().list("Event", home, "").len());
    report(story, other, &format!("birch-{marker}"));
    report(story, home, &marker);
    for line in lines {
        let told = hidden.iter().find(|word| line.contains(*word) && *word != other);
        assert!(told.is_none() && !line.contains("birch-oak"), "{line}");
        if line.contains(&marker) {
            return;
        }
    }
    assert!(!may_list, "the stream has ended before the report");
}
