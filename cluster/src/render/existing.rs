//! Objects that a template has made, read for its expressions. The objects last as long as one rendering, and
//! reach no formatter.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;

use crate::{
    dry_run::outcome::{brief, lacking},
    model::World,
    names::{Declarer, InstanceName, ObjectKey},
    plan::copy::templates::made,
    read::made::{ReadError, object, pods},
};

/// Objects that expressions read and that have not been looked for yet, and whether their pods are read, too.
pub(super) type Lacking = BTreeMap<ObjectKey, bool>;

/// Objects that were looked for, and their pods.
#[derive(Default)]
pub struct Existing {
    /// The objects by key; `None` for an object that the template does not have.
    pub objects: BTreeMap<ObjectKey, Option<Value>>,
    /// The pods of the workloads among the objects.
    pub pods: BTreeMap<ObjectKey, Vec<Value>>,
    /// Whether this rendering reads no pods, since they were read a moment ago.
    pub pods_later: bool,
    /// Why objects could not be read.
    pub unread: BTreeMap<ObjectKey, String>,
    /// Why pods of workloads could not be read.
    pub unread_pods: BTreeMap<ObjectKey, String>,
}

impl Existing {
    /// Returns the lacking objects that exist, with UIDs. All other lacking objects are treated as absent:
    /// they do not exist yet, or do not belong to the template.
    pub fn of(
        &mut self,
        world: &World,
        template: &Declarer,
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

    /// Reads these objects by name and UID, and the requested pods of workloads in the list. Returns the
    /// errors of failed reads.
    pub async fn read(&mut self, client: &Client, there: Vec<(ObjectKey, String, bool)>) -> Vec<ReadError> {
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

    /// Treats unread objects as absent.
    pub(super) fn forgive(&mut self) {
        let unread = std::mem::take(&mut self.unread).into_keys();
        let pods = std::mem::take(&mut self.unread_pods).into_keys();
        unread.chain(pods).for_each(|slot| drop(self.objects.insert(slot, None)));
    }

    /// Whether something could not be read.
    pub fn is_lacking(&self) -> bool {
        !self.unread.is_empty() || !self.unread_pods.is_empty()
    }
}

/// Describes what was attempted, why it failed, and the remedy.
fn why(error: &ReadError) -> String {
    match error {
        ReadError::Read(_, source) => match lacking(source) {
            Some(right) => format!("{error}: {right}"),
            None => format!("{error}: {}; Copyrator tries again", brief(source)),
        },
        ReadError::TooLarge(_) => error.to_string(),
        ReadError::Timeout(_) => format!("{error}; Copyrator tries again"),
    }
}
