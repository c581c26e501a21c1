//! A readiness remark about namespaces of `--namespaces` that cannot be read.

use std::{
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use crate::{
    model::World,
    serve::{Readiness, tasks::Tasks},
};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reports unreadable namespaces while the process runs. Unreadable namespaces do not affect readiness, since
/// the process still serves the readable namespaces.
pub(super) fn report_unreadable(tasks: &mut Tasks, world: &Arc<RwLock<World>>, readiness: &Readiness) {
    let (world, condition, stop) = (world.clone(), readiness.remark("namespaces"), tasks.shutdown());
    tasks.spawn("namespaces", async move {
        while !stop.is_cancelled() {
            let why = hidden(&world.read().unwrap_or_else(PoisonError::into_inner));
            condition.set(why.map_or(Ok(()), Err));
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        Ok::<(), Infallible>(())
    });
}

/// Returns why the API server refuses some of the namespaces; `None` without a refusal. Namespaces that are
/// not read yet are in the condition `stores`.
fn hidden(world: &World) -> Option<String> {
    let places = world.namespace_scope()?;
    let refused = places.names().filter(|name| places.refusal(name).is_some());
    let why: Vec<String> = refused.filter_map(|name| Some(world.unseen(name)?.1)).collect();
    (!why.is_empty()).then(|| why.join("; "))
}
