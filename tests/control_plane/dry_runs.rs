//! A dry run says what the write itself would be told, and leaves nothing behind.

use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, label, namespace, ours, secret, uid, version};
use crate::bed::{Answer, Person, Story, eventually, peaceful, same};

/// A write, with every hook of ours called by some of them.
struct Write {
    what: &'static str,
    /// Made or merged into what is there; nothing where it is deleted.
    object: Value,
    verb: Verb,
}

#[derive(Clone, Copy)]
enum Verb {
    Create,
    Merge,
    Delete,
}

impl Write {
    fn run(&self, person: &Person, dry: bool) -> Answer {
        let text = |field: &str| self.object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (kind, home, name) = (self.object["kind"].as_str().unwrap(), text("namespace"), text("name"));
        match (self.verb, dry) {
            (Verb::Create, true) => person.try_create(&self.object),
            (Verb::Create, false) => person.create(&self.object),
            (Verb::Merge, true) => person.try_merge(kind, &home, &name, &self.object),
            (Verb::Merge, false) => person.merge(kind, &home, &name, &self.object),
            (Verb::Delete, true) => person.try_delete(kind, &home, &name),
            (Verb::Delete, false) => person.delete(kind, &home, &name),
        }
    }
}

/// What the writer is told: code, refusal, warnings, and what was added to the object.
fn told(answer: &Answer) -> (u16, Value, Vec<String>, [Option<String>; 3]) {
    let author = answer.body["metadata"]["annotations"]["copyrator.dev/author"].as_str();
    let added = [label(&answer.body, "team"), author, answer.body["reason"].as_str()];
    // Of two hooks that refuse a write, the one that answers first is named.
    let said = answer.body["message"].as_str().unwrap_or_default();
    let said = said.split_once(" denied the request: ").map_or(said, |(_, said)| said);
    let refusal = if answer.code >= 400 { said.into() } else { Value::Null };
    (answer.code, refusal, answer.warnings.clone(), added.map(|text| text.map(str::to_owned)))
}

