//! What marks and digests can be held against. Who may not read the key of digests gets a plan all the same: marks
//! are taken at their word, and copies are compared by their content.

use std::collections::BTreeMap;

use kube::Client;

use crate::{
    act::keys::{KeyError, passing_digest_key, stored_digest_key},
    authority::{Question, Subject, refusal},
    digest::DigestKey,
    marks::KEY_SECRET,
    model::{NamespacedName, ObjectKey, World},
    plan::{CopyAction, SlotPlan},
};

/// The key that a plan is made with.
pub(super) struct Trust {
    /// The key, or one of our own.
    pub key: DigestKey,
    /// Marks are taken at their word.
    pub is_believed: bool,
    /// What that means for whoever reads the plan.
    pub note: Option<String>,
}

/// Reads the key of digests, if we may.
pub(super) async fn digest_key(
    client: &Client,
    namespace: &str,
    caller: &Subject,
) -> Result<Trust, KeyError> {
    match stored_digest_key(client, namespace).await {
        Ok(Some(key)) => Ok(Trust { key, is_believed: false, note: None }),
        Ok(None) => {
            let note = format!(
                "there is no Secret {namespace}/{KEY_SECRET}, and a new key is made when Copyrator starts: copies that \
                 are there are marked anew, and those that nobody wants stay; if Copyrator lives in another \
                 namespace, name it with --install-namespace"
            );
            Ok(Trust { key: passing_digest_key()?, is_believed: false, note: Some(note) })
        }
        Err(KeyError::Api { source, .. }) if matches!(&*source, kube::Error::Api(said) if said.code == 403) =>
        {
            let question = Question {
                subject: caller.clone(),
                verb: "get",
                group: "",
                resource: "secrets",
                subresource: None,
                name: Some(KEY_SECRET.into()),
                namespace: namespace.to_owned(),
            };
            let note = format!(
                "the marks of copies are not verified but taken at their word, and copies are compared by content: \
                 an object with pasted marks passes for a copy (who reads the key can forge marks, so few should: {})",
                refusal(&[&question], &NamespacedName::new(namespace, "plan"), usize::MAX)
            );
            Ok(Trust { key: passing_digest_key()?, is_believed: true, note: Some(note) })
        }
        Err(error) => Err(error),
    }
}

/// Has marks verify that only carry the labels which the admission policy for copies guards.
pub(super) fn believe_marks(world: &mut World) {
    let Some(key) = world.key.clone() else { return };
    let copies: Vec<ObjectKey> = world.copies().cloned().collect();
    for slot in copies {
        let Some(mut facts) = world.object(&slot).cloned() else { continue };
        let label = |name: &str| facts.labels.get(name).map(|value| value.to_string());
        let Some(marks) = facts.marks.as_deref_mut().filter(|marks| marks.is_labelled(label)) else {
            continue;
        };
        let mark = key.mark(&slot, &marks.rule);
        if marks.mark != mark {
            marks.mark = mark;
            world.set_object(slot, Some(facts));
        }
    }
}

/// Has digests agree of copies whose content has been read and is what it is meant to be. Whether any did.
pub(super) fn believe_digests(world: &mut World, plans: &BTreeMap<ObjectKey, SlotPlan>) -> bool {
    let mut any = false;
    for (slot, plan) in plans {
        let Some(CopyAction::Write(write)) = &plan.action else { continue };
        let (Some(print), Some(facts)) = (world.fingerprint(slot), world.object(slot)) else { continue };
        let intent = &write.intent;
        let is_the_same = intent.same_content(print) && intent.same_meta(facts, print);
        let mut facts = facts.clone();
        let Some(marks) = facts.marks.as_deref_mut().filter(|_| is_the_same && write.take_over.is_none())
        else {
            continue;
        };
        if marks.digest != intent.marks.digest {
            marks.digest.clone_from(&intent.marks.digest);
            world.set_object(slot.clone(), Some(facts));
            any = true;
        }
    }
    any
}
