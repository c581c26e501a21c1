//! What was read of objects that a template has made, for those of its expressions that read them. It lasts as long as one
//! rendering, and reaches no formatter.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;

use crate::{
    act::outcome::{brief, lacking},
    model::World,
    names::{InstanceName, NamespacedName, ObjectKey},
    observe::made::{ReadError, object, pods},
    plan::copy::templates::made,
};

/// Objects that expressions read and that have not been looked for, and whether their pods are read, too.
pub(super) type Lacking = BTreeMap<ObjectKey, bool>;

/// Objects that were looked for, and pods.
#[derive(Default)]
pub(super) struct Existing {
    /// `None` where there is no such object of the template's.
    pub(super) objects: BTreeMap<ObjectKey, Option<Value>>,
    /// The pods of workloads among them.
    pub(super) pods: BTreeMap<ObjectKey, Vec<Value>>,
    /// Whether pods are read another time: they were a moment ago.
    pub(super) pods_later: bool,
    /// Why those could not be read that could not.
    pub(super) unread: BTreeMap<ObjectKey, String>,
    /// The same of pods.
    pub(super) unread_pods: BTreeMap<ObjectKey, String>,
}

impl Existing {
    /// Of what is lacking, what there is, with UIDs. The rest counts as absent from here on: it is not there yet, or
    /// somebody else's.
    pub(super) fn of(
        &mut self,
        world: &World,
        template: &NamespacedName,
        instance: &InstanceName,
        lacking: Lacking,
    ) -> Vec<(ObjectKey, String, bool)> {
        let mut there = Vec::new();
        for (slot, reads_pods) in lacking {
            match made(world, template, instance, &slot) {
                Some(facts) => there.push((slot, facts.uid.to_string(), reads_pods)),
                None => drop(self.objects.insert(slot, None)),
            }
        }
        there
    }

    /// Reads these objects by name and UID, and the pods of the workloads among them that are asked for. Returns what could not be
    /// read; the rest is.
    pub(super) async fn read(
        &mut self,
        client: &Client,
        there: Vec<(ObjectKey, String, bool)>,
    ) -> Vec<ReadError> {
        let mut errors = Vec::new();
        for (slot, uid, reads_pods) in there {
            let found = match object(client, &slot, &uid).await {
                Ok(found) => found,
                Err(error) => {
                    self.unread.insert(slot, why(&error));
                    errors.push(error);
                    continue;
                }
            };
            if let (Some(workload), true) = (&found, reads_pods) {
                match pods(client, &slot, workload).await {
                    Ok(pods) => drop(self.pods.insert(slot.clone(), pods)),
                    Err(error) => {
                        self.unread_pods.insert(slot.clone(), why(&error));
                        errors.push(error);
                    }
                }
            }
            self.objects.insert(slot, found);
        }
        errors
    }

    /// Takes what could not be read for absent.
    pub(super) fn forgive(&mut self) {
        let unread = std::mem::take(&mut self.unread).into_keys();
        let pods = std::mem::take(&mut self.unread_pods).into_keys();
        unread.chain(pods).for_each(|slot| drop(self.objects.insert(slot, None)));
    }

    /// Whether something could not be read.
    pub(super) fn is_lacking(&self) -> bool {
        !self.unread.is_empty() || !self.unread_pods.is_empty()
    }
}

/// What was attempted and why it failed, with the way out.
fn why(error: &ReadError) -> String {
    match error {
        ReadError::Read(_, source) => match lacking(source) {
            Some(right) => format!("{error}: {right}"),
            None => format!("{error}: {}; it is tried again", brief(source)),
        },
        ReadError::TooLarge(_) => error.to_string(),
        ReadError::Timeout(_) => format!("{error}; it is tried again"),
    }
}
