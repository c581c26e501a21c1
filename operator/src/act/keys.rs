//! The key of digests and marks, in a Secret. The reconciler creates the key once and never changes it; if a
//! user deletes the Secret, the reconciler creates it again with the same key.

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};

use super::writer::{WriteError, Writer};
use crate::{
    connect::{WRITE_TIMEOUT, WriteClient},
    digest::DigestKey,
    marks::KEY_SECRET,
    read::digest_key::{KEY, KeyError, key_of, random_key, stored_digest_key},
    serve::Condition,
};

/// Reads the key, or creates a missing key. Needs no lease: a process that does not lead needs the key, too.
///
/// # Errors
/// Returns an error if the Secret can be neither read nor created, or contains no key.
pub(crate) async fn digest_key(client: &WriteClient, namespace: &str) -> Result<DigestKey, KeyError> {
    let client = client.client();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed = |verb| {
        move |source| KeyError::Api { verb, namespace: namespace.to_owned(), source: Box::new(source) }
    };
    if let Some(key) = stored_digest_key(&client, namespace).await? {
        return Ok(key);
    }
    match api.create(&PostParams::default(), &holding(&random_key()?)).await {
        Ok(made) => key_of(&made, namespace),
        // Another replica has created the Secret first: the key of that replica is used.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            key_of(&api.get(KEY_SECRET).await.map_err(failed("read"))?, namespace)
        }
        Err(error) => Err(failed("make")(error)),
    }
}

/// Maintains the Secret while we lead. Clones share the condition.
#[derive(Clone)]
pub(crate) struct KeyKeeper {
    client: Client,
    writer: Writer,
    namespace: String,
    told: Condition,
}

impl KeyKeeper {
    /// Creates a keeper that reads through `client` and writes through `writer`. The keeper reports to `told`
    /// if the Secret contains a key other than the one in use.
    pub(crate) fn new(client: Client, writer: Writer, namespace: &str, told: Condition) -> Self {
        Self { client, writer, namespace: namespace.to_owned(), told }
    }

    /// Stops reporting: a different replica maintains the Secret now.
    pub(crate) fn rest(&self) {
        self.told.holds();
    }

    /// Creates a deleted Secret again, with the key in use: with a new key, no mark in the cluster would
    /// verify. A user who wants a new key deletes the Secret while no reconciler runs. Never changes an
    /// existing Secret.
    ///
    /// # Errors
    /// Returns an error if the Secret can be neither read nor created.
    pub(crate) async fn keep(&self, key: &DigestKey) -> Result<(), KeyError> {
        let namespace = &self.namespace;
        let stored = match self.stored().await {
            Ok(None) => {
                let secret = holding(key.expose());
                let written = self.writer.send(|client| async move {
                    Api::<Secret>::namespaced(client, namespace).create(&PostParams::default(), &secret).await
                });
                match written.await {
                    Ok(_) => {
                        tracing::warn!(
                            "Secret {namespace}/{KEY_SECRET} was deleted; Copyrator creates it again with the key in use"
                        );
                        Ok(Some(key.clone()))
                    }
                    Err(WriteError::NotLeading) => Ok(None),
                    Err(WriteError::Timeout) => Err(self.late()),
                    // Another process has created the Secret first.
                    Err(WriteError::Api(error)) if is_conflict(&error) => self.stored().await,
                    Err(WriteError::Api(source)) => {
                        Err(KeyError::Api { verb: "put back", namespace: namespace.clone(), source })
                    }
                }
            }
            stored => stored,
        };
        let amiss = match stored {
            Ok(stored) if stored.as_ref().is_none_or(|stored| stored.id() == key.id()) => None,
            Ok(_) => Some(format!(
                "Secret {namespace}/{KEY_SECRET} has a different digest key than the reconciler uses: restore the Secret, or restart the \
                 reconcilers to use the new key"
            )),
            Err(torn @ KeyError::Torn { .. }) => Some(torn.to_string()),
            Err(error) => return Err(error),
        };
        match amiss {
            None => drop(self.told.holds()),
            Some(amiss) if self.told.missing(amiss.as_str()) => tracing::warn!("{amiss}"),
            Some(_) => {}
        }
        Ok(())
    }

    async fn stored(&self) -> Result<Option<DigestKey>, KeyError> {
        let reading = stored_digest_key(&self.client, &self.namespace);
        tokio::time::timeout(WRITE_TIMEOUT, reading).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> KeyError {
        KeyError::Timeout { namespace: self.namespace.clone() }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Returns a Secret with these bytes as its key.
fn holding(bytes: &[u8]) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(KEY_SECRET.into()), ..ObjectMeta::default() },
        data: Some([(KEY.to_owned(), ByteString(bytes.to_vec()))].into()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, Ordering},
        },
    };

    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{act::leader::IsLeader, serve::Readiness};

    struct May(AtomicBool);

    impl IsLeader for May {
        fn is_leader(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A server with one Secret or none, which accepts creations only.
    fn server(secret: &Arc<Mutex<Option<Value>>>) -> Client {
        let secret = secret.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let secret = secret.clone();
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut secret = secret.lock().unwrap();
                if method == Method::POST {
                    assert!(secret.replace(serde_json::from_slice(&body).unwrap()).is_none());
                } else {
                    assert_eq!(method, Method::GET);
                }
                let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "gone"});
                let (code, answer) = secret.as_ref().map_or((404, gone), |secret| (200, secret.clone()));
                let answer = Full::from(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_deleted_key_is_put_back_by_who_leads_and_another_is_told_and_left() {
        let secret = Arc::default();
        let (may, readiness) =
            (Arc::new(May(AtomicBool::new(false))), Readiness::new(CancellationToken::new()));
        let writer = Writer::new(WriteClient::of(server(&secret)), may.clone());
        let keeper = KeyKeeper::new(server(&secret), writer, "ours", readiness.remark("digestKey"));
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        keeper.keep(&key).await.unwrap();
        assert_eq!(*secret.lock().unwrap(), None, "it was written without the lease");

        may.0.store(true, Ordering::Relaxed);
        keeper.keep(&key).await.unwrap();
        let stored = stored_digest_key(&server(&secret), "ours").await.unwrap().unwrap();
        assert_eq!(stored.id(), key.id());
        keeper.keep(&key).await.unwrap();
        assert_eq!(readiness.to_string(), "ready\n");

        for (held, says) in
            [(vec![8; DigestKey::LENGTH], "has a different digest key"), (vec![8], "has no key")]
        {
            let other = json!(holding(&held));
            *secret.lock().unwrap() = Some(other.clone());
            keeper.keep(&key).await.unwrap();
            let said = readiness.to_string();
            assert!(
                said.starts_with("ready\ndigestKey: Secret ours/copyrator-digest-key") && said.contains(says),
                "{said}"
            );
            assert_eq!(*secret.lock().unwrap(), Some(other), "what is there is left");
        }
        *secret.lock().unwrap() = None;
        keeper.keep(&key).await.unwrap();
        assert_eq!(readiness.to_string(), "ready\n");
    }
}
