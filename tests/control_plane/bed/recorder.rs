//! What becomes of one object from now on, without a gap: seen by a watch, not by looking now and then.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::objects::version;
use super::person::{Person, RUNTIME};
use super::{eventually, paths};

/// Everything that becomes of one object.
pub struct Recorder {
    events: Arc<Mutex<Vec<Seen>>>,
    watching: AbortHandle,
}

/// What a watch told.
#[derive(Clone, Debug)]
pub enum Seen {
    /// The object was made or changed; it is like this now.
    Written(Value),
    /// It went.
    Gone,
    /// The watch failed: nothing is known any more.
    Lost(String),
}

impl Person {
    /// Records what becomes of an object that is there.
    pub fn record(&self, kind: &str, object: &Value) -> Recorder {
        let place = |field: &str| object["metadata"][field].as_str().expect("an object has a name");
        let collection = paths::collection(kind, place("namespace"));
        let (name, version) = (place("name"), version(object));
        let uri =
            format!("{collection}?watch=1&fieldSelector=metadata.name={name}&resourceVersion={version}");
        let (client, events) = (self.client.clone(), Arc::new(Mutex::new(Vec::new())));
        let heard = events.clone();
        let watching = RUNTIME.spawn(async move {
            let request = Request::get(uri).body(Vec::new()).expect("a request");
            let hear = |seen| heard.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            match client.request_events::<Value>(request).await {
                Ok(stream) => {
                    stream
                        .for_each(|event| async {
                            hear(match event {
                                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                                    Seen::Written(object)
                                }
                                Ok(WatchEvent::Deleted(_)) => Seen::Gone,
                                other => Seen::Lost(format!("{other:?}")),
                            });
                        })
                        .await;
                    hear(Seen::Lost("the watch ended".into()));
                }
                Err(error) => hear(Seen::Lost(error.to_string())),
            }
        });
        Recorder { events, watching: watching.abort_handle() }
    }
}

impl Recorder {
    /// Waits until the object has been seen as it is now, and gives back all that was seen; the test fails if it was
    /// ever gone.
    #[track_caller]
    pub fn never_gone(self, now: &Value) -> Vec<Value> {
        let wanted = version(now);
        eventually("the watch has told of this version", || {
            let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut versions = Vec::new();
            for seen in events {
                match seen {
                    Seen::Written(object) => versions.push(object),
                    Seen::Gone => panic!("it was gone, after {versions:#?}"),
                    Seen::Lost(why) => panic!("nothing is known any more: {why}"),
                }
            }
            // It may have been written again since.
            let is_through = versions.iter().any(|seen| version(seen) == wanted);
            if is_through { Ok(versions) } else { Err(format!("{} versions", versions.len())) }
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
