//! What the audit log tells of the pods of one story. Only the lines that name its home are read: all of them take seconds,
//! many on a busy machine, and what waits for a replacement waits for a minute.

use std::fs;

use serde_json::Value;

use crate::bed::{Story, eventually};

/// A finished request of ours about pods.
#[derive(Clone, Debug)]
pub struct Request {
    verb: String,
    pub name: String,
    uri: String,
    pub code: u64,
    /// When it came, and when it was answered.
    pub at: (String, String),
}

impl Request {
    /// Whether it is an eviction.
    pub fn evicts(&self) -> bool {
        self.uri.ends_with("/eviction")
    }
}

/// Our requests about the pods at the story's home, in order.
fn requests(story: &Story<'_>) -> Vec<Request> {
    let log = story.bed.testbed.cluster().audit_log().expect("the cluster writes an audit log");
    let text = fs::read_to_string(log).expect("the audit log is readable");
    let place = format!("\"namespace\":\"{}\"", story.home);
    let ours = format!("system:serviceaccount:{}:", testbed::NAMESPACE);
    let here = text.lines().filter(|line| line.contains(&place) && line.contains(&ours));
    // The last line may not be written to its end.
    let mut requests: Vec<Request> =
        here.filter_map(|line| request(&serde_json::from_str(line).ok()?, &story.home, &ours)).collect();
    requests.sort_by(|a, b| a.at.0.cmp(&b.at.0));
    requests
}

fn request(line: &Value, home: &str, ours: &str) -> Option<Request> {
    let text = |pointer| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_it = text("/user/username").starts_with(ours)
        && text("/objectRef/resource") == "pods"
        && text("/objectRef/namespace") == home;
    is_it.then(|| Request {
        verb: text("/verb").to_owned(),
        name: text("/objectRef/name").to_owned(),
        uri: text("/requestURI").to_owned(),
        code: line["responseStatus"]["code"].as_u64().unwrap_or_default(),
        at: (text("/requestReceivedTimestamp").to_owned(), text("/stageTimestamp").to_owned()),
    })
}

/// Our evictions and deletions of the story's pods, in order.
pub fn pod_writes(story: &Story<'_>) -> Vec<Request> {
    let mut writes = requests(story);
    writes.retain(|it| !["get", "list", "watch"].contains(&&*it.verb));
    writes
}

/// Those evictions that succeeded.
pub fn evictions(story: &Story<'_>) -> Vec<Request> {
    let mut writes = pod_writes(story);
    writes.retain(|it| it.evicts() && it.code < 300);
    writes
}

/// Waits until the operator has listed the pods twice since it last removed one: what it has not done by then waits.
#[track_caller]
pub fn until_looked_again(story: &Story<'_>) {
    eventually("the pods are looked at again", || {
        let requests = requests(story);
        let is_list = |it: &&Request| it.verb == "list";
        let removed = requests.iter().rev().find(|it| !is_list(it)).ok_or("none was removed")?;
        let lists = requests.iter().filter(|it| is_list(it) && it.at.0 > removed.at.1).count();
        if lists >= 2 { Ok(()) } else { Err(format!("{lists} lists since {}", removed.at.1)) }
    });
}
