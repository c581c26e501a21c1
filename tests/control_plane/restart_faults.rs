//! Restarts while the API server fails, and while we do: each is done, once, and nobody is hammered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::bed::objects::{config_map, deployment, ours, secret};
use crate::bed::{Bed, Call, Crew, Fate, Gate, Story, eventually, same, shaky};

/// Both roles, the reconciler behind a gate.
fn man_behind(bed: &Bed, gate: &Gate) -> Crew {
    let mut crew = bed.man();
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = bed.gated(gate);
    crew
}

/// The Deployment that a call restarts, if it is such a call and of this namespace.
fn restarted<'c>(call: &'c Call, namespace: &str) -> Option<&'c str> {
    let is_restart = call.method == "PATCH" && call.query.contains("copyrator-restart");
    let (_, name) = call.path.split_once(&format!("/namespaces/{namespace}/deployments/"))?;
    is_restart.then_some(name)
}

/// Whether a call removes a pod of this namespace.
fn removed(call: &Call, namespace: &str) -> bool {
    let is_pod = call.path.contains(&format!("/namespaces/{namespace}/pods/"));
    is_pod && (call.method == "DELETE" || (call.method == "POST" && call.path.ends_with("/eviction")))
}

fn change(story: &Story<'_>, config: &str, value: &str) {
    story.admin().apply(&config_map(&story.home, config, [("k", value)])).ok();
}

/// Deployments that use a ConfigMap of their name each, adopted: the pods that run.
fn adopted<const N: usize>(story: &Story<'_>, names: [&str; N]) -> [String; N] {
    for name in names {
        change(story, name, "1");
        let references = json!({ "envFrom": [{ "configMapRef": { "name": name } }] });
        story.admin().create(&deployment(&story.home, name, references)).ok();
    }
    let running = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_later(1);
    running
}

/// Reloader drops a restart where a LIST fails, and after five tries of a write (Reloader#1219: a blip of the API server). Whatever the API server answers, each is
/// tried again, later and later, and no other waits for it.
#[test]
fn restarts_outlive_whatever_the_api_server_answers() {
    const HOME: &str = "answered-home";
    let (bed, _turn) = shaky();
    let unreadable = Arc::new(AtomicUsize::new(0));
    let unread = unreadable.clone();
    let which = |call: &Call| {
        let is_list = call.path.ends_with(&format!("/namespaces/{HOME}/pods"));
        let is_content = call.path.ends_with(&format!("/namespaces/{HOME}/configmaps/unread"));
        restarted(call, HOME).is_some()
            || removed(call, HOME)
            || (call.method == "GET" && (is_list || is_content))
    };
    let fates = move |call: &Call, before: &[Call]| {
        let is_it =
            |one: &&Call| (&one.method, &one.path, &one.query) == (&call.method, &call.path, &call.query);
        let earlier = before.iter().filter(is_it).count();
        match restarted(call, HOME) {
            Some("conflicted") if earlier < 4 => Fate::Conflict,
            // Were one to wait for the other, this would never end.
            Some("faulty")
                if earlier < 2 || !before.iter().any(|one| restarted(one, HOME) == Some("well")) =>
            {
                Fate::Fault
            }
            Some("unanswered") if earlier < 1 => Fate::Unanswered,
            Some("busy") if earlier < 1 => Fate::Later(4),
            None if removed(call, HOME) && earlier == 0 => Fate::Fault,
            // As the API server says it when it is too busy: no budget is in the way.
            None if removed(call, HOME) && earlier == 1 => Fate::Later(1),
            None if call.query.contains("blind") && earlier < 3 => Fate::Fault,
            None if call.path.ends_with("unread") => {
                let left =
                    unread.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if left.is_ok() { Fate::Fault } else { Fate::Pass }
            }
            _ => Fate::Pass,
        }
    };
    let gate = Gate::over(bed, which, fates);
    let crew = man_behind(bed, &gate);
    let story = Story::new(bed, "answered");
    let names = ["conflicted", "faulty", "unanswered", "blind", "unread", "well", "busy"];
    story.admin().create(&story.monitor(&names, json!(null))).ok();
    let before = adopted(&story, names);
    unreadable.store(3, Ordering::SeqCst);
    for name in &names[..6] {
        change(&story, name, "2");
    }
    for (name, before) in names[..6].iter().zip(&before) {
        story.until_restarted(name, before);
    }
    // Last, since nothing at all is sent for as long as the API server says.
    change(&story, "busy", "2");
    story.until_restarted("busy", &before[6]);
    pods_are_removed_whatever_the_api_server_answers(&story, &gate);
    story.until_later(1);
    story.marker("then");
    assert_eq!(names.map(|name| story.rollouts(name)), [2; 7]);

    let calls = gate.calls();
    let of = |wanted: &str| -> Vec<&Call> {
        let is_it = |call: &&Call| match restarted(call, HOME) {
            Some(name) => name == wanted,
            None => call.query.contains(wanted) || call.path.ends_with(wanted),
        };
        calls.iter().filter(is_it).collect()
    };
    let restarts =
        |name| -> Vec<&Call> { of(name).into_iter().filter(|call| call.method == "PATCH").collect() };
    // Each refusal costs one call, and what was done is done once more at most: for its version, in vain.
    for (name, expected) in
        [("conflicted", 5..=5), ("faulty", 3..=8), ("unanswered", 1..=2), ("well", 1..=1), ("busy", 2..=2)]
    {
        let seen = restarts(name);
        assert!(expected.contains(&seen.len()), "{name}: {seen:#?}");
    }
    for name in ["blind", "unread"] {
        let reads = of(name).into_iter().filter(|call| call.method == "GET").count();
        assert!((4..=12).contains(&reads), "{name} was read {reads} times");
    }
    let gap = |name, number: usize| restarts(name)[number].at - restarts(name)[number - 1].at;
    assert!(
        gap("busy", 1) >= Duration::from_secs(4),
        "not for as long as the API server says: {:?}",
        gap("busy", 1)
    );
    crew.reconciler.kill();
}

