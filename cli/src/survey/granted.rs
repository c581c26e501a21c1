//! Lists objects of kinds that are known only at run time, as the operator does. If a kind is not served, or
//! its list fails, the other kinds are still read.

use kube::Client;

use crate::{
    decoded::Decoded,
    intake::granted::Declared,
    model::InstancesRead,
    names::Kind,
    read::{
        hindered::hindered,
        listing::{ListError, list_declared},
    },
};

/// The objects of one kind, and whether the list is complete.
///
/// # Errors
/// The API server refused, or did not answer.
pub(super) async fn declared_objects(
    client: &Client,
    kind: Kind,
    place: Option<&str>,
) -> Result<(Vec<Decoded<Declared>>, InstancesRead), ListError> {
    match list_declared(client, kind, place).await {
        Ok(objects) => {
            Ok((objects, hindered(client, &kind.resource().into()).await.unwrap_or(InstancesRead::Listed)))
        }
        Err(ListError::NotServed { .. }) => Ok((Vec::new(), InstancesRead::NotServed)),
        Err(ListError::Failed { message, .. }) => Ok((Vec::new(), InstancesRead::Failed(message))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::names::GrantedKinds;

    /// Such as one whose definition has a conversion that fails, or one that is in no namespace.
    #[tokio::test]
    async fn a_kind_that_cannot_be_listed_is_no_error() {
        let kind = GrantedKinds::default().kind("a.b/v1", "A", "as", false).unwrap();
        for (code, is_namespaced, told) in [
            (200, true, InstancesRead::Listed),
            (404, true, InstancesRead::NotServed),
            (500, true, InstancesRead::Failed("its conversion".into())),
            (
                200,
                false,
                InstancesRead::Failed(
                    "A is cluster-scoped, but rules and templates need namespaced objects: remove A from the chart's value templates.kinds"
                        .into(),
                ),
            ),
        ] {
            let service = tower::service_fn(move |request: Request<Body>| {
                let (code, answer) = match request.uri().path() {
                    "/apis/a.b/v1" => {
                        let one = json!({"name": "as", "singularName": "a", "namespaced": is_namespaced, "kind": "A", "verbs": []});
                        (200, json!({"groupVersion": "a.b/v1", "resources": [one]}))
                    }
                    _ if code == 200 => (200, json!({"metadata": {}, "items": []})),
                    _ => (
                        code,
                        json!({"status": "Failure", "message": "its conversion", "reason": "", "code": code}),
                    ),
                };
                let answer =
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                async move { Ok::<_, Infallible>(answer.unwrap()) }
            });
            let client = Client::new(service, "default");
            let (objects, read) = declared_objects(&client, kind, None).await.unwrap();
            assert!(objects.is_empty() && read == told, "{code}: {read:?}");
        }
    }
}
