//! Decides which of several claims gets a slot.

use super::{claims::Claim, demand::too_many_claimed, inert::Inert, rights::is_refused};
use crate::{model::World, names::Declarer};

/// The rule that a slot belongs to: the rule that the copy's mark names, as long as that rule claims the
/// slot; for a free slot the oldest rule, then the alphabetically first. A rule whose identity was refused
/// loses its copies to a rule that writes. An inert rule does not get a free slot before a rule that writes.
/// An inert rule does not keep an orphaned copy of a different rule either: a user without permission in that
/// namespace could keep the copy for good by writing such a rule. The reconciler waits for a rule about whose
/// rights the API server has not answered yet; otherwise the response times of the API server would decide.
/// The reconciler does not wait for a rule whose question is put off (the API server refused too many
/// questions of its namespace): a user with many refused rules would keep the slot free for good.
pub(super) fn winner<'c, 'w>(
    world: &World,
    claims: &'c [Claim<'w>],
    holder: Option<&Declarer>,
) -> Option<&'c Claim<'w>> {
    let held = claims.iter().find(|claim| Some(claim.rule) == holder);
    let stands_back = |claim: &Claim<'_>| match claim.inert(world) {
        Some(Inert::Unauthorized) => {
            claim.authority(world).is_some() || world.memory().is_put_off(claim.rule)
        }
        Some(_) => true,
        None => too_many_claimed(world, claim).is_some(),
    };
    let first = || match claims {
        [only] => Some(only),
        claims => claims.iter().min_by_key(|claim| (stands_back(claim), claim.created(), claim.rule)),
    };
    let may = |claim: &Claim<'_>| claim.inert(world).is_none() && !stands_back(claim);
    let held = held.filter(|held| !is_refused(world, held.rule) || !claims.iter().any(may));
    held.or_else(|| first().filter(|claim| holder.is_none() || !stands_back(claim)))
}
