//! Much at once: sources that keep changing or are too large, an API server that is busy, many copies at a start, and
//! the sweep.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, data, data_of, namespace, secret, version};
use crate::bed::{Bed, Request, Story, eventually, private, rough, same};

/// Our requests on ConfigMaps and Secrets in this namespace, since so many of all requests.
fn requests(bed: &Bed, since: usize, verbs: &[&str], namespace: &str) -> Vec<Request> {
    let ours = format!("system:serviceaccount:{}:", testbed::NAMESPACE);
    let mut requests = bed.requests().split_off(since);
    requests.retain(|it| {
        it.user.starts_with(&ours)
            && ["configmaps", "secrets"].contains(&&*it.resource)
            && verbs.contains(&&*it.verb)
            && it.namespace == namespace
    });
    requests
}

fn ready_message(story: &Story<'_>) -> String {
    let rule = story.admin().get("CopyratorRule", &story.home, "rule").unwrap_or_default();
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.map_or_else(String::new, |ready| format!("{} {}", ready["reason"], ready["message"]))
}

#[test]
fn a_flapping_source_is_written_a_few_times_and_its_last_content_arrives() {
    let (bed, _turn) = rough();
    let crew = bed.man_with(&["--min-spread-interval", "5s"]);
    let story = Story::new(bed, "flapping");
    let targets = ["a", "b"].map(|part| story.target(part));
    bed.admin.apply(&config_map(&story.home, "app", [("k", "begin")])).ok();
    bed.admin.apply(&config_map(&story.home, "calm", [("k", "begin")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app", "calm"])).ok();
    for target in &targets {
        story.until("ConfigMap", target, "app", [("k", "begin")]);
    }
    let before = bed.requests().len();
    let (least, patience) = (60, 300);
    let (mut changes, mut said) = (0, String::new());
    // Nothing is said of content that is not read yet: where reads take long, changes take longer to be told of.
    while changes < least || (said.is_empty() && changes < patience) {
        bed.admin.apply(&config_map(&story.home, "app", [("k", &changes.to_string())])).ok();
        changes += 1;
        thread::sleep(Duration::from_millis(if changes < least { 100 } else { 500 }));
        let message = ready_message(&story);
        said = if message.contains("keeps changing") { message } else { said };
        if changes == least / 2 {
            // Meanwhile nobody else waits: not an edited copy, nor another source, nor a new namespace.
            bed.admin.merge("ConfigMap", &targets[1], "app", &json!({ "data": { "k": "mine" } })).ok();
            bed.admin.apply(&config_map(&story.home, "calm", [("k", "changed")])).ok();
            let new = story.target("new");
            story.until("ConfigMap", &targets[0], "calm", [("k", "changed")]);
            eventually("the new namespace has its copy", || {
                bed.admin.get("ConfigMap", &new, "app").ok_or("".into())
            });
            eventually("the edit is undone", || {
                let copy = bed.admin.get("ConfigMap", &targets[1], "app").unwrap_or_default();
                if data_of(&copy) == data([("k", "mine")]) { Err("not yet".into()) } else { Ok(()) }
            });
        }
    }
    assert!(
        said.contains("Copying") && said.contains("until"),
        "the status did not tell in {changes} changes: {said:?}, {}",
        ready_message(&story)
    );
    let last = data([("k", &(changes - 1).to_string())]);
    for target in &targets {
        // Each turn comes after twice the time of the one before.
        eventually("the last content arrives", || {
            let copy = bed.admin.get("ConfigMap", target, "app").ok_or("it is gone")?;
            same(data_of(&copy), last.clone())
        });
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    for target in &targets {
        let writes =
            requests(bed, before, &["patch"], target).into_iter().filter(|it| it.name == "app").count();
        assert!((1..=changes / 6).contains(&writes), "{writes} writes of {changes} changes in {target}");
    }
    crew.reconciler.kill();
    crew.webhook.kill();
}

#[test]
fn a_source_too_large_for_its_targets_is_refused_with_the_figure() {
    let (bed, _turn) = rough();
    let crew = bed.man_with(&["--max-spread-bytes", "1Ki"]);
    let story = Story::new(bed, "voluminous");
    let targets = ["a", "b"].map(|part| story.target(part));
    let fits = "x".repeat(400);
    bed.admin.apply(&config_map(&story.home, "app", [("k", &fits)])).ok();
    bed.admin.apply(&config_map(&story.home, "small", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app", "small"])).ok();
    for target in &targets {
        story.until("ConfigMap", target, "app", [("k", &fits)]);
    }
    let large = "y".repeat(600);
    bed.admin.apply(&config_map(&story.home, "app", [("k", &large)])).ok();
    bed.admin.apply(&config_map(&story.home, "small", [("k", "2")])).ok();
    let rule = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "TooLarge");
    let said = rule["status"]["problems"].to_string();
    for part in ["601 bytes", "2 namespaces", "1.2 KiB", "--max-spread-bytes (1 KiB)"] {
        assert!(said.contains(part), "{part} is not named: {said}");
    }
    for target in &targets {
        story.until("ConfigMap", target, "small", [("k", "2")]);
        story.until("ConfigMap", target, "app", [("k", &fits)]);
    }
    bed.admin.apply(&config_map(&story.home, "app", [("k", "z")])).ok();
    for target in &targets {
        story.until("ConfigMap", target, "app", [("k", "z")]);
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// Ten thousand copies would be ten thousand reads else.
#[test]
fn a_start_with_copies_in_place_reads_sources_only_and_no_body_of_a_copy() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "at-rest");
    let targets: Vec<String> = (0..30).map(|number| story.target(&format!("{number:02}"))).collect();
    bed.admin.apply(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.apply(&secret(&story.home, "token", [("k", "v")])).ok();
    let mut secrets = story.rule("Secret", &["token"]);
    secrets["metadata"]["name"] = "secrets".into();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    bed.admin.create(&secrets).ok();
    for rule in ["rule", "secrets"] {
        // All copies of the targets that have been seen: the last ones may not have been yet.
        eventually("every target has its copy", || {
            let rule = bed.admin.get("CopyratorRule", &story.home, rule).ok_or("it is gone")?;
            same(rule["status"]["current"].as_u64(), Some(targets.len() as u64))
        });
        story.until_condition("CopyratorRule", rule, "Ready", "True", "AllCopied");
    }
    crew.reconciler.terminate().expect("it ends in order");
    let before = bed.requests().len();

    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    story.marker("then");
    reconciler.terminate().expect("it ends in order");
    crew.webhook.kill();
    let all = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    for target in &targets {
        let asked = requests(bed, before, &all, target);
        assert!(asked.is_empty(), "a copy was read or written: {asked:#?}");
    }
    let read = requests(bed, before, &["get"], &story.home);
    let mut read: Vec<&str> = read.iter().map(|it| &*it.name).collect();
    read.sort_unstable();
    assert_eq!(read, ["app", "token"], "each source is read once");
    let listed = requests(bed, before, &["list", "watch"], "");
    assert!(listed.iter().any(|it| it.verb == "watch"), "{listed:#?}");
    for request in listed {
        let left_out = match &*request.resource {
            "configmaps" => &["metadata.name!=kube-root-ca.crt"][..],
            _ => &[
                "helm.sh/release.v1",
                "kubernetes.io/service-account-token",
                "bootstrap.kubernetes.io/token",
            ],
        };
        let uri = request.uri.replace("%21", "!").replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
        // A list of copies with their content has no such filter.
        assert!(left_out.iter().all(|it| uri.contains(it)), "not filtered at the server: {uri}");
    }
}

/// A user who writes under our own field manager while no reconciler watches leaves no trace; only content tells.
#[test]
fn the_sweep_finds_by_content_what_metadata_hides_and_writes_nothing_else() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "swept");
    let targets = ["a", "b"].map(|part| story.target(part));
    bed.admin.apply(&secret(&story.home, "token", [("k", "right")])).ok();
    bed.admin.create(&story.rule("Secret", &["token"])).ok();
    for target in &targets {
        story.until("Secret", target, "token", [("k", "right")]);
    }
    crew.reconciler.kill();
    crew.webhook.kill();
    let mut forged = bed.admin.get("Secret", &targets[0], "token").expect("it is there");
    forged["metadata"]["managedFields"] = Value::Null;
    forged["data"] = secret("", "", [("k", "wrong")])["data"].clone();
    let forged = bed.admin.apply_as("copyrator-copy", &forged).ok();
    assert_eq!(data_of(&forged), data([("k", "wrong")]));
    let crew = bed.man_with(&["--sweep-interval", "3s"]);
    story.until("Secret", &targets[0], "token", [("k", "right")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");

    let sweeps = || crew.reconciler.log().matches("compared the copies with their sources").count();
    let state =
        || targets.each_ref().map(|it| version(&bed.admin.get("Secret", it, "token").expect("it is there")));
    // Two kinds a sweep; the first may have begun before.
    let until_swept = |times: usize| {
        let swept = sweeps();
        eventually("it has been swept again", || {
            if sweeps() > swept + 2 * times { Ok(()) } else { Err(format!("{swept}, then {}", sweeps())) }
        });
    };
    // A status tells of the repair a moment later.
    until_swept(1);
    let (settled, writes) = (state(), bed.our_writes().len());
    until_swept(2);
    assert_eq!(state(), settled);
    let since = bed.our_writes().split_off(writes);
    let wrote: Vec<_> = since.iter().filter(|it| it.namespace.starts_with("swept-")).collect();
    assert!(wrote.is_empty(), "a sweep wrote: {wrote:#?}");
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// API priority and fairness refuses what is too much for our share, with a header that says for how long.
#[test]
fn a_busy_api_server_gets_less_and_everything_arrives_all_the_same() {
    const TARGETS: usize = 60;
    let bed = private("busy");
    let crew = bed.man();
    let story = Story::new(&bed, "hurried");
    for number in 0..TARGETS {
        let labels = data([("story", "hurried")]);
        bed.admin.create(&namespace(&story.called(&format!("{number:02}")), &labels)).ok();
    }
    let api = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "apiVersion": api, "kind": "PriorityLevelConfiguration", "metadata": { "name": "crowded" },
        "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Reject" },
        } },
    });
    let account = json!({ "name": "copyrator-reconciler", "namespace": testbed::NAMESPACE });
    let schema = json!({
        "apiVersion": api, "kind": "FlowSchema", "metadata": { "name": "crowded" },
        "spec": {
            "matchingPrecedence": 500,
            "priorityLevelConfiguration": { "name": "crowded" },
            "rules": [{
                "subjects": [{ "kind": "ServiceAccount", "serviceAccount": account }],
                "resourceRules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "namespaces": ["*"] }],
            }],
        },
    });
    bed.admin.apply(&level).ok();
    bed.admin.apply(&schema).ok();
    eventually("the API server goes by it", || {
        let schema = bed.admin.get("FlowSchema", "", "crowded").ok_or("it is gone")?;
        same(condition(&schema, "Dangling"), Some(("False".into(), "Found".into())))
    });
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    let metric = |name: &str| {
        let (_, text) = crew.reconciler.ask("/metrics").expect("it answers");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let refused = || {
        let target = |it: &Request| it.namespace.starts_with("hurried-") && it.resource == "configmaps";
        bed.requests().iter().filter(|it| target(it) && it.code == 429).count()
    };
    // The index of annotated sources is refused, too, and perhaps first.
    eventually("it is noticed that the API server is busy", || {
        let (busy, limit) = (metric("copyrator_api_busy_total"), metric("copyrator_in_flight_limit"));
        if busy >= 3.0 && limit <= 4.0 && refused() > 0 {
            Ok(())
        } else {
            Err(format!("{busy} times busy, limit {limit}"))
        }
    });
    bed.admin.delete("FlowSchema", "", "crowded").ok();
    for number in 0..TARGETS {
        story.until("ConfigMap", &story.called(&format!("{number:02}")), "app", [("k", "1")]);
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    // One a second and lane, while everything waits for the pause to end; not one a target and attempt.
    assert!((1..TARGETS * 2).contains(&refused()), "{} requests were refused", refused());
    let mut more = 0..;
    eventually("the limit is what it was", || {
        story.marker(&format!("more-{}", more.next().unwrap_or(0)));
        same(metric("copyrator_in_flight_limit"), 16.0)
    });
}
