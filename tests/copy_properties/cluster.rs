//! What becomes of a cluster when something happens to it.

use std::collections::{BTreeMap, BTreeSet};

use copyrator::{
    api::DataKind,
    digest::DigestKey,
    marks,
    names::{Declarer, Kind, ObjectKey},
    plan::Changed,
};

use super::{
    copy_model::{
        acting::{Edit, REFUSED_AGAIN, at},
        server::{Policy, Server},
        stored::{Entry, Field, Stored},
    },
    events::{Change, Event, How, Marking, NamespaceIs, Turn, Which},
    policies::Policies,
    rules::{COPY_TO, Rule, SELECTORS, Target, declared, home_of, rule_name},
};

/// A cluster, and the rules in it as they were drawn, with those that annotations declare.
#[derive(Clone, Default)]
pub struct Cluster {
    pub server: Server,
    pub rules: BTreeMap<Declarer, Rule>,
    pub policies: Policies,
    /// The UID of the namespace that each object was made in, by its own.
    pub born: BTreeMap<u64, u64>,
    /// The UIDs of the namespaces in which the identity of a rule ever had rights, of rules that may not do everything.
    pub granted: BTreeMap<Declarer, BTreeSet<u64>>,
    pub now: i64,
}

impl Cluster {
    /// Keeps what nobody can tell later.
    fn keep_in_mind(&mut self) {
        let uid = |name: &str| Some(self.server.namespaces.get(name)?.uid);
        let born = self.server.objects.iter().filter_map(|(key, it)| Some((it.uid, uid(&key.namespace)?)));
        self.born.extend(born);
        for (rule, places) in &self.server.rights {
            let places = places.iter().filter_map(|place| uid(place));
            self.granted.entry(rule.clone()).or_default().extend(places);
        }
    }

    /// Of a rule that is written only where its namespace is.
    fn write_rule(&mut self, name: Declarer, rule: Rule) {
        if self.server.namespaces.contains_key(&**name.namespace()) {
            self.server.set_rule(&name, rule.spec(), rule.created);
            self.rules.insert(name, rule);
        }
    }

    /// Takes in what annotations say by now.
    pub fn declare(&mut self) {
        self.rules.retain(|_, rule| rule.annotated.is_none());
        self.rules.extend(self.server.objects.iter().filter_map(|(key, object)| declared(key, object)));
    }

    /// What the API server does not allow does not happen.
    pub fn happen(&mut self, event: &Event) {
        self.keep_in_mind();
        self.occur(event);
        self.keep_in_mind();
        self.server.now = self.now;
        self.declare();
    }

    fn occur(&mut self, event: &Event) {
        let server = &mut self.server;
        match event {
            Event::Namespace(name, is) => {
                let label = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
                match is {
                    NamespaceIs::Gone => {
                        server.remove_namespace(name);
                        self.rules.retain(|rule, _| **rule.namespace() != **name);
                    }
                    NamespaceIs::Plain => server.set_namespace(name, BTreeMap::new(), false),
                    NamespaceIs::Blue => server.set_namespace(name, label("team", "blue"), false),
                    NamespaceIs::Refusing => {
                        server.set_namespace(name, label(marks::COPIES, "refuse"), false)
                    }
                    NamespaceIs::Terminating => server.set_namespace(name, label("team", "blue"), true),
                }
            }
            Event::Rule(index, None) => {
                self.rules.remove(&rule_name(*index));
                server.remove_rule(&rule_name(*index));
            }
            Event::Rule(index, Some(rule)) => {
                let name = rule_name(*index);
                let created = self.rules.get(&name).map_or(rule.created, |old| old.created);
                self.write_rule(name, Rule { created, ..(**rule).clone() });
            }
            Event::Turn(index, turn) => {
                let Some(rule) = turn.of(*index, &self.rules) else { return };
                self.write_rule(rule_name(*index), rule);
            }
            Event::Policy(name, policy) => {
                let uid = server.next();
                server.policies.remove(*name);
                self.policies.remove(name);
                if let Some(policy) = policy {
                    server.policies.insert((*name).into(), Policy { uid, spec: policy.spec() });
                    self.policies.insert(name, *policy);
                }
                server.tell(Changed::Policy((*name).into()));
            }
            Event::Answer(index, answer) => drop(server.answers.insert(rule_name(*index), *answer)),
            Event::Edit(which, how, changes) => {
                if let Some(key) = which.key(server) {
                    how.write(server, &key, changes);
                }
            }
            Event::Delete(which) => drop(which.key(server).map(|key| server.remove(&key, None))),
            Event::Own(which, owned) => {
                if let Some(key) = which.key(server) {
                    drop(server.own(&key, *owned, None));
                }
            }
            Event::Hold(which, held) => drop(which.key(server).map(|key| server.hold(&key, *held))),
            Event::Mark(which, marking) => {
                if let Some(key) = which.key(server) {
                    let edit = marking.edit(server, &key);
                    drop(server.update(&key, "kubectl", &edit));
                }
            }
            Event::Refuse(which, Some(refuses)) => {
                server.refuses.extend(which.key(server).map(|key| (key, *refuses)));
            }
            Event::Refuse(which, None) => {
                if let Some(key) = which.key(server) {
                    server.refuses.remove(&key);
                }
                // Until then what was refused is not tried again.
                self.now += REFUSED_AGAIN;
            }
            Event::Rights(index, places) => {
                let places = places.iter().filter(|place| server.namespaces.contains_key(**place));
                let places = places.map(ToString::to_string).collect();
                server.rights.insert(rule_name(*index), places);
            }
            Event::Pass(seconds) => self.now += seconds,
        }
    }
}

