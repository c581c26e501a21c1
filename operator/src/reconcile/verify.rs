//! The sweep by content: reads every copy now and then, page by page, while no more urgent key waits.
//! Metadata does not show that somebody writes under our own field manager, or writes managedFields back.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::time::Instant;

use super::{
    Lane,
    context::{Context, now},
};
use crate::{
    model::Bytes,
    names::{Kind, ObjectKey},
    observe::pages::page,
    plan::{
        Key,
        copy::{SlotState, plan_slot, settle_compared},
    },
    read::content::{Content, ContentError},
};

/// Maximum number of copies on a page. A page also has at most [`PAGE_BYTES`], estimated by the largest
/// source.
const PAGE: u64 = 100;
const PAGE_BYTES: Bytes = Bytes(8 << 20);
/// Pause between two pages. The walk must end before the API server forgets where the list began (5 minutes).
const BREATH: Duration = Duration::from_millis(100);
/// Time after which a walk does not wait for more urgent keys any more.
pub(super) const GIVES_WAY_IN_ALL: Duration = Duration::from_secs(120);
/// Maximum number of pauses before a page while more urgent keys wait.
const GIVES_WAY: u32 = 100;

/// Compares copies with their sources by content.
pub(super) struct Verifier {
    pub(super) context: Context,
    pub(super) client: Client,
}

impl Verifier {
    /// Compares every copy with its source by content, and queues the copies that differ. Objects that
    /// templates declare are queued in any case: the API server reports whether they differ.
    pub(super) async fn verify(&self) {
        // A process that may not list a kind everywhere lists the kind in each namespace.
        let places: Vec<Option<Arc<str>>> = {
            let world = self.context.world();
            match world.namespace_scope() {
                None => vec![None],
                Some(_) => world.namespaces().keys().cloned().map(Some).collect(),
            }
        };
        let kinds: Vec<Kind> = self.context.world().settings().copied_kinds().collect();
        let doubted = self.context.world_mut().doubt_declared();
        for slot in doubted {
            self.context.queue().add(Key::Slot(slot), Lane::Sweep);
        }
        let is_known = |kind: &Kind| self.context.world().granted_read(*kind).is_known();
        for kind in kinds.into_iter().filter(|kind| kind.is_copied() && is_known(kind)) {
            for place in &places {
                let namespace = place.as_deref();
                match self.verify_kind(kind, namespace).await {
                    Ok((seen, differ)) => {
                        tracing::info!(%kind, namespace, seen, differ, "compared the copies with their sources")
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(%kind, namespace, error, "could not compare all copies with their sources");
                    }
                }
            }
        }
    }

    async fn verify_kind(&self, kind: Kind, namespace: Option<&str>) -> Result<(usize, usize), ContentError> {
        let (mut seen, mut differ, mut next) = (0, 0, None);
        let begun = Instant::now();
        loop {
            // A sweep that has paused for long must hurry. A sweep that always gives way would begin anew
            // each time and never end.
            if begun.elapsed() < GIVES_WAY_IN_ALL {
                give_way(&self.context).await;
            }
            let page = page(&self.client, kind, namespace, self.page_size(), next.as_deref()).await?;
            seen += page.copies.len();
            for (slot, content) in &page.copies {
                self.wait_until_complete().await;
                differ += usize::from(self.differs(slot, content));
            }
            next = page.next;
            if next.is_none() {
                return Ok((seen, differ));
            }
        }
    }

    /// Waits until every store is listed, since no copy can be judged before.
    async fn wait_until_complete(&self) {
        while !self.context.world().is_complete() {
            tokio::time::sleep(BREATH).await;
        }
    }

    /// Whether a copy's content requires an action; if so, the copy is queued.
    fn differs(&self, slot: &ObjectKey, content: &Content) -> bool {
        let world = &mut *self.context.world_mut();
        let Some(key) = world.key().filter(|_| world.is_complete()) else { return false };
        let print = content.fingerprint(key);
        let is_current = world
            .object(slot)
            .is_some_and(|facts| facts.uid == print.uid && facts.resource_version == print.resource_version);
        if world.object(slot).is_some_and(|facts| facts.drift().is_doubt()) {
            return false;
        }
        // An event will follow for a copy that is newer than our watch. A version whose fingerprint is known
        // was already planned with this fingerprint.
        if !is_current || world.fingerprint(slot).is_some() {
            return false;
        }
        world.assume_fingerprint(slot, print);
        let plan = plan_slot(world, slot, now());
        let differs = plan.action.is_some() || !plan.needs.is_empty();
        if differs {
            self.context.queue().add(Key::Slot(slot.clone()), Lane::Sweep);
        } else {
            if matches!(plan.state, SlotState::Altered(_)) {
                settle_compared(world, slot);
            }
            world.forget_fingerprint(slot);
        }
        differs
    }

    fn page_size(&self) -> u32 {
        let world = self.context.world();
        let sources =
            world.fingerprints().filter(|(key, _)| world.copies_of_source(&key.named()).next().is_some());
        let sizes = sources.map(|(_, print)| print.size()).chain(world.rendered_sizes());
        let largest = sizes.max().unwrap_or_default();
        (PAGE_BYTES.0 / largest.max(1)).clamp(1, PAGE) as u32
    }
}

/// Waits for a while as long as more urgent keys wait.
pub(super) async fn give_way(context: &Context) {
    for _ in 0..GIVES_WAY {
        tokio::time::sleep(BREATH).await;
        if context.queue().is_calm() {
            return;
        }
    }
}
