//! What is others' stays theirs: who makes a namespace anew, who takes rights back, who says what may be written.

use std::{cell::Cell, collections::BTreeSet};

use copyrator::{
    marks,
    model::WriteFault,
    names::{NamespacedName, ObjectKey},
};
use proptest::{collection::vec, prelude::*};

use super::{
    LONG, always,
    cluster::Cluster,
    copy_model::stored::{Field, Fields, Stored},
    events::{Event, NAMESPACES, owners_story, policies_story},
    none,
    operator::Operator,
    oracle::{Wish, copy_of},
    play,
    rules::{RULES, rule_name},
};

impl Cluster {
    /// Copies of what is in a namespace, or in one, in which their rule's identity never had a right: it had some in another
    /// namespace of that name.
    fn usurped(&self) -> Vec<String> {
        let usurped = |(key, object): (&ObjectKey, &Stored)| {
            let (rule, true) = copy_of(key, object)? else { return None };
            let granted = self.granted.get(&rule)?;
            let source = object.annotations().get(marks::SOURCE_UID)?.parse().ok();
            let is_usurped = |uid: u64| self.born.get(&uid).is_some_and(|place| !granted.contains(place));
            (source.is_some_and(is_usurped) || is_usurped(object.uid))
                .then(|| format!("{key}: {rule} was never allowed that, {:?}", object.annotations()))
        };
        self.server.objects.iter().filter_map(usurped).collect()
    }

    /// Copies that have another content than before, by a rule whose identity may read no more where their source is. `withheld`
    /// counts those that would have another one.
    fn leaked(&self, before: &Self, withheld: &Cell<usize>) -> Vec<String> {
        let leaked = |(slot, object): (&ObjectKey, &Stored)| {
            let (rule, true) = copy_of(slot, object)? else { return None };
            let source = NamespacedName::parse(object.annotations().get(marks::SOURCE)?)?;
            if source.namespace == *rule.namespace() || self.server.may(&rule, &source.namespace) {
                return None;
            }
            let is_newer = |wish: &Wish<'_>| {
                *wish.name == rule && !wish.rule.suspend && data_of(&wish.content(self)) != data(object)
            };
            withheld.set(withheld.get() + usize::from(self.wishes(slot).iter().any(is_newer)));
            let same = before.server.objects.get(slot).is_some_and(|old| data(old) == data(object));
            (!same).then(|| format!("{slot}: {rule} may read {source} no more, and yet copied it"))
        };
        self.server.objects.iter().filter_map(leaked).collect()
    }

    /// Copies of what a policy refuses that have come in since, or that were changed though it refuses what they would be.
    fn smuggled(&self, before: &Self, kept: &Cell<usize>) -> Vec<String> {
        let smuggled = |(slot, object): (&ObjectKey, &Stored)| {
            copy_of(slot, object).filter(|_| self.refuses(slot, &object.values))?;
            // What it broke before, the write has let alone.
            let stood = before.server.objects.get(slot).is_some_and(|old| self.refuses(slot, &old.values));
            (!stood).then(|| format!("{slot} came in: {}", object.text()))
        };
        let changed = |(slot, old): (&ObjectKey, &Stored)| {
            let (rule, true) = copy_of(slot, old)? else { return None };
            let wishes = self.wishes(slot);
            let wish = wishes.iter().find(|wish| *wish.name == rule && !self.is_inert(wish.name))?;
            // What a policy finds by a label of the object as it is, it judges, too.
            let mut wanted = labels(old);
            wanted.extend(wish.content(self));
            let is_refused = self.refuses(slot, &wanted) && !self.refuses(slot, &old.values);
            if !is_refused || old.deleting || before.wishers(slot) != self.wishers(slot) {
                return None;
            }
            kept.set(kept.get() + 1);
            let same = self.server.objects.get(slot).is_some_and(|new| data(new) == data(old));
            (!same).then(|| format!("{slot} did not stay as it was: {}", old.text()))
        };
        let came = self.server.objects.iter().filter_map(smuggled);
        came.chain(before.server.objects.iter().filter_map(changed)).collect()
    }
}

fn data(object: &Stored) -> Fields {
    data_of(&object.values)
}

fn data_of(fields: &Fields) -> Fields {
    some_of(fields, |field| matches!(field, Field::Data(_) | Field::Binary(_)))
}

fn labels(object: &Stored) -> Fields {
    some_of(&object.values, |field| matches!(field, Field::Label(_)))
}

fn some_of(fields: &Fields, is_one: fn(&Field) -> bool) -> Fields {
    let some = fields.iter().filter(|(field, _)| is_one(field));
    some.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// A namespace is deleted and made anew for somebody else: what was allowed in the first is not in the second, whether one
/// process sees it or the next; and with rights in it, it gets its copies. A right to read elsewhere ends where it is taken back.
#[test]
fn a_grant_ends_with_the_namespace_that_gave_it() {
    let (refused, withheld) = (Cell::new(0), Cell::new(0));
    always((owners_story(), vec(any::<bool>(), 1..20)), |(story, restarts)| {
        let mut cluster = Cluster::default();
        let everywhere: BTreeSet<String> = NAMESPACES.map(str::to_owned).into();
        cluster.server.rights = (0..RULES.len()).map(|rule| (rule_name(rule), everywhere.clone())).collect();
        let start = |cluster: &mut Cluster| {
            let mut operator = Operator::start(&mut cluster.server);
            operator.asks_seldom = true;
            operator
        };
        let mut operator = start(&mut cluster);
        let mut restarts = restarts.iter().cycle();
        for event in &story {
            cluster.happen(event);
            let Event::Pass(seconds) = event else { continue };
            let before = cluster.clone();
            if restarts.next() == Some(&true) {
                operator = start(&mut cluster);
            }
            operator.settle(&mut cluster, &mut || true).unwrap();
            cluster.happen(&Event::Pass(0));
            none(&cluster.usurped())?;
            // By then it has been asked again.
            if *seconds > 30 {
                none(&cluster.leaked(&before, &withheld))?;
            }
            let answers = operator.world.rules().keys();
            let answers = answers.filter_map(|rule| operator.world.rule_authority(rule));
            refused.set(refused.get() + answers.filter(|known| known.answer.is_err()).count());
        }
        cluster.server.rights.clear();
        cluster.server.answers.clear();
        cluster.happen(&LONG);
        let before = cluster.clone();
        operator.settle(&mut cluster, &mut || true).unwrap();
        none(&cluster.wrong(&before))
    });
    assert!(refused.get() > 0, "nobody was ever refused: this test looks at nothing");
    assert!(withheld.get() > 0, "nothing was ever withheld: this test looks at nothing");
}

/// What a policy refuses does not come in as a copy, and the copy that is there stays; without the policy it comes at once.
#[test]
fn what_a_policy_refuses_comes_in_by_no_copy() {
    let (refused, kept) = (Cell::new(0), Cell::new(0));
    always(policies_story(), |story| {
        let (mut cluster, mut operator) = play(&story, |before, cluster, operator| {
            let attempts = operator.world.memory().attempts();
            let by_policy = attempts.filter(|(_, last)| last.reason == WriteFault::RefusedByPolicy).count();
            refused.set(refused.get() + by_policy);
            none(&cluster.smuggled(before, &kept))
        })?;
        for policy in cluster.policies.clone().into_keys() {
            cluster.happen(&Event::Policy(policy, None));
        }
        let before = cluster.clone();
        operator.settle(&mut cluster, &mut || true).unwrap();
        none(&cluster.wrong(&before))
    });
    assert!(refused.get() > 0 && kept.get() > 0, "nothing was refused or kept: this test looks at nothing");
}
