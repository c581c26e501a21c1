//! The trial of a template: the writes for one instance, which a dry run checks before the first object of a
//! new version of the template is written. A type error in one object also delays the instance's other
//! objects.

use jiff::Timestamp;

use super::{CopyAction, CopyWrite, SlotPlan, plan_slot};
use crate::{
    model::World,
    names::{NamespacedName, ObjectKey},
};

/// The writes that a trial checks.
#[derive(Debug)]
pub struct Trial {
    /// The template, by the name that it has among rules.
    pub template: NamespacedName,
    /// UID and generation of the template.
    pub version: (Box<str>, i64),
    /// The writes for one instance, with that of the planned slot.
    pub writes: Vec<(ObjectKey, Box<CopyWrite>)>,
}

/// Returns the trial that comes before the write of this plan; `None` if the plan writes no object of a template, or an instance of
/// this version of the template has passed its trial.
pub fn trial(world: &World, slot: &ObjectKey, plan: &SlotPlan, now: Timestamp) -> Option<Trial> {
    let Some(CopyAction::Write(write)) = &plan.action else { return None };
    let template = plan.rule.as_ref()?;
    let facts = world.templates().get(template)?;
    if world.memory().has_passed(template, (&facts.uid, facts.generation)) {
        return None;
    }
    let (_, _, set, _) = world.rendered_at(slot).find(|(declaring, instance, ..)| {
        let source = instance.object().unwrap_or_else(|| template.clone());
        *declaring == template
            && (source.namespace, source.name) == (write.source.namespace.clone(), write.source.name.clone())
    })?;
    let write_of = |slot: &ObjectKey| {
        let plan = plan_slot(world, slot, now);
        let Some(CopyAction::Write(write)) = plan.action.filter(|_| plan.rule.as_ref() == Some(template))
        else {
            return None;
        };
        Some((slot.clone(), write))
    };
    let writes = set.objects.iter().filter_map(|object| write_of(&object.slot)).collect();
    Some(Trial { template: template.clone(), version: (facts.uid.clone(), facts.generation), writes })
}
