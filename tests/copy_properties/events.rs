//! What happens to a cluster, as it is drawn.

use copyrator::{marks, names::Kind};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{
    copy_model::server::{Answer, Refuses},
    policies::{BAD, Policy, any_policy},
    rules::{COPY_TO, RULES, Rule, SELECTORS, Target, any_rule, rarely},
};

#[derive(Clone, Debug)]
pub enum Event {
    Namespace(&'static str, NamespaceIs),
    Rule(usize, Option<Box<Rule>>),
    /// A ConfigPolicy, or that it goes.
    Policy(&'static str, Option<Policy>),
    /// One word of a rule changes.
    Turn(usize, Turn),
    Answer(usize, Answer),
    /// The only namespaces in which the identity of a rule may do anything.
    Rights(usize, &'static [&'static str]),
    Edit(Which, How, Vec<Change>),
    Delete(Which),
    /// Somebody's finalizer.
    Hold(Which, bool),
    /// Somebody's owner reference.
    Own(Which, bool),
    Mark(Which, Marking),
    /// A quota or another webhook.
    Refuse(Which, Option<Refuses>),
    /// So many seconds pass, in which the operator is at work.
    Pass(i64),
}

#[derive(Clone, Copy, Debug)]
pub enum NamespaceIs {
    Gone,
    Plain,
    Blue,
    Refusing,
    Terminating,
}

#[derive(Clone, Copy, Debug)]
pub enum Turn {
    Suspended(bool),
    Broken(bool),
    Excluding(bool),
    Conflict(&'static str),
    Retain(bool),
    Grace(Option<u32>),
    /// Its only targets.
    Into(&'static [&'static str]),
    /// It wants what another wants.
    Rival(usize),
}

/// An object by name, or one of those that are there.
#[derive(Clone, Debug)]
pub enum Which {
    At(Kind, &'static str, &'static str),
    Nth(usize),
}

/// How somebody writes.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Patch(&'static str),
    Apply,
    StringData,
    ForgetManagers,
}