impl Turn {
    fn of(self, index: usize, rules: &BTreeMap<Declarer, Rule>) -> Option<Rule> {
        let mut rule = rules.get(&rule_name(index)).cloned();
        if let Some(rule) = &mut rule {
            match self {
                Self::Suspended(on) => rule.suspend = on,
                Self::Broken(on) => rule.broken = on,
                Self::Excluding(on) => rule.exclude = if on { &["a", "b*"] } else { &[] },
                Self::Conflict(policy) => rule.conflict = policy,
                Self::Retain(on) => rule.retain = on,
                Self::Grace(grace) => rule.grace = grace,
                Self::Into(places) => rule.targets = vec![Target::Names(places)],
                Self::Rival(_) => {}
            }
        }
        let Self::Rival(other) = self else { return rule };
        let rival = rules.get(&rule_name(other))?.clone();
        let created = rule.map_or(1, |rule| rule.created);
        let from = if rival.from.is_empty() { home_of(other) } else { rival.from };
        Some(Rule { from, created, ..rival })
    }
}

impl Which {
    fn key(&self, server: &Server) -> Option<ObjectKey> {
        match self {
            Self::At(kind, namespace, name) => Some(ObjectKey::new(*kind, *namespace, *name)),
            Self::Nth(nth) => server.objects.keys().nth(nth.checked_rem(server.objects.len())?).cloned(),
        }
    }
}

impl How {
    fn write(self, server: &mut Server, key: &ObjectKey, changes: &[Change]) -> Option<()> {
        let edit: Edit = changes.iter().flat_map(|change| change.edits(key.kind)).collect();
        let set = || edit.iter().filter_map(|(field, value)| Some((field.clone(), value.clone()?)));
        let there = server.objects.get(key).map(Stored::version);
        match self {
            Self::Patch(by) => server.update(key, by, &edit).ok().map(drop),
            Self::Apply => server.apply(key, "argocd", &set().collect(), there.as_ref()).ok().map(drop),
            Self::StringData => {
                there.filter(|_| key.kind == Kind::Secret)?;
                let data = set().filter_map(|(field, value)| match field {
                    Field::Data(key) => Some((key, value)),
                    _ => None,
                });
                server.apply_string_data(key, "argocd", &data.collect()).ok().map(drop)
            }
            Self::ForgetManagers => server.set_entries(key, Vec::<Entry>::new(), None).ok().map(drop),
        }
    }
}

impl Change {
    fn edits(&self, kind: Kind) -> Vec<(Field, Option<Vec<u8>>)> {
        let Self::Asks(names, selector) = self else { return vec![self.edit(kind)] };
        let names = names.map(|at| COPY_TO[at].0);
        let selector = selector.map(|at| SELECTORS[at].0);
        let annotations = [(marks::COPY_TO, names), (marks::COPY_TO_SELECTOR, selector)]
            .map(|(key, text)| (Field::Annotation(key.into()), text.map(Into::into)));
        let label = (Field::Label(marks::DECLARES.into()), Some(marks::DECLARES_VALUE.into()));
        annotations.into_iter().chain([label]).collect()
    }

    fn edit(&self, kind: Kind) -> (Field, Option<Vec<u8>>) {
        let on = |on: &bool, value: &[u8]| on.then(|| value.to_vec());
        match (self, kind.data()) {
            (Self::Data(key, value), _) => (Field::Data((*key).into()), value.map(Into::into)),
            (Self::Binary(key, set), Some(DataKind::ConfigMap)) => {
                (Field::Binary((*key).into()), on(set, &[0, 255]))
            }
            (Self::Binary(key, set), _) => (Field::Data((*key).into()), on(set, &[0, 255])),
            (Self::Label(key, set), _) => (Field::Label((*key).into()), on(set, b"x")),
            (Self::Asks(..), _) => (Field::Annotation("asks".into()), None),
            (Self::Note(set), _) => (Field::Annotation("note".into()), on(set, b"x")),
            (Self::Immutable, _) | (Self::Type, Some(DataKind::ConfigMap)) => {
                (Field::Immutable, Some(b"true".to_vec()))
            }
            (Self::Type, _) => (Field::Type, Some(b"example.com/t".to_vec())),
        }
    }
}

impl Marking {
    fn edit(&self, server: &Server, key: &ObjectKey) -> Edit {
        let field = |mark: &str| match mark {
            marks::MANAGED_BY => Field::Label(mark.into()),
            _ => Field::Annotation(mark.into()),
        };
        let there = &server.objects[key];
        match self {
            Self::Lose(mark) => Edit::from([(field(mark), None)]),
            Self::Garble(mark, word) => Edit::from([(field(mark), Some((*word).into()))]),
            Self::CloneOf(nth) => {
                let other = server.objects.values().nth(nth % server.objects.len()).unwrap();
                let marks = other.values.iter().filter(|(field, _)| match field {
                    Field::Label(key) | Field::Annotation(key) => {
                        marks::is_mark(key) || key == marks::REMOVE_AFTER
                    }
                    _ => false,
                });
                marks.map(|(field, value)| (field.clone(), Some(value.clone()))).collect()
            }
            Self::OtherKey => {
                let rule = there.annotations().get(marks::RULE).and_then(|rule| Declarer::parse(rule));
                let proof = rule.map(|rule| DigestKey::new(b"another").mark(key, &rule));
                proof.map(|proof| (field(marks::MARK), Some(proof.into_bytes()))).into_iter().collect()
            }
            Self::RemoveAt(second) => {
                Edit::from([(field(marks::REMOVE_AFTER), Some(marks::write_time(at(*second)).into_bytes()))])
            }
        }
    }
}
