//! The values of the fields that planned writes change: each object is read, and compared with what would be
//! applied.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use kube::{Api, Client, api::DynamicObject};
use serde_json::json;

use super::{content::AT_ONCE, policies::writes};
use crate::{
    act::manifest::of_write,
    explain::{FieldChange, Outlook, field_changes},
    names::ObjectKey,
    observe::content::Contents,
    plan::copy::{CopyWrite, SlotPlan},
};

/// Adds the changes of fields to the rows of objects that are changed, in one namespace or all. Skips objects
/// that cannot be read.
pub(super) async fn compare(
    client: &Client,
    (plans, namespace): (&BTreeMap<ObjectKey, SlotPlan>, Option<&str>),
    outlooks: &mut [Outlook],
) {
    let changing: Vec<(ObjectKey, CopyWrite)> = writes(plans, namespace)
        .filter(|(slot, write)| slot.kind.data().is_none() && write.replaces.is_some())
        .map(|(slot, write)| (slot.clone(), write.clone()))
        .collect();
    let contents = &Contents::new(client.clone());
    let mut found: BTreeMap<ObjectKey, (Vec<FieldChange>, bool)> = stream::iter(changing)
        .map(|(slot, write)| async move {
            let changes = changes(client, contents, &slot, &write).await?;
            Some((slot, changes))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    for outlook in outlooks {
        // A slot has a row for each rule that wants it, but only one of these rules writes it.
        if let Some(difference) = &mut outlook.difference
            && let Some((values, has_more)) = found.remove(&outlook.slot)
        {
            (difference.values, difference.has_more_values) = (values, has_more);
        }
    }
}

async fn changes(
    client: &Client,
    contents: &Contents,
    slot: &ObjectKey,
    write: &CopyWrite,
) -> Option<(Vec<FieldChange>, bool)> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &slot.namespace, &slot.kind.resource().into());
    let stored = json!(api.get(&slot.name).await.ok()?);
    let content = contents.of_write(slot, write).await.ok()??;
    let off = write.surplus.iter().chain(write.take_over.iter().flatten());
    Some(field_changes(slot.kind, of_write(slot, write, &content), &stored, off))
}