/// A fault, and a refusal that is no budget's: the third attempt removes the pod, and no other pod goes.
fn pods_are_removed_whatever_the_api_server_answers(story: &Story<'_>, gate: &Gate) {
    let names = ["evicted", "deleted"];
    for (name, strategy) in [("evicted", "Evict"), ("deleted", "Delete")] {
        let mut monitor = story.monitor(&[name], json!(null));
        monitor["metadata"]["name"] = name.into();
        monitor["spec"]["strategy"] = json!({ "type": strategy });
        story.admin().create(&monitor).ok();
    }
    let before = adopted(story, names);
    names.iter().for_each(|name| change(story, name, "2"));
    let after: Vec<String> =
        names.iter().zip(&before).map(|(name, before)| story.until_restarted(name, before)).collect();
    story.until_later(1);
    story.marker("removed");
    for (name, after) in names.iter().zip(after) {
        assert_eq!((story.until_running(name), story.rollouts(name)), (after, 1), "{name}");
        let mut calls = gate.calls();
        calls.retain(|call| removed(call, &story.home) && call.path.contains(&format!("/pods/{name}-")));
        assert_eq!(calls.len(), 3, "{calls:#?}");
        assert!(calls.iter().all(|call| (call.method == "POST") == (*name == "evicted")), "{calls:#?}");
    }
}

