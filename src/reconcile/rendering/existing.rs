//! What was read of objects that a template has made, for those of its expressions that read them. It lasts as long as one
//! rendering, and reaches no formatter.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;

use crate::{
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
}

impl Existing {
    /// Of what is lacking, what there is, with UIDs. The rest counts as absent from here on: it is not there yet, or
    /// somebody else's.
    pub(super) fn of(
        &mut self,
        world: &World,
        (template, instance): (&NamespacedName, &InstanceName),
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

    /// Reads these objects by name and UID, and the pods of the workloads among them that are asked for.
    pub(super) async fn read(
        &mut self,
        client: &Client,
        there: Vec<(ObjectKey, String, bool)>,
    ) -> Result<(), ReadError> {
        for (slot, uid, reads_pods) in there {
            let found = object(client, &slot, &uid).await?;
            if let (Some(workload), true) = (&found, reads_pods) {
                self.pods.insert(slot.clone(), pods(client, &slot, workload).await?);
            }
            self.objects.insert(slot, found);
        }
        Ok(())
    }
}