#[derive(Clone, Debug)]
pub enum Change {
    Data(&'static str, Option<&'static str>),
    Binary(&'static str, bool),
    Label(&'static str, bool),
    Note(bool),
    /// Annotations that ask for copies: which of [`COPY_TO`] and of [`SELECTORS`], or none any more.
    Asks(Option<usize>, Option<usize>),
    Immutable,
    Type,
}

#[derive(Clone, Debug)]
pub enum Marking {
    Lose(&'static str),
    Garble(&'static str, &'static str),
    /// The marks of another object.
    CloneOf(usize),
    /// The proof of a key that is lost.
    OtherKey,
    RemoveAt(i64),
}

pub const NAMESPACES: [&str; 5] = ["home", "a", "b", "c", "kube-system"];
const MARKS: [&str; 8] = [
    marks::RULE,
    marks::SOURCE,
    marks::SOURCE_UID,
    marks::DIGEST,
    marks::ON_REMOVAL,
    marks::MARK,
    marks::OBJECT,
    marks::MANAGED_BY,
];

/// What happens from an empty cluster on; the operator is at work only while time passes.
pub fn story() -> impl Strategy<Value = Vec<Event>> {
    story_of(vec(event(), 0..40))
}

/// The same, where sources change again and again while little time passes.
pub fn flapping_story() -> impl Strategy<Value = Vec<Event>> {
    let change = (source(), select(&["1", "2", "3"][..])).prop_map(|(which, value)| {
        Event::Edit(which, How::Patch("kubectl"), vec![Change::Data("a", Some(value))])
    });
    let pass = select(&[0, 1, 3, 6][..]).prop_map(Event::Pass);
    story_of(vec(prop_oneof![4 => change, 4 => pass, 1 => event()], 0..60))
}

/// The same, where the author of rules may do something in a few namespaces, and edits them so that they leave others, at
/// once and for good.
pub fn tenants_story() -> impl Strategy<Value = Vec<Event>> {
    let rights = (0..RULES.len(), places()).prop_map(|(at, places)| Event::Rights(at, places));
    let turn = prop_oneof![
        2 => places().prop_map(Turn::Into),
        1 => any::<bool>().prop_map(Turn::Retain),
        1 => select(&[Some(0), Some(5), None][..]).prop_map(Turn::Grace),
    ];
    let turn = (0..RULES.len(), turn).prop_map(|(at, turn)| Event::Turn(at, turn));
    let gone = (0..RULES.len()).prop_map(|at| Event::Rule(at, None));
    let pass = select(&[1, 40, 400][..]).prop_map(Event::Pass);
    story_of(vec(prop_oneof![3 => rights, 5 => turn, 1 => gone, 3 => event(), 4 => pass], 0..40))
}

/// The same, where namespaces are deleted and made anew for another team, which has its own sources there and gives rights
/// as it likes; or takes back what a rule may read.
pub fn owners_story() -> impl Strategy<Value = Vec<Event>> {
    let rights = (0..RULES.len(), places()).prop_map(|(at, places)| Event::Rights(at, places));
    let into = (0..RULES.len(), places()).prop_map(|(at, places)| Event::Turn(at, Turn::Into(places)));
    let anew = (select(&["a", "b", "c", "home"][..]), any_kind(), any::<bool>(), select(&["x", "y"][..]));
    let anew = anew.prop_map(|(place, kind, is_seen, name)| {
        let changes = vec![Change::Data("a", Some("3")), Change::Label("app", true)];
        let source = Event::Edit(Which::At(kind, place, name), How::Patch("kubectl"), changes);
        let seen = is_seen.then_some(Event::Pass(1));
        let gone = Event::Namespace(place, NamespaceIs::Gone);
        let back = Event::Namespace(place, NamespaceIs::Blue);
        [gone].into_iter().chain(seen).chain([back, source]).collect::<Vec<_>>()
    });
    // A rule elsewhere copies what is at home; the right to read that is taken back, and then it changes.
    let taken = (2..RULES.len(), any_rule(), select(&["1", "2"][..])).prop_map(|(at, rule, value)| {
        let targets = vec![Target::Names(&["a", "b"])];
        let rule = Rule { from: &["home"], targets, suspend: false, broken: false, ..rule };
        let source = |value| {
            let changes = vec![Change::Data("a", Some(value)), Change::Label("app", true)];
            Event::Edit(Which::At(rule.kind, "home", "x"), How::Patch("kubectl"), changes)
        };
        let given = [
            Event::Rights(at, &["home", "a", "b"]),
            source("3"),
            Event::Rule(at, Some(Box::new(rule.clone()))),
        ];
        let taken = [Event::Pass(1), Event::Rights(at, &["a", "b"]), source(value), Event::Pass(40)];
        given.into_iter().chain(taken).collect::<Vec<_>>()
    });
    let one = |event: Event| vec![event];
    let pass = select(&[1, 40, 400][..]).prop_map(Event::Pass);
    let later = vec(
        prop_oneof![1 => taken, 2 => rights.prop_map(one), 3 => into.prop_map(one), 3 => anew, 2 => event().prop_map(one),
            5 => pass.prop_map(one)],
        0..40,
    );
    story_of(later.prop_map(|later| later.concat()))
}

/// The same, where policies come and go that refuse some of what sources then say.
pub fn policies_story() -> impl Strategy<Value = Vec<Event>> {
    let policy = (select(&["one", "two"][..]), proptest::option::weighted(0.7, any_policy()));
    let policy = policy.prop_map(|(name, policy)| Event::Policy(name, policy));
    let change = (source(), select(&["1", "2", BAD, BAD][..])).prop_map(|(which, value)| {
        Event::Edit(which, How::Patch("kubectl"), vec![Change::Data("a", Some(value))])
    });
    let label = ((0..99_usize).prop_map(Which::Nth), select(&["app", "theirs"][..]), any::<bool>())
        .prop_map(|(which, key, on)| Event::Edit(which, How::Patch("kubectl"), vec![Change::Label(key, on)]));
    let pass = select(&[0, 1, 40, 400][..]).prop_map(Event::Pass);
    story_of(vec(prop_oneof![3 => policy, 6 => change, 6 => label, 2 => event(), 6 => pass], 0..60))
}

/// The same, where sources are made anew so that no update turns their copies into what they are, and some of that is refused.
pub fn anew_story() -> impl Strategy<Value = Vec<Event>> {
    let anew = (source(), select(&["1", "2", "3"][..]), select(&[Change::Immutable, Change::Type][..]));
    let anew = anew.prop_map(|(which, value, kind)| {
        let changes = vec![Change::Data("a", Some(value)), Change::Label("app", true), kind];
        vec![Event::Delete(which.clone()), Event::Edit(which, How::Patch("kubectl"), changes)]
    });
    let copy = (any_kind(), select(&["a", "b", "c"][..]), select(&["x", "y"][..]))
        .prop_map(|(kind, place, name)| Which::At(kind, place, name));
    let refuse = (copy, refuses()).prop_map(|(which, refuses)| vec![Event::Refuse(which, refuses)]);
    let pass = select(&[0, 3, 400][..]).prop_map(|seconds| vec![Event::Pass(seconds)]);
    let other = event().prop_map(|event| vec![event]);
    let later = vec(prop_oneof![4 => anew, 4 => refuse, 4 => pass, 1 => other], 0..40);
    story_of(later.prop_map(|later| later.concat()))
}

/// What is refused of an object from now on, or that nothing is any more.
fn refuses() -> impl Strategy<Value = Option<Refuses>> {
    select(&[Some(Refuses::Writes), Some(Refuses::Creations), None][..])
}

/// Of a few namespaces.
fn places() -> impl Strategy<Value = &'static [&'static str]> {
    const PLACES: [&[&str]; 4] = [&["home"], &["home", "a"], &["a", "b"], &["home", "b", "c"]];
    select(&PLACES[..])
}

fn story_of(later: impl Strategy<Value = Vec<Event>>) -> impl Strategy<Value = Vec<Event>> {
    let some_rule = (0..RULES.len(), any_rule()).prop_map(|(at, rule)| Event::Rule(at, Some(Box::new(rule))));
    let source = (source(), any::<bool>(), asks(0.2)).prop_map(|(which, labelled, asks)| {
        let content = [Change::Data("a", Some("1")), Change::Data("b", Some("2"))];
        let changes = content.into_iter().chain([Change::Label("app", labelled), asks]);
        Event::Edit(which, How::Patch("kubectl"), changes.collect())
    });
    let place = select(&[NamespaceIs::Plain, NamespaceIs::Blue][..]);
    let start = (vec(place, NAMESPACES.len()), vec(some_rule, 2..6), vec(source, 3..7), later);
    start.prop_map(|(places, rules, objects, later)| {
        let namespaces = NAMESPACES.iter().zip(places).map(|(name, is)| Event::Namespace(name, is));
        namespaces
            .chain(rules)
            .chain(objects)
            .chain([Event::Pass(1)])
            .chain(later)
            .chain([Event::Pass(1)])
            .collect()
    })
}

fn asks(likely: f64) -> impl Strategy<Value = Change> {
    use proptest::option::weighted;
    let (names, selector) = (weighted(likely, 0..COPY_TO.len()), weighted(likely / 2., 0..SELECTORS.len()));
    (names, selector).prop_map(|(names, selector)| Change::Asks(names, selector))
}

fn event() -> impl Strategy<Value = Event> {
    let namespace =
        (select(&NAMESPACES[..]), is_namespace()).prop_map(|(name, is)| Event::Namespace(name, is));
    let rule = (0..RULES.len(), proptest::option::weighted(0.8, any_rule()))
        .prop_map(|(at, rule)| Event::Rule(at, rule.map(Box::new)));
    let answers = [Answer::Allowed, Answer::Refused, Answer::Unasked];
    let answer =
        (0..RULES.len(), select(answers.to_vec())).prop_map(|(at, answer)| Event::Answer(at, answer));
    prop_oneof![
        4 => namespace,
        3 => rule,
        3 => (0..RULES.len(), turn()).prop_map(|(at, turn)| Event::Turn(at, turn)),
        1 => answer,
        7 => written(),
        3 => which().prop_map(Event::Delete),
        1 => (which(), any::<bool>()).prop_map(|(which, held)| Event::Hold(which, held)),
        2 => (which(), any::<bool>()).prop_map(|(which, owned)| Event::Own(which, owned)),
        3 => ((0..99_usize).prop_map(Which::Nth), marking()).prop_map(|(which, how)| Event::Mark(which, how)),
        1 => (which(), refuses()).prop_map(|(which, refuses)| Event::Refuse(which, refuses)),
        5 => select(&[0, 3, 400][..]).prop_map(Event::Pass),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        any::<bool>().prop_map(Turn::Suspended),
        any::<bool>().prop_map(Turn::Broken),
        any::<bool>().prop_map(Turn::Excluding),
        select(&["Refuse", "Adopt", "Overwrite"][..]).prop_map(Turn::Conflict),
        (0..RULES.len()).prop_map(Turn::Rival),
    ]
}

fn is_namespace() -> impl Strategy<Value = NamespaceIs> {
    use NamespaceIs::{Blue, Gone, Plain, Refusing, Terminating};
    select(&[Gone, Plain, Plain, Plain, Blue, Blue, Blue, Refusing, Terminating][..])
}

/// Where sources are likely.
fn source() -> impl Strategy<Value = Which> {
    (any_kind(), select(&["home", "home", "home", "a", "b"][..]), select(&["x", "x", "y"][..]))
        .prop_map(|(kind, namespace, name)| Which::At(kind, namespace, name))
}

fn any_kind() -> impl Strategy<Value = Kind> {
    rarely(5).prop_map(|secret| if secret { Kind::Secret } else { Kind::ConfigMap })
}

fn which() -> impl Strategy<Value = Which> {
    let anywhere = (any_kind(), select(&NAMESPACES[..]), select(&["x", "y", "x-of-home"][..]));
    prop_oneof![
        3 => source(),
        1 => anywhere.prop_map(|(kind, namespace, name)| Which::At(kind, namespace, name)),
        3 => (0..99_usize).prop_map(Which::Nth),
    ]
}

fn written() -> impl Strategy<Value = Event> {
    let how = prop_oneof![
        6 => select(&["kubectl", "argocd", marks::COPY_MANAGER][..]).prop_map(How::Patch),
        2 => Just(How::Apply),
        1 => Just(How::StringData),
        1 => Just(How::ForgetManagers),
    ];
    let data = (select(&["a", "a", "b", "c"][..]), select(&[None, Some("1"), Some("2"), Some("3")][..]));
    let change = prop_oneof![
        8 => data.prop_map(|(key, value)| Change::Data(key, value)),
        2 => (select(&["a", "c"][..]), any::<bool>()).prop_map(|(key, on)| Change::Binary(key, on)),
        3 => (select(&["app", "tier", "theirs"][..]), any::<bool>()).prop_map(|(key, on)| Change::Label(key, on)),
        1 => any::<bool>().prop_map(Change::Note),
        2 => asks(0.8),
        1 => Just(Change::Immutable),
        1 => Just(Change::Type),
    ];
    (which(), how, vec(change, 1..4)).prop_map(|(which, how, changes)| Event::Edit(which, how, changes))
}

fn marking() -> impl Strategy<Value = Marking> {
    let words = select(&["garbled", "home/one", "Retain", "Delete/0s"][..]);
    prop_oneof![
        2 => select(&MARKS[..]).prop_map(Marking::Lose),
        2 => (select(&MARKS[..]), words).prop_map(|(mark, word)| Marking::Garble(mark, word)),
        2 => (0..99_usize).prop_map(Marking::CloneOf),
        1 => Just(Marking::OtherKey),
        2 => select(&[0, 100, 9_999][..]).prop_map(Marking::RemoveAt),
    ]
}
