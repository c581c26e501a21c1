//! Objects of files in a world.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{FileKind, FileObject};
use crate::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate},
    intake::{AsWritten, object::Slim, watched::Watched},
    model::{Declared, World},
    names::Declarer,
};

/// Adds an object to a world, as a watch does.
pub(crate) fn put(
    kind: FileKind,
    object: Value,
    world: &mut World,
    now: Timestamp,
) -> serde_json::Result<()> {
    fn taken<W: Watched + DeserializeOwned>(
        object: Value,
        world: &mut World,
        now: Timestamp,
    ) -> serde_json::Result<()> {
        serde_json::from_value::<W>(object)?.put(world, now);
        Ok(())
    }
    match kind {
        FileKind::ConfigMap => taken::<Slim<ConfigMap>>(object, world, now),
        FileKind::Secret => taken::<Slim<Secret>>(object, world, now),
        FileKind::Namespace => taken::<Namespace>(object, world, now),
        FileKind::Rule => taken::<AsWritten<CopyratorRule>>(object, world, now),
        FileKind::Monitor => taken::<AsWritten<ConfigMonitor>>(object, world, now),
        FileKind::Policy => taken::<AsWritten<ConfigPolicy>>(object, world, now),
        FileKind::Template => taken::<AsWritten<CopyratorTemplate>>(object, world, now),
    }
}

/// The object of the same kind and name in the world; `None` for kinds of which the world keeps no content.
pub(crate) fn existing(of: &FileObject, world: &World) -> Option<Value> {
    if of.kind == FileKind::Policy {
        return world.policies().get(&*of.name.name).map(written);
    }
    let declarer = of.kind.declarer(&of.name)?;
    match declarer {
        Declarer::Rule(_) => world.rules().get(&declarer).map(written),
        Declarer::Monitor(_) => world.monitors().get(&declarer).map(written),
        Declarer::Template(_) => world.templates().get(&declarer).map(written),
        Declarer::Annotated(_) => None,
    }
}

fn written<S: Serialize, C, T: Serialize>(facts: &Declared<S, C, T>) -> Value {
    json!({
        "metadata": {
            "uid": facts.uid,
            "resourceVersion": facts.resource_version,
            "generation": facts.generation,
            "creationTimestamp": facts.created.to_string(),
            "annotations": facts.annotations,
        },
        "spec": facts.spec,
        "status": facts.status,
    })
}