/// What happens while a watch is down is not lost (k8s-sidecar#621: a watch dies in silence; Reloader#640).
#[test]
fn a_secret_that_changes_while_its_watch_is_cut_restarts_once() {
    let (bed, _turn) = shaky();
    let down = Arc::new(AtomicBool::new(false));
    let is_down = down.clone();
    let which = |call: &Call| call.path.ends_with("/secrets") && call.query.contains("watch");
    let gate = Gate::over(
        bed,
        which,
        move |_, _| if is_down.load(Ordering::SeqCst) { Fate::Fault } else { Fate::Pass },
    );
    let crew = man_behind(bed, &gate);
    let story = Story::new(bed, "cut-watch");
    let write = |value: &str| drop(story.admin().apply(&secret(&story.home, "cred", [("k", value)])).ok());
    write("1");
    let references = json!({ "envFrom": [{ "secretRef": { "name": "cred" } }] });
    story.admin().create(&deployment(&story.home, "web", references)).ok();
    let spec = json!({
        "watch": [{ "kind": "Secret", "names": ["cred"] }], "pace": { "quietPeriod": "0s", "minInterval": "0s" },
    });
    story.admin().create(&ours("ConfigMonitor", &story.home, "monitor", spec)).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_later(1);
    let seen = gate.calls().len();
    down.store(true, Ordering::SeqCst);
    gate.cut();
    eventually("the watch is refused", || {
        if gate.calls().len() > seen { Ok(()) } else { Err("not asked for".into()) }
    });
    write("2");
    write("3");
    down.store(false, Ordering::SeqCst);
    let after = story.until_restarted("web", &before);
    story.until_later(1);
    story.marker("then");
    assert_eq!((story.until_running("web"), story.rollouts("web")), (after, 2));
    crew.reconciler.kill();
}

/// Whether it lists what restarts are decided by.
fn is_list(call: &Call) -> bool {
    let kinds = ["/configmaps", "/secrets", "/deployments"];
    call.method == "GET" && kinds.iter().any(|kind| call.path.ends_with(kind))
}

/// For every n: the process dies when exactly n of its restarts are done, and the next one does those that are left.
#[test]
fn killed_after_any_one_of_its_restarts_it_does_the_others_when_started_again() {
    const NAMES: [&str; 3] = ["one", "two", "three"];
    const HOME: &str = "cut-restarts-home";
    let (bed, _turn) = shaky();
    let crew = bed.man();
    let story = Story::new(bed, "cut-restarts");
    change(&story, "app", "0");
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    for name in NAMES {
        story.deploy(name, &["app"]);
        story.until_adopted(name);
    }
    crew.reconciler.kill();
    bed.release_lease();
    for writes in 0..NAMES.len() {
        let before = NAMES.map(|name| story.until_running(name));
        story.until_later(0);
        change(&story, "app", &format!("{}", writes + 1));
        let gate = Gate::over(
            bed,
            |call| restarted(call, HOME).is_some(),
            move |_, before| {
                // One that met a conflict is not done, and comes again.
                if before.iter().filter(|call| call.may_be_done()).count() < writes {
                    Fate::Pass
                } else {
                    Fate::Held
                }
            },
        );
        let victim = bed.gated(&gate);
        // A reconciler that is killed takes with it what is still on its way.
        eventually("so many restarts are done, and the next one is held", || {
            let calls = gate.calls();
            let done = calls.iter().filter(|call| call.is_done()).count();
            if gate.held() > 0 && done == writes { Ok(()) } else { Err(format!("{calls:#?}")) }
        });
        victim.kill();
        bed.release_lease();
        // Deployments are rolled by their controller, a moment after our write.
        eventually("those that were written roll, and no other", || {
            same(NAMES.iter().filter(|name| story.rollouts(name) == writes + 2).count(), writes)
        });
        // A list that fails is not an empty one (Reloader takes it for that): nothing is decided before it has come.
        let lists = Gate::over(bed, is_list, |call, before| {
            let earlier = before.iter().filter(|one| one.path == call.path).count();
            if earlier < 2 { Fate::Fault } else { Fate::Pass }
        });
        let heir = bed.gated(&lists);
        for (name, before) in NAMES.iter().zip(&before) {
            story.until_restarted(name, before);
        }
        assert!(lists.calls().len() >= 9, "three stores, two failures each: {:#?}", lists.calls());
        heir.kill();
        bed.release_lease();
    }
    let reconciler = bed.reconciler(0);
    story.marker("then");
    assert_eq!(NAMES.map(|name| story.rollouts(name)), [NAMES.len() + 1; 3]);
    reconciler.kill();
    crew.webhook.kill();
}
