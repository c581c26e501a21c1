//! Tells readiness which of the namespaces that we are to look at cannot be looked at.

use std::{
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use super::tasks::Tasks;
use crate::{model::World, serve::Readiness};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells it while we run. They keep nobody waiting: the others are served all the same.
pub(super) fn tell_sight(tasks: &mut Tasks, world: &Arc<RwLock<World>>, readiness: &Readiness) {
    let (world, condition, stop) = (world.clone(), readiness.remark("namespaces"), tasks.shutdown());
    tasks.spawn("sight", async move {
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

/// Why some of them are refused, if any; which have not been read yet the condition of the stores tells.
fn hidden(world: &World) -> Option<String> {
    let places = world.places()?;
    let refused = places.names().filter(|name| places.refusal(name).is_some());
    let why: Vec<String> = refused.filter_map(|name| Some(world.unseen(name)?.1)).collect();
    (!why.is_empty()).then(|| why.join("; "))
}