fn writes(story: &Story<'_>, place: &str) -> Vec<Write> {
    let home = &story.home;
    let asking = |name: &str, selector: &str| {
        let mut object = config_map(home, name, [("k", "v")]);
        object["metadata"]["annotations"] = json!({ "copyrator.dev/restart-pods": selector });
        object["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
        object
    };
    let rule = |name: &str, targets: Value| {
        let spec = json!({ "source": { "kind": "Secret", "names": ["nothing"] }, "targets": targets });
        ours("CopyratorRule", home, name, spec)
    };
    let policy =
        json!({ "match": { "kinds": ["Secret"] }, "data": [{ "name": "a", "keys": ["a"], "pattern": "(" }] });
    let watch = |names: &str| {
        ours("ConfigMonitor", home, "dry", json!({ "watch": [{ "kind": "Secret", "names": [names] }] }))
    };
    let create = |what, object| Write { what, object, verb: Verb::Create };
    vec![
        create("policies, refused", config_map(place, "bad", [("url", "nonsense")])),
        create("policies, refused Secret", secret(place, "bad", [("url", "hunter2")])),
        create("policies, good", config_map(place, "good", [("url", "https://example.com")])),
        create("a policy of its own, refused", config_map(place, "failing", [("port", "many")])),
        create("annotations, refused", asking("asking", "app in (")),
        create("annotations, stamped", asking("asking", "app=none")),
        create("own kinds, refused", rule("bad", json!([{ "names": ["["] }]))),
        create("own kinds, refused monitor", watch("[")),
        create("own kinds, refused policy", ours("ConfigPolicy", "", "dry-runs-bad", policy)),
        create("own kinds, stamped monitor", watch("nothing")),
        create("own kinds, stamped", rule("good", json!([{ "names": ["nowhere"] }]))),
        create(
            "warnings, namespace",
            namespace(&story.called("new"), &crate::bed::objects::data([("story", "dry-runs")])),
        ),
        Write { what: "warnings, changed", object: config_map(home, "app", [("k", "2")]), verb: Verb::Merge },
        Write { what: "warnings, deleted", object: config_map(home, "app", []), verb: Verb::Delete },
    ]
}

/// Everything that we wrote about the story, and every Event of it.
fn traces(story: &Story<'_>, place: &str) -> Vec<String> {
    let of_story = |namespace: &str, name: &str| {
        [&*story.home, place].contains(&namespace)
            || namespace.is_empty() && name.starts_with("dry-runs") && !name.contains("-mark-")
    };
    let writes = story.bed.our_writes().into_iter().filter(|it| of_story(&it.namespace, &it.name));
    let mut traces: Vec<String> = writes
        .map(|it| format!("{} {} {}/{} at {}", it.verb, it.resource, it.namespace, it.name, it.at.0))
        .collect();
    for home in [&*story.home, place] {
        let events = story.admin().list("Event", home, "");
        traces
            .extend(events.iter().map(|event| format!("{} {}", event["reason"], event["metadata"]["name"])));
        for kind in ["ConfigMap", "Secret", "CopyratorRule", "ConfigMonitor"] {
            let objects = story.admin().list(kind, home, "");
            traces.extend(objects.iter().map(|object| format!("{kind} {} {}", uid(object), version(object))));
        }
    }
    traces.sort();
    traces
}

/// Waits until the audit log tells of the marker's copy, and so of all that we wrote before.
fn audited(story: &Story<'_>, part: &str) {
    let place = story.called(&format!("{part}-to"));
    eventually("the audit log tells of the marker", || {
        let is_there =
            story.bed.our_writes().iter().any(|it| it.namespace == place && it.resource == "configmaps");
        if is_there { Ok(()) } else { Err("it does not yet".into()) }
    });
}

#[test]
fn a_dry_run_leaves_no_trace_and_says_what_the_write_is_told() {
    let story = Story::new(peaceful(), "dry-runs");
    let place = story.target("a");
    let admin = story.admin();
    admin.create(&config_map(&story.home, "app", [("k", "1")])).ok();
    admin.create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &place, "app", [("k", "1")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let spec = json!({
        "match": {}, "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "defaults": { "labels": { "team": "unknown" } },
    });
    admin.create(&story.policy(&["ConfigMap", "Secret"], spec)).ok();
    let spec = json!({ "match": {}, "data": [{ "name": "port", "keys": ["port"], "format": "integer" }], "failurePolicy": "Fail" });
    let mut failing = story.policy(&["ConfigMap"], spec);
    failing["metadata"]["name"] = "dry-runs-failing".into();
    admin.create(&failing).ok();
    let writes = writes(&story, &place);
    eventually("every hook says something", || {
        let silent = |write: &&Write| {
            let (code, _, warnings, [team, author, _]) = told(&write.run(admin, true));
            match write.what.contains("refused") {
                true => code < 400,
                false => warnings.is_empty() && team.is_none() && author.is_none(),
            }
        };
        let silent: Vec<&str> = writes.iter().filter(silent).map(|write| write.what).collect();
        if silent.is_empty() { Ok(()) } else { Err(format!("nothing of {silent:?}")) }
    });
    for name in ["dry-runs", "dry-runs-failing"] {
        eventually("the policy is in force, and what is there was looked at", || {
            let policy = admin.get("ConfigPolicy", "", name).ok_or("it does not exist")?;
            let status = &policy["status"];
            same(&status["observedGeneration"], &policy["metadata"]["generation"])?;
            same(condition(&policy, "Ready"), Some(("True".to_owned(), "InForce".to_owned())))?;
            same(&status["violationCount"], &json!(0))
        });
    }
    // Whatever was still to be done is done by then.
    story.marker("mark-before");
    audited(&story, "mark-before");
    let before = eventually("nothing more happens, for longer than statuses wait to be written", || {
        let seen = traces(&story, &place);
        story.until_later(2);
        same(traces(&story, &place), seen.clone()).map(|()| seen)
    });

    for write in &writes {
        write.run(admin, true);
    }
    story.marker("mark-after");
    audited(&story, "mark-after");
    assert_eq!(traces(&story, &place), before);

    for write in &writes {
        let (rehearsed, real) = (told(&write.run(admin, true)), told(&write.run(admin, false)));
        assert_eq!(rehearsed, real, "{}", write.what);
        if write.what == "warnings, namespace" {
            story.until("ConfigMap", &story.called("new"), "app", [("k", "1")]);
            // The webhook hears of the namespace by itself, and what follows tells of its copy.
            let changed = config_map(&story.home, "app", [("k", "2")]);
            eventually("the webhook knows of both copies", || {
                let warnings = admin.try_merge("ConfigMap", &story.home, "app", &changed).warnings;
                let is_known = warnings.iter().any(|warning| warning.contains("2 copies"));
                if is_known { Ok(()) } else { Err(format!("{warnings:?}")) }
            });
        }
        let is_refused = write.what.contains("refused");
        assert_eq!(real.0 >= 400, is_refused, "{}: {real:?}", write.what);
        assert!(!real.1.to_string().contains("hunter2"), "{real:?}");
    }
    // What would have been seen, had there been anything.
    assert_ne!(traces(&story, &place), before);
}
