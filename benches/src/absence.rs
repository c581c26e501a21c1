//! The cluster without us, for the bare client: nothing of ours is asked or evaluated then, as before the chart. So what a ratio
//! says is what a user pays, hooks and policies included.

use std::time::Instant;

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use testbed::{RELEASE, Role};

use crate::Outcome;
use crate::arena::{Arena, LOOK, PATIENCE};
use crate::objects::{HOME, rule};
use crate::writes::{self, create, remove};

/// What the API server knows of us: a policy without its binding is not evaluated.
const COLLECTIONS: [&str; 4] = [
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
];
const AUTHOR: &str = "copyrator.dev/author";

impl Arena {
    /// Ends the reconciler, and takes away hooks and policies until nothing of them acts any more.
    pub(crate) async fn leave(&mut self) -> Outcome<()> {
        self.stop(Role::Reconciler)?;
        for collection in COLLECTIONS {
            let request = http::Request::get(collection).body(Vec::new())?;
            let list: kube::core::ObjectList<DynamicObject> = self.admin.request(request).await?;
            for object in list.items.into_iter().filter(|object| object.name_any().starts_with(RELEASE)) {
                writes::send(&self.admin, remove(&format!("{collection}/{}", object.name_any()))?).await?;
                self.away.push((collection, anew(object)?));
            }
        }
        self.until_stamped(false).await
    }

    /// Puts them back until they act, and starts the reconciler.
    pub(crate) async fn come_back(&mut self) -> Outcome<()> {
        for (collection, object) in std::mem::take(&mut self.away) {
            writes::send(&self.admin, create(collection, &object)?).await?;
        }
        self.until_stamped(true).await?;
        self.restart(Role::Reconciler)?;
        Ok(())
    }

    /// Waits until a rule's author is what our policies make of it, or what its writer does: that is the last thing to be
    /// noticed, since the API server looks at policies once a second, and at hooks at once.
    async fn until_stamped(&self, wanted: bool) -> Outcome<()> {
        let mut forged = rule("forged", "forged", json!({"names": ["nowhere"]}));
        forged["metadata"]["annotations"] = json!({AUTHOR: "forged"});
        let path = format!("/apis/copyrator.dev/v1alpha1/namespaces/{HOME}/copyratorrules?dryRun=All");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer: Result<Value, kube::Error> = self.admin.request(create(&path, &forged)?).await;
            let author = |rule: &Value| rule["metadata"]["annotations"][AUTHOR] != "forged";
            match &answer {
                Ok(rule) if author(rule) == wanted => return Ok(()),
                _ if Instant::now() > deadline => {
                    return Err(
                        format!("policies in force is not {wanted} after {PATIENCE:?}: {answer:?}").into()
                    );
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

/// An object as it was written.
fn anew(object: DynamicObject) -> Outcome<Value> {
    let mut object = serde_json::to_value(object)?;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata
            .retain(|key, _| ["name", "labels", "annotations", "ownerReferences"].contains(&key.as_str()));
    }
    Ok(object)
}
