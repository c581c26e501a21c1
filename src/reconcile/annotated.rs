//! A rule that annotations of its source declare: what there is to say of it becomes Events on the source, and what was
//! granted is written there.

use super::{Again, Reconciler, now};
use crate::{
    act::outcome::Outcome,
    api::CopyratorRuleStatus,
    marks::AUTHORIZED,
    model::{NamespacedName, ObjectKey},
    plan::{Key, News, Version, news, rule_report},
};

/// A proof to be written on a source.
struct Grant {
    version: Version,
    proof: String,
    identity: String,
}

impl Reconciler {
    pub(super) async fn annotated_status(
        &self,
        key: &Key,
        rule: &NamespacedName,
        source: &ObjectKey,
    ) -> Again {
        if let Some(wait) = self.too_soon(key) {
            return Again::After(wait);
        }
        let (report, uid) = {
            let world = self.world();
            let Some(facts) = world.rules.get(rule) else {
                self.tallies.set(rule, None);
                return self.forget_status(key);
            };
            (rule_report(&world, rule, now()), facts.uid.clone())
        };
        let Some((after, tally)) = report else { return Again::OnChange };
        self.tallies.set(rule, Some(tally));
        let (before, grant) = {
            let world = &mut *self.world_mut();
            let version = world.object(source).map(Version::of);
            let facts = world.rules.get_mut(rule);
            let Some(facts) =
                facts.filter(|it| it.uid == uid && Some(it.generation) == after.observed_generation)
            else {
                // It changed meanwhile, and is looked at again for that.
                return Again::OnChange;
            };
            let written = facts.annotations.get(AUTHORIZED);
            let proof = after.authorized_proof.clone().filter(|proof| Some(proof) != written);
            // What speaks of an earlier text is no proof of this one, and none of our granting it.
            let is_allowed =
                after.conditions.iter().any(|one| one.type_ == "Authorized" && one.status == "True");
            let grant = proof.zip(version).filter(|_| is_allowed).map(|(proof, version)| {
                let identity = after.identity.clone().unwrap_or_default();
                Grant { version, proof, identity }
            });
            let before: CopyratorRuleStatus = facts.status.replace(after.clone()).unwrap_or_default();
            (before, grant)
        };
        for news in news(&before, &after) {
            self.told(key);
            self.reporter.news(rule, news).await;
        }
        match grant {
            Some(grant) => self.write_grant(key, rule, source, grant).await,
            None => Again::OnChange,
        }
    }

    async fn write_grant(&self, key: &Key, rule: &NamespacedName, source: &ObjectKey, grant: Grant) -> Again {
        match self.copies.grant(source, &grant.version, &grant.proof).await {
            Outcome::Done => {
                self.told(key);
                let message = format!("{} may do what the annotations declare", grant.identity);
                self.reporter.news(rule, News { warns: false, reason: "Allowed", message }).await;
                Again::OnChange
            }
            Outcome::NotLeading | Outcome::NamespaceGone => Again::OnChange,
            // The watch is about to tell of another version.
            Outcome::Stale => Again::Backoff(None),
            Outcome::Retry { after, message } => {
                tracing::warn!(%source, %message, "cannot write what was granted");
                Again::Backoff(after)
            }
            // Nothing is lost: whoever wrote the annotations is asked again after the next start.
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                self.told(key);
                tracing::warn!(%source, %message, "what was granted could not be written");
                Again::Refused
            }
        }
    }
}
