//! Statuses that templates drive in circles: each template writes a field that the next template reads, and
//! the last template writes a field that the first template reads. Most circles come to rest. A circle that
//! does not come to rest would be written for ever, so its writes are delayed like the writes of copies that
//! somebody keeps changing ([`super::hold`]).

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    hold::{CALM, calm_from, contested_until, is_fought, is_over, repaired},
    inert::inert_template,
    templates::selects,
};
use crate::{
    marks::status_manager,
    model::{Repairs, StatusFault, StatusFaultKind, World},
    names::{Declarer, InstanceName},
    plan::at_after,
    validate::CompiledTemplate,
};

/// How many templates that write one status are examined, and how many fields of each: each examination locks
/// the world.
const MOST_BESIDE: usize = 16;
const MOST_FIELDS: usize = 64;
/// How many templates and fields a message names.
const MOST_NAMED: usize = 4;

/// One look at a status that a template writes, and whose values depend, through other templates, on the
/// template's earlier values.
#[derive(Debug)]
pub struct StatusTurn {
    template: Declarer,
    instance: InstanceName,
    /// The other templates of the circle.
    others: Vec<Declarer>,
    /// The names of the fields that the other templates write and this template reads.
    fields: BTreeSet<String>,
    /// The values of these fields, as a hash.
    written: u64,
    /// A digest of the template, and of the object without its status: when the digest changes, counting
    /// begins again.
    digest: String,
}

impl StatusTurn {
    /// Returns a look at this status; `seen` is the part of the object that expressions can read. `None` if
    /// the template is in no circle.
    pub fn of(world: &World, template: &Declarer, instance: &InstanceName, seen: &Value) -> Option<Self> {
        let facts = world.templates().get(template)?;
        let mut flows = flows_of(template, facts.compiled.as_deref().ok()?);
        flows.extend(beside(world, template, instance));
        let circling = circling(&flows);
        let turning = || flows.iter().filter(|flow| circling.contains(flow.to));
        let own = turning().filter(|flow| flow.template == template);
        let read = own.flat_map(|flow| flow.from.intersection(&circling));
        let fields: BTreeSet<String> = read.map(|field| (*field).to_owned()).collect();
        if fields.is_empty() {
            return None;
        }
        let others: BTreeSet<&Declarer> =
            turning().map(|flow| flow.template).filter(|other| *other != template).collect();
        let others = others.into_iter().cloned().collect();
        let mut written = DefaultHasher::new();
        for field in &fields {
            seen["status"].get(field).map(Value::to_string).hash(&mut written);
        }
        let mut rest = DefaultHasher::new();
        for (name, value) in seen.as_object().into_iter().flatten().filter(|(name, _)| *name != "status") {
            (name, value.to_string()).hash(&mut rest);
        }
        Some(Self {
            template: template.clone(),
            instance: instance.clone(),
            others,
            fields,
            written: written.finish(),
            digest: format!("{}/{}/{:x}", facts.uid, facts.generation, rest.finish()),
        })
    }

    /// Until when the reconciler does not write the status.
    pub fn braked(&self, world: &World, now: Timestamp) -> Option<Timestamp> {
        self.known(world, now).and_then(|repairs| contested_until(repairs, now))
    }

    /// Remembers this look, at which the status was written or was as it should be. Counts the write if the
    /// other templates have written new values since the last look.
    pub fn remember(&self, world: &mut World, is_written: bool, now: Timestamp) {
        let memory = world.memory();
        let before = memory.status(&self.template, &self.instance);
        let is_driven = before.is_some_and(|before| before.others() != self.written);
        let known = self.known(world, now).cloned();
        let repairs = match known {
            Some(known) if !(is_written && is_driven) => known,
            known if is_written && is_driven => repaired(known, &self.digest, false, now),
            _ => Repairs::none(&self.digest, now),
        };
        world.memory_mut().status_seen(&self.template, &self.instance, self.written, repairs);
    }

