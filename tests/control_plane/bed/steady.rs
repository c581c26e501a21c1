//! Writes at a steady rate that a policy with `failurePolicy: Fail` judges: good ones, which must pass, and bad ones, which
//! must be refused by it and nothing else.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::objects::config_map;
use super::{Handshakes, Person, Story, eventually};

/// Between two writes of one writer.
const PAUSE: Duration = Duration::from_millis(30);
const WRITERS: usize = 4;

/// What became of the writes.
#[derive(Debug, Default)]
pub struct Tally {
    /// Passed, or refused as they should be.
    pub right: usize,
    /// Everything else, with what the API server said.
    pub wrong: Vec<String>,
}

fn object(namespace: &str, name: &str, number: usize, is_bad: bool) -> Value {
    let number = number.to_string();
    config_map(namespace, name, [("number", if is_bad { "none" } else { &number })])
}

/// Makes the policy, and waits until it is in force for `namespace`, which is to be one of the story's targets.
pub fn strict(story: &Story<'_>, namespace: &str) {
    let rule = json!({ "name": "number", "keys": ["number"], "format": "integer" });
    let spec = json!({ "match": {}, "failurePolicy": "Fail", "data": [rule] });
    story.admin().create(&story.policy(&["ConfigMap"], spec)).ok();
    eventually("the policy holds up what it cannot judge", || {
        let hooks = story.admin().get("ValidatingWebhookConfiguration", "", "copyrator").ok_or("no hooks")?;
        let hooks = hooks["webhooks"].as_array().cloned().unwrap_or_default();
        let name = |hook: &Value| hook["name"].as_str().unwrap_or_default().to_owned();
        let is_there = hooks.iter().any(|hook| name(hook).contains("policies-fail"));
        let refused = story.admin().try_create(&object(namespace, "probe", 0, true)).code == 403;
        if is_there && refused {
            Ok(())
        } else {
            Err(format!("{:?}", hooks.iter().map(name).collect::<Vec<_>>()))
        }
    });
}

/// Writes, and makes handshakes beside, for as long as `meanwhile` takes; gives what it gave, and the tally.
pub fn steady<T>(
    admin: &Person,
    namespace: &str,
    handshakes: &Handshakes,
    meanwhile: impl FnOnce() -> T,
) -> (T, Tally) {
    let (ended, tally) = (AtomicBool::new(false), Mutex::new(Tally::default()));
    /// Ends the writers also where the test fails meanwhile.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let result = thread::scope(|scope| {
        let end = End(&ended);
        for writer in 0..WRITERS {
            let (ended, tally) = (&ended, &tally);
            scope.spawn(move || {
                let name = format!("steady-{writer}");
                for number in 0.. {
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    let is_bad = number % 3 == 2;
                    let answer = admin.apply(&object(namespace, &name, number, is_bad));
                    let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
                    let is_right = match is_bad {
                        true => answer.code == 403 && said.contains("rule number"),
                        false => answer.code < 300,
                    };
                    let mut tally = tally.lock().expect("no writer panics holding it");
                    match is_right {
                        true => tally.right += 1,
                        false => tally.wrong.push(format!("bad: {is_bad}, {}: {said}", answer.code)),
                    }
                    drop(tally);
                    thread::sleep(PAUSE);
                }
            });
        }
        let is_over = &ended;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                handshakes.make(admin);
                thread::sleep(PAUSE);
            }
        });
        let result = meanwhile();
        drop(end);
        result
    });
    (result, tally.into_inner().expect("no writer panics holding it"))
}
