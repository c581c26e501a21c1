//! What must be so when the operator has come to rest, stated naively from DESIGN §3.1: nothing of the planner is
//! used, and every world is small enough to look everywhere.

use std::collections::BTreeSet;

use copyrator::{
    marks,
    names::{Declarer, NamespacedName, ObjectKey},
};

use super::{
    cluster::Cluster,
    copy_model::{
        acting::{at, digest_key},
        server::Answer,
        stored::{Field, Fields, Stored},
    },
    rules::Rule,
};

/// One rule's wish for a slot.
pub struct Wish<'c> {
    pub name: &'c Declarer,
    pub rule: &'c Rule,
    /// Everything that it would copy there, the oldest first.
    sources: Vec<&'c ObjectKey>,
}

impl Wish<'_> {
    /// What the copy would hold.
    pub fn content(&self, cluster: &Cluster) -> Fields {
        self.rule.wants(&cluster.server.objects[self.source(None)])
    }

    /// What is copied: what the copy that is there was made of, else the oldest.
    fn source(&self, copy: Option<&Stored>) -> &ObjectKey {
        let annotations = copy.map(Stored::annotations).unwrap_or_default();
        let is_its = annotations.get(marks::RULE) == Some(&self.name.to_string());
        let named = annotations.get(marks::SOURCE).filter(|_| is_its);
        let has_it = |source: &&&ObjectKey| named == Some(&source.named().to_string());
        self.sources.iter().find(has_it).unwrap_or(&self.sources[0])
    }
}

/// The rule that an object is a copy for, and whether its proof is of the key we have: with that key lost, the labels
/// must do, which only we may write. What says that it is another object is none.
pub fn copy_of(key: &ObjectKey, object: &Stored) -> Option<(Declarer, bool)> {
    let annotations = object.annotations();
    let itself = marks::in_clear(key.kind, &key.namespace, &key.name);
    if annotations.get(marks::OBJECT).is_some_and(|object| *object != itself) {
        return None;
    }
    let rule = Declarer::parse(annotations.get(marks::RULE)?)?;
    NamespacedName::parse(annotations.get(marks::SOURCE)?)?;
    let mark = annotations.get(marks::MARK)?;
    let is_of_our_key = mark.split_once('.')?.0 == digest_key().id();
    let labels = object.labels();
    let is_labelled = labels.get(marks::RULE_LABEL) == Some(&marks::rule_label(&rule))
        && labels.get(marks::MANAGED_BY).is_some_and(|by| by == marks::MANAGED_BY_VALUE);
    let is_proven = *mark == digest_key().mark(key, &rule);
    (is_proven || (!is_of_our_key && is_labelled)).then_some((rule, is_proven))
}

impl Cluster {
    /// Writes nothing at present.
    pub fn is_inert(&self, name: &Declarer) -> bool {
        let may = self.server.answers.get(name).is_none_or(|answer| *answer == Answer::Allowed)
            && self.server.allows(name);
        self.rules.get(name).is_some_and(|rule| rule.suspend || rule.is_broken() || !may)
    }

    /// Has been refused what it declares, so that it gives its copies up to a rule that may.
    fn is_refused(&self, name: &Declarer) -> bool {
        let acts = self.rules.get(name).is_some_and(|rule| !rule.suspend && !rule.is_broken());
        acts && self.is_inert(name) && self.server.answers.get(name) != Some(&Answer::Unasked)
    }

    /// Takes no free slot from another rule; a rule that has not been asked about yet is waited for.
    fn stands_back(&self, name: &Declarer) -> bool {
        let is_unasked = self.server.answers.get(name) == Some(&Answer::Unasked);
        let writes_nothing = self.rules.get(name).is_some_and(|rule| rule.suspend || rule.is_broken());
        writes_nothing || (self.is_inert(name) && !is_unasked)
    }

    /// Some rule copies it, or may mean to that nobody understands.
    pub fn is_source(&self, key: &ObjectKey, object: &Stored) -> bool {
        let copies = |(name, rule): (&Declarer, &Rule)| match rule.is_broken() {
            // What an object's own annotations say is of that object alone, whatever they mean.
            true => {
                rule.annotated.as_ref().map_or_else(|| rule.looks_in(name, &key.namespace), |own| own == key)
            }
            false => rule.copies(name, key, object),
        };
        copy_of(key, object).is_none() && self.rules.iter().any(copies)
    }