    /// The fault to report while the circle does not come to rest, and the time at which the fault ends if
    /// the circle comes to rest.
    pub fn fault(&self, world: &World, now: Timestamp) -> Option<(StatusFault, Timestamp)> {
        let repairs = self.known(world, now).filter(|repairs| is_fought(repairs))?;
        let named = |words: Vec<String>| {
            let more = words.len().saturating_sub(MOST_NAMED);
            let named = words.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
            if more == 0 { named } else { format!("{named} and {more} more") }
        };
        let fields = named(self.fields.iter().map(|field| format!("status.{field}")).collect());
        let others = named(self.others.iter().map(Declarer::said).collect());
        let message = format!(
            "this template reads {fields}, which {others} computes from this template's output, so each write causes the next one: \
             Copyrator slows these writes down to one in 5 minutes; let one of the templates read the spec or the objects instead"
        );
        let fault = StatusFault { kind: StatusFaultKind::Unstable, message };
        Some((
            fault,
            at_after(calm_from(repairs), CALM.unsigned_abs()).max(now + SignedDuration::from_secs(1)),
        ))
    }

    fn known<'w>(&self, world: &'w World, now: Timestamp) -> Option<&'w Repairs> {
        let repairs = world.memory().status(&self.template, &self.instance)?.repairs();
        (repairs.digest == self.digest && !is_over(repairs, now)).then_some(repairs)
    }
}

/// A status field that a template writes, and the status fields that its value comes from.
struct Flow<'w> {
    template: &'w Declarer,
    to: &'w str,
    from: BTreeSet<&'w str>,
}

fn flows_of<'w>(template: &'w Declarer, compiled: &'w CompiledTemplate) -> Vec<Flow<'w>> {
    let flows = compiled.status_flows().into_iter().filter(|(_, from)| !from.is_empty());
    flows.take(MOST_FIELDS).map(|(to, from)| Flow { template, to, from }).collect()
}

/// The fields that other templates have written into the status of an object, judging by the status. A
/// template never writes a field of another owner.
fn beside<'w>(world: &'w World, template: &Declarer, instance: &InstanceName) -> Vec<Flow<'w>> {
    let of = |name: &Declarer| world.templates().get(name).and_then(|facts| facts.compiled.as_deref().ok());
    let Some(kind) = of(template).and_then(CompiledTemplate::instance_kind) else { return Vec::new() };
    let object = instance.object().and_then(|name| world.instance(kind, &name));
    let Some(written) = object.map(|object| &object.status_written) else { return Vec::new() };
    let others = world.templates().iter().filter_map(|(name, facts)| {
        let compiled = facts.compiled.as_deref().ok().filter(|other| other.instance_kind() == Some(kind))?;
        let written = written.get(&*status_manager(name)).filter(|_| name != template)?;
        let acts = selects(world, name, compiled, instance) && inert_template(world, name, facts).is_none();
        let mut flows = flows_of(name, compiled);
        flows.retain(|flow| acts && written.contains(flow.to));
        (!flows.is_empty()).then_some(flows)
    });
    others.take(MOST_BESIDE).flatten().collect()
}

/// The fields that change only because of each other: the fields that remain after repeatedly removing each
/// field that no remaining field feeds, and each field that feeds no remaining field.
fn circling<'w>(flows: &[Flow<'w>]) -> BTreeSet<&'w str> {
    let mut left: BTreeSet<&str> = flows.iter().map(|flow| flow.to).collect();
    loop {
        let turning = || flows.iter().filter(|flow| left.contains(flow.to) && !flow.from.is_disjoint(&left));
        let driven: BTreeSet<&str> = turning().map(|flow| flow.to).collect();
        let driving: BTreeSet<&str> = turning().flat_map(|flow| flow.from.iter().copied()).collect();
        let still: BTreeSet<&str> = driven.intersection(&driving).copied().collect();
        if still.len() == left.len() {
            return left;
        }
        left = still;
    }
}
