use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::Settings,
    names::{GrantedKinds, TemplateKind},
};

/// What a user is told who has rights in namespace `shop` only, where Issuers are copied.
async fn told(may_list_issuers: bool) -> (World, Kind, Result<Hidden, SurveyError>) {
    let texts = ["cert-manager.io/v1/Issuer/issuers/render+copy"];
    let template_kinds = TemplateKind::read_all(texts, &GrantedKinds::default()).unwrap();
    let issuer = template_kinds.iter().find_map(|kind| kind.rendered).unwrap();
    let settings = Settings { copy_kinds: [issuer].into(), template_kinds, ..Settings::default() };
    let mut world = World::new(settings);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, answer): (_, Value) = match request.uri().path() {
            "/api/v1/namespaces/shop" => (200, json!({ "metadata": { "name": "shop", "uid": "1" } })),
            path if path.ends_with("/namespaces/shop/issuers") && !may_list_issuers => {
                (403, json!({ "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403 }))
            }
            "/apis/cert-manager.io/v1" => {
                let one = json!({ "name": "issuers", "singularName": "issuer", "namespaced": true, "kind": "Issuer", "verbs": [] });
                (200, json!({ "groupVersion": "cert-manager.io/v1", "resources": [one] }))
            }
            _ => (200, json!({ "metadata": {}, "items": [] })),
        };
        let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    let client = Client::new(service, "default");
    let caller = Subject { user: "alice".into(), ..Subject::default() };
    let scope = ReadScope::One("shop".into());
    let now = Timestamp::UNIX_EPOCH;
    let reader = Reader { client: &client, caller: &caller, scope: &scope, is_told: true, now };
    let hidden = reader.take(&mut world).await;
    (world, issuer, hidden)
}

#[tokio::test]
async fn a_namespace_is_seen_where_custom_resources_are_copied() {
    let (world, _, hidden) = told(true).await;
    let hidden = hidden.unwrap();
    assert!(world.sees("shop"), "{:?}", world.unseen("shop"));
    assert!(hidden.kinds.is_empty() && hidden.notes.len() == 1, "{hidden:?}");
}

#[tokio::test]
async fn custom_resources_that_the_caller_may_not_list_are_left_out_alone() {
    let (world, issuer, hidden) = told(false).await;
    let hidden = hidden.unwrap();
    assert!(world.sees("shop"), "{:?}", world.unseen("shop"));
    assert_eq!(hidden.kinds, [issuer].into());
    let note = hidden.notes.last().unwrap();
    assert!(note.contains("cannot show rules that copy from or to a Issuer"), "{note}");
}