    /// Every rule's wish for a slot.
    pub fn wishes(&self, slot: &ObjectKey) -> Vec<Wish<'_>> {
        let Some(namespace) = self.server.namespaces.get(&*slot.namespace) else { return Vec::new() };
        let refuses = namespace.labels.contains_key(marks::COPIES);
        if namespace.terminating || refuses || &*slot.namespace == "kube-system" {
            return Vec::new();
        }
        let wish = |(name, rule): (_, &'_ Rule)| {
            let is_it = |(key, object): &(&ObjectKey, &Stored)| {
                key.namespace != slot.namespace
                    && rule.copies(name, key, object)
                    && copy_of(key, object).is_none()
                    && rule.slot(key, &slot.namespace) == *slot
            };
            let mut sources: Vec<_> = self.server.objects.iter().filter(is_it).map(|(key, _)| key).collect();
            sources.sort_by_key(|key| self.server.objects[*key].uid);
            let is_wish = !sources.is_empty() && !rule.is_broken() && rule.takes(&slot.namespace, namespace);
            is_wish.then_some((name, sources))
        };
        let wish = |(name, rule)| wish((name, rule)).map(|(name, sources)| Wish { name, rule, sources });
        self.rules.iter().filter_map(wish).collect()
    }

    /// The rules with a wish for a slot. They change while the operator works where a copy is let go: it may be a source
    /// for another rule, and what comes of it is a matter of order.
    pub fn wishers(&self, slot: &ObjectKey) -> Vec<&Declarer> {
        self.wishes(slot).into_iter().map(|wish| wish.name).collect()
    }

    /// Everything that is not as it should be after the operator has come to rest on what was there before.
    pub fn wrong(&self, before: &Self) -> Vec<String> {
        self.wrong_but_for(before, |_| false)
    }

    /// The same, but for orphaned copies in slots where a removal may be late, by `is_late`.
    pub fn wrong_but_for(&self, before: &Self, is_late: impl Fn(&ObjectKey) -> bool) -> Vec<String> {
        let places = self.server.namespaces.keys();
        let sources = || self.server.objects.keys();
        let slots = self.rules.values().flat_map(|rule| {
            places.clone().flat_map(move |place| sources().map(move |source| rule.slot(source, place)))
        });
        let slots: BTreeSet<ObjectKey> = slots.chain(sources().cloned()).collect();
        let wrong = |slot| Some(format!("{slot}: {}", self.wrong_at(before, slot, is_late(slot))?));
        slots.iter().filter_map(wrong).collect()
    }

    fn wrong_at(&self, before: &Self, slot: &ObjectKey, is_late: bool) -> Option<String> {
        let there = self.server.objects.get(slot);
        let was = before.server.objects.get(slot);
        if there.is_some_and(|object| object.deleting) || self.server.refuses.contains_key(slot) {
            return None;
        }
        let wishes = self.wishes(slot);
        if wishes.is_empty() {
            return self.unwanted(slot, there.filter(|_| !is_late)?);
        }
        let holder = was.and_then(|object| copy_of(slot, object)).map(|(rule, _)| rule);
        // The next rest shows whether it is right.
        if before.wishers(slot) != self.wishers(slot) {
            return None;
        }
        let is_frozen = |rule: &Declarer| self.rules.get(rule).is_some_and(|rule| rule.is_broken());
        let held = wishes.iter().find(|wish| Some(wish.name) == holder.as_ref());
        let may_none = wishes.iter().all(|wish| self.is_inert(wish.name));
        let held = held.filter(|held| may_none || !self.is_refused(held.name));
        let first =
            wishes.iter().min_by_key(|wish| (self.stands_back(wish.name), wish.rule.created, wish.name));
        let winner = held.or(first)?;
        // A rule that writes nothing keeps nothing that another rule has made.
        if held.is_none() && holder.is_some() && self.stands_back(winner.name) {
            return self.unwanted(slot, there.filter(|_| !is_late)?);
        }
        if holder.as_ref().is_some_and(is_frozen) || self.is_inert(winner.name) {
            let same = was.map(|object| &object.values) == there.map(|object| &object.values);
            return (!same).then(|| format!("{} writes nothing, and yet it was written", winner.name));
        }
        let of = winner.source(was);
        let source = &self.server.objects[of];
        let wanted = winner.rule.wants(source);
        let Some(object) = there else {
            return Some(format!("{} wants it, and it is not there", winner.name));
        };
        let same = content(&object.values) == content(&wanted);
        let Some((rule, is_proven)) = copy_of(slot, object) else {
            let stays = match winner.rule.conflict {
                "Refuse" => true,
                _ if self.is_source(slot, object) => true,
                "Adopt" => !same || object.owned,
                _ => false,
            };
            return (!stays || holder.is_some()).then(|| format!("{} should have it", winner.name));
        };
        let annotations = object.annotations();
        let says = |mark: &str, value: String| annotations.get(mark) == Some(&value);
        let carries = wanted.iter().all(|(field, value)| object.values.get(field) == Some(value));
        let faults = [
            (!is_proven, "has the proof of a lost key"),
            (rule != *winner.name, "belongs to another rule"),
            (!same, "has other content"),
            (!carries, "lacks a label or annotation"),
            (!says(marks::SOURCE, of.named().to_string()), "names another source"),
            (!says(marks::SOURCE_UID, source.uid.to_string()), "names another source's UID"),
            (
                object.labels().get(marks::RULE_LABEL) != Some(&marks::rule_label(winner.name)),
                "lacks its label",
            ),
            (annotations.contains_key(marks::REMOVE_AFTER), "is still marked for removal"),
            (
                slot.kind.data().is_none() && !annotations.contains_key(marks::OBJECT),
                "does not say which object it is",
            ),
            (object.owned, "has an owner, with whom it would go"),
        ];
        let fault = faults.iter().find(|(is_wrong, _)| *is_wrong)?.1;
        Some(format!("{} {fault}; {} wants a copy of {of}", object.text(), winner.name))
    }

    /// An orphaned copy is gone, let go, or has some time left.
    fn unwanted(&self, slot: &ObjectKey, object: &Stored) -> Option<String> {
        let (rule, true) = copy_of(slot, object)? else { return None };
        let stays =
            self.server.namespaces.get(&*slot.namespace).is_none_or(|namespace| namespace.terminating);
        let time = object.annotations().get(marks::REMOVE_AFTER).and_then(|time| time.parse().ok());
        let waits = time.is_some_and(|time: jiff::Timestamp| time > at(self.now));
        let may = !self.server.rules.contains_key(&rule) || self.server.may(&rule, &slot.namespace);
        (!stays && !waits && may && !self.is_inert(&rule)).then(|| format!("this copy of {rule} is orphaned"))
    }

    /// Copies that a rule took away where its identity may do nothing.
    pub fn trespassed(&self, before: &Self) -> Vec<String> {
        let taken = |(key, old): (&ObjectKey, &Stored)| {
            let (rule, true) = copy_of(key, old)? else { return None };
            let is_its_own = before.server.rules.contains_key(&rule);
            if !is_its_own || self.server.may(&rule, &key.namespace) || old.deleting {
                return None;
            }
            // A rule that may write there may take the place.
            if before.wishes(key).iter().chain(&self.wishes(key)).any(|wish| !self.is_inert(wish.name)) {
                return None;
            }
            let same = self.server.objects.get(key).is_some_and(|new| new.values == old.values);
            (!same).then(|| format!("{rule} touched {key}, where its identity may do nothing"))
        };
        before.server.objects.iter().filter_map(taken).collect()
    }

    /// Whatever of other people's was touched without being asked for.
    pub fn touched(&self, before: &Self) -> Vec<String> {
        self.touched_since(before, &[])
    }

    /// The same of a process that may not have heard everything yet: what it touched was asked for by what its watches may have told
    /// it of these earlier moments, all of them since it last knew everything. It also acts for up to 30 s on the API server's
    /// last answer about a rule (docs/security.md, "Whose rights a rule acts with"): a rule that was refused a moment ago may still
    /// take a place.
    pub fn touched_since(&self, before: &Self, earlier: &[Self]) -> Vec<String> {
        let touched = |(key, old): (&ObjectKey, &Stored)| {
            let new = self.server.objects.get(key);
            let theirs = Field::Label("theirs".into());
            if let Some(new) = new.filter(|new| new.uid == old.uid)
                && new.values.get(&theirs) != old.values.get(&theirs)
            {
                return Some(format!("{key}: somebody's label was changed"));
            }
            let same = new.is_some_and(|new| new.resource_version == old.resource_version);
            if same || copy_of(key, old).is_some() {
                return None;
            }
            let takes = |known: &Self, wish: &Wish<'_>| {
                wish.rule.conflict != "Refuse" && !known.is_inert(wish.name) && !known.is_source(key, old)
            };
            let asked_for = |known: &Self| known.wishes(key).iter().any(|wish| takes(known, wish));
            if asked_for(before)
                || self.wishes(key).iter().any(|wish| takes(before, wish))
                || self.known_since(before, earlier).any(|known| asked_for(&known))
            {
                return None;
            }
            let is_source = before.is_source(key, old);
            Some(format!("{key}: {} was touched", if is_source { "a source" } else { "a foreign object" }))
        };
        before.server.objects.iter().filter_map(touched).collect()
    }

    /// All that a process may have taken the cluster for: the watches of rules, namespaces and objects tell each for itself, so what
    /// they have told may be of different moments.
    fn known_since<'c>(&'c self, before: &'c Self, earlier: &'c [Self]) -> impl Iterator<Item = Self> + 'c {
        let moments = move || earlier.iter().chain([before]);
        let objects = move || earlier.iter().take(1).flat_map(move |_| moments().chain([self]));
        let both = objects().flat_map(move |objects| moments().map(move |places| (objects, places)));
        both.flat_map(move |(objects, places)| {
            moments().map(move |rules| {
                let mut known = rules.clone();
                known.server.objects.clone_from(&objects.server.objects);
                known.server.namespaces.clone_from(&places.server.namespaces);
                known
            })
        })
    }

    /// What is not the same in another cluster.
    pub fn differs(&self, other: &Self) -> BTreeSet<ObjectKey> {
        let (mine, theirs) = (&self.server.objects, &other.server.objects);
        let values = |object: Option<&Stored>| object.map(|object| object.values.clone());
        let keys = mine.keys().chain(theirs.keys());
        keys.filter(|key| values(mine.get(key)) != values(theirs.get(key))).cloned().collect()
    }
}

fn content(fields: &Fields) -> Fields {
    let is_content = |field: &Field, value: &[u8]| match field {
        Field::Label(_) | Field::Annotation(_) => false,
        Field::Immutable => value == b"true",
        _ => true,
    };
    fields
        .iter()
        .filter(|(field, value)| is_content(field, value))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}
