//! Processors for expressions. A tenant evaluates one rendering at a time, and all tenants together use half
//! of the processors, so that the expressions of one tenant leave processors to other tenants and to
//! everything else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex as Turn, Semaphore},
    task::spawn_blocking,
};

/// The processors that evaluate expressions, and the turns of tenants.
pub(crate) struct Processor {
    places: Semaphore,
    /// The turn of each tenant that evaluates a rendering, or waits for a processor.
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn<()>>>>,
}

impl Default for Processor {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, |number| number.get());
        Self { places: Semaphore::new((processors / 2).max(1)), turns: Mutex::default() }
    }
}

impl Processor {
    /// Runs `work` on a separate thread, when its tenant has the turn. Returns the result and the duration of
    /// the work; the result is `None` after a panic.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (Option<T>, Duration) {
        let turn = self.turn(tenant);
        let _turn = turn.lock().await;
        // At most one rendering of each tenant waits for a place, so that tenants have turns.
        let _place = self.places.acquire().await;
        let begun = Instant::now();
        let result = spawn_blocking(work).await.ok();
        (result, begun.elapsed())
    }

    fn turn(&self, tenant: &Arc<str>) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(tenant.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::task::JoinSet;

    use super::*;

    /// As many renderings of one tenant as there are workers wait for each other, and not the one of another tenant for them.
    #[tokio::test]
    async fn the_renderings_of_one_tenant_stand_in_one_line() {
        let processor = Arc::new(Processor { places: Semaphore::new(1), turns: Mutex::default() });
        let ((begin, begun), (done, order)) = (channel::<()>(), channel());
        let run = |all: &mut JoinSet<_>, tenant: &str, work: Box<dyn FnOnce() + Send>| {
            let (processor, tenant) = (processor.clone(), Arc::from(tenant));
            all.spawn(async move { processor.run(&tenant, work).await });
        };
        let waits = |tenant: &'static str, others: usize| {
            let processor = processor.clone();
            async move {
                let count = |turns: &BTreeMap<Arc<str>, Arc<Turn<()>>>| {
                    turns.get(tenant).map_or(0, Arc::strong_count)
                };
                while count(&processor.turns.lock().unwrap()) < others + 1 {
                    tokio::task::yield_now().await;
                }
            }
        };
        let mut all = JoinSet::new();
        run(&mut all, "loud", Box::new(move || begun.recv().unwrap()));
        waits("loud", 1).await;
        for number in 1..16 {
            let done = done.clone();
            run(&mut all, "loud", Box::new(move || done.send("loud").unwrap()));
            waits("loud", number + 1).await;
        }
        run(&mut all, "quiet", Box::new(move || done.send("quiet").unwrap()));
        waits("quiet", 1).await;
        begin.send(()).unwrap();
        all.join_all().await;
        let order: Vec<&str> = order.iter().collect();
        assert_eq!((order.len(), order[0]), (16, "quiet"));
        assert!(processor.turn(&"other".into()).try_lock().is_ok());
        assert_eq!(processor.turns.lock().unwrap().len(), 1, "what nobody waits for is forgotten");
    }
}
