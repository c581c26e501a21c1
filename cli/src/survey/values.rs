//! The values of the fields that planned writes change. The API server answers a dry run of each write, with the
//! caller's rights; the answer is compared with the object.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use kube::Client;

use super::{content::AT_ONCE, policies::writes};
use crate::{
    dry_run::copies::foreseen,
    explain::{CopyRow, FieldChange, field_changes},
    names::ObjectKey,
    plan::copy::{CopyWrite, SlotPlan},
    read::content::Contents,
};

/// The changed fields of an object, and whether the list is incomplete.
type Changes = (Vec<FieldChange>, bool);

/// Adds the changes of fields to the rows of objects that are changed, in one namespace or all. Returns a note if the API server refuses
/// dry runs.
pub(super) async fn compare(
    client: &Client,
    plans: &BTreeMap<ObjectKey, SlotPlan>,
    namespace: Option<&str>,
    outlooks: &mut [CopyRow],
) -> Option<String> {
    let changing: Vec<(ObjectKey, CopyWrite)> = writes(plans, namespace)
        .filter(|(slot, write)| slot.kind.data().is_none() && write.replaces.is_some() && !write.anew)
        .map(|(slot, write)| (slot.clone(), write.clone()))
        .collect();
    let contents = &Contents::new(client.clone());
    let answers: Vec<(ObjectKey, Result<Changes, String>)> = stream::iter(changing)
        .map(|(slot, write)| async move {
            let foreseen = foreseen(client, contents, &slot, &write).await;
            let changes = foreseen.map(|it| field_changes(slot.kind, &it.before, &it.after));
            (slot, changes)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let (mut found, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for (slot, answer) in answers {
        match answer {
            Ok(changes) => drop(found.insert(slot, changes)),
            Err(why) => drop(refused.insert(slot, why)),
        }
    }
    for outlook in outlooks {
        // A slot has a row for each rule that claims the slot, but only one of these rules writes it.
        if let Some(difference) = &mut outlook.difference
            && let Some((values, has_more)) = found.remove(&outlook.slot)
        {
            (difference.values, difference.has_more_values) = (values, has_more);
        }
    }
    let (first, why) = refused.first_key_value()?;
    let others = match refused.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(format!(
        "cannot show the changed fields of {first}{others}, because a dry run of the write failed: {why}"
    ))
}
