//! A watch that stays silent.

use std::{
    convert::Infallible,
    sync::{Mutex, RwLock},
};

use http::{Request, Response, header::ACCEPT};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};

use super::super::*;
use crate::{
    intake::object::Slim,
    model::World,
    names::{Kind, ObjectKey},
    observe::observer::{Listed, Requests},
    plan::Key,
};

#[derive(Default)]
struct Requested(Mutex<BTreeSet<Key>>);

impl Requests for Requested {
    fn request(&self, _: &Changed, keys: BTreeSet<Key>) {
        self.0.lock().unwrap().extend(keys);
    }

    fn complete(&self, _: Option<Listed>) {}
}

/// A server whose lists grow each time, and whose watches never report anything.
fn silent_server(lists: Vec<Value>) -> Client {
    let lists = Arc::new(Mutex::new(lists.into_iter()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let accepted = request.headers()[ACCEPT].to_str().unwrap();
        assert!(accepted.contains("PartialObjectMetadata"), "a body is asked for: {accepted}");
        let body = if is_watch {
            let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
            Either::Left(StreamBody::new(never))
        } else {
            let items = lists.lock().unwrap().next().expect("no more lists than were given");
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "1"}, "items": items});
            Either::Right(Full::new(Bytes::from(list.to_string())))
        };
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    Client::new(service, "default")
}

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": version}})
}

/// After an etcd restore a watch can go on without ever reporting anything.
#[tokio::test(start_paused = true)]
async fn what_a_silent_watch_missed_is_found_by_the_next_list() {
    let lists =
        vec![json!([object("a", "1"), object("gone", "1")]), json!([object("a", "2"), object("new", "3")])];
    let world = Arc::new(RwLock::new(World::default()));
    world.write().unwrap().settings_mut().stores = [Store::ConfigMaps].into();
    let observer = Observer {
        world: world.clone(),
        requests: Arc::new(Requested::default()),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let api = Api::<Decoded<Slim<ConfigMap>>>::all(silent_server(lists));
    let (stop, hour) = (CancellationToken::new(), Duration::from_secs(3600));
    let watching = watch(api, watcher::Config::default(), observer, None, hour, stop.clone());
    let known = || {
        let world = world.read().unwrap();
        let version = |name| {
            let key = ObjectKey::new(Kind::ConfigMap, "shop", name);
            world.object(&key).map(|facts| facts.resource_version.to_string())
        };
        ["a", "gone", "new"].map(version)
    };
    let look = async {
        tokio::time::sleep(hour - Duration::from_secs(1)).await;
        assert_eq!(known(), [Some("1".to_owned()), Some("1".to_owned()), None], "before the sweep");
        tokio::time::sleep(hour / 10).await;
        assert_eq!(known(), [Some("2".to_owned()), None, Some("3".to_owned())], "after it");
        stop.cancel();
    };
    futures::join!(watching, look);
}
