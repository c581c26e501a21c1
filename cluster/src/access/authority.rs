//! The rights that a rule or monitor acts with. The API server is asked about the rights as rarely as is
//! safe.
//!
//! For each written spec, the API server is asked once what the author may write, as in RBAC's own escalation
//! check, and again when a namespace that the spec names is created again. If the author leaves later, the
//! answer stays.
//!
//! Two kinds of rights can be withdrawn: an author's rights to read in namespaces other than the rule's own,
//! and all rights of a ServiceAccount. The API server is asked again about rights of these kinds before the
//! last answer is too old to write by. An author who names a ServiceAccount must have been allowed to
//! impersonate it when writing the spec.
//!
//! After a refusal, the API server is asked again at growing intervals, since the right may have been granted
//! meanwhile. Refusals are charged to the namespace of the object (`operator/src/reconcile/asker.rs`).
//!
//! Only the handlers of rules and monitors ask, and the queue runs each key only once at a time. Several
//! workers therefore never ask the same questions at the same time, and a slow answer does not replace a
//! newer answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    access::{AskError, Authorizer, MOST_QUESTIONS, settle},
    authority::{
        Identity, Question, Subject, TrustedWriters, author, impersonation, monitor_questions,
        rule_questions_within, template_questions,
    },
    model::{Authority, Declaration, Declared, Refusal, RefusalReason, World},
    names::Declarer,
    plan::{
        copy::{
            can_be_withdrawn,
            inert::unseen_source,
            targets::{bounds, within},
            templates::{not_read_kind, template_bounds},
        },
        is_younger,
    },
    validate::{CompiledObject, declared_kind},
};

/// Age at which an answer about rights that can be withdrawn is renewed, in good time for the next write;
/// also the first wait after a refusal.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// Number of refusals in a row after which the wait begins to grow: users often write a rule shortly before
/// its roles.
const QUICK_TRIES: u32 = 9;
/// Number of questions per step of the wait after a refusal: an object with more questions waits longer.
const FEW_QUESTIONS: usize = 16;
/// Number of questions about each namespace that copies can be written to: create, patch and delete.
const WRITES: usize = 3;
/// Longest wait after a refusal.
const REFUSED_AT_MOST: SignedDuration = SignedDuration::from_mins(5);

/// The known facts about an object before the API server is asked.
pub(super) struct Asking<'a> {
    pub(super) of: &'a Declarer,
    pub(super) uid: &'a str,
    pub(super) generation: i64,
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) account: Option<&'a str>,
    /// Whether a proof shows that this very spec was granted, perhaps by an earlier leader.
    pub(super) granted: bool,
    pub(super) known: Option<&'a Authority>,
    /// Selects the questions to repeat after every question was answered with yes; `None` if no right can be
    /// withdrawn.
    pub(super) standing: Option<&'a dyn Fn(&Question) -> bool>,
}

/// The decision whether to ask the API server.
#[derive(Debug)]
pub enum Decided {
    /// The known answer is still valid.
    Known,
    /// The answer is certain without a question to the API server.
    Answer(Authority),
    /// The API server must be asked these questions.
    Ask(Inquiry),
}

/// Questions to ask on behalf of one object.
#[derive(Debug)]
pub struct Inquiry {
    of: Declarer,
    uid: Box<str>,
    generation: i64,
    identity: Identity,
    questions: Vec<Question>,
    most: usize,
    /// The reason for which the answer is needed.
    pub occasion: Occasion,
}

/// Why an inquiry is made. After a refusal, no author waits for the answer, so it is less urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// This exact spec was granted, and its rights can be withdrawn.
    Standing,
    /// No answer about this exact spec exists yet.
    First,
    /// The last answer was a no.
    Refused,
}

impl Inquiry {
    /// Asks the questions, and returns the answer.
    ///
    /// # Errors
    /// A question was not answered.
    pub async fn ask(&self, authorizer: &dyn Authorizer, now: Timestamp) -> Result<Authority, AskError> {
        let version = (&*self.uid, self.generation);
        settle(authorizer, &self.of, version, &self.identity, &self.questions, self.most, now).await
    }
}

impl<'a> Asking<'a> {
    pub(super) fn of<S, C, T>(
        of: &'a Declarer,
        facts: &'a Declared<S, C, T>,
        account: Option<&'a str>,
        granted: bool,
        known: Option<&'a Authority>,
        standing: Option<&'a dyn Fn(&Question) -> bool>,
    ) -> Self {
        let Declared { uid, generation, annotations, .. } = facts;
        Self { of, uid, generation: *generation, annotations, account, granted, known, standing }
    }

    /// Decides whether to ask. `declared` returns the questions that the spec needs for an identity.
    pub(super) fn decide(
        &self,
        trusted: &TrustedWriters,
        declared: impl FnOnce(&Subject) -> Vec<Question>,
        now: Timestamp,
    ) -> Decided {
        let identity = match Identity::of_stored(self.of.namespace(), self.account, self.annotations, trusted)
        {
            Ok(identity) => identity,
            Err(required) => return self.nobody(required.to_string(), now),
        };
        let known = self.known.filter(|known| self.is_of_this(known));
        if let Some(known) = known {
            let may_age = self.standing.is_none() && known.answer.is_ok();
            if may_age || is_younger(known.asked, holds(known).unsigned_abs(), now) {
                return Decided::Known;
            }
        }
        let granted = self.is_granted();
        if self.standing.is_none() && granted {
            return Decided::Answer(self.authority(identity.to_string(), Ok(()), now));
        }
        let mut questions = declared(&identity.subject());
        if let Some(is_standing) = self.standing.filter(|_| granted) {
            questions.retain(is_standing);
        }
        if let Some(account) = self.account.filter(|_| !granted) {
            match author(self.annotations) {
                Ok(writer) => questions.insert(0, impersonation(self.of.namespace(), account, &writer)),
                Err(required) => return self.nobody(required.to_string(), now),
            }
        }
        let occasion = match known {
            Some(Authority { answer: Err(_), .. }) => Occasion::Refused,
            _ if granted => Occasion::Standing,
            _ => Occasion::First,
        };
        let Self { of, uid, generation, .. } = *self;
        let (of, uid, most) = (of.clone(), uid.into(), MOST_QUESTIONS);
        Decided::Ask(Inquiry { of, uid, generation, identity, questions, most, occasion })
    }

    fn is_of_this(&self, known: &Authority) -> bool {
        *known.uid == *self.uid && known.generation == self.generation
    }

    /// Whether this very spec was granted before.
    pub(super) fn is_granted(&self) -> bool {
        self.granted || self.known.is_some_and(|known| self.is_of_this(known) && known.answer.is_ok())
    }

    /// Returns a refusal: without the admission policies, any user could forge the stamp. In a process
    /// without hooks, any user could forge even the stamps of rules.
    pub(super) fn unguarded(&self, world: &World, now: Timestamp) -> Decided {
        if world.namespace_scope().is_some() && self.of.as_annotated().is_none() {
            let message = "the admission policy copyrator-author-honest is not in force, so the author annotation of this spec may be \
             forged: let an administrator apply the output of `copyrator crds`, then write the spec again";
            return self.nobody(message.to_owned(), now);
        }
        let message = "the admission policy copyrator-annotations-honest is not in force, so the author annotation of this object may be \
         forged: let an administrator apply the output of `copyrator crds`, then change the annotation";
        self.nobody(message.to_owned(), now)
    }

    /// Returns a refusal: the object has no identity to act with. `message` says why.
    fn nobody(&self, message: String, now: Timestamp) -> Decided {
        let refusal = Refusal { reason: RefusalReason::IdentityRequired, message };
        Decided::Answer(self.authority("none".into(), Err(refusal), now))
    }

    fn authority(&self, identity: String, answer: Result<(), Refusal>, now: Timestamp) -> Authority {
        let Self { uid, generation, .. } = *self;
        Authority { uid: uid.into(), generation, identity, answer, asked: now, questions: 0, refusals: 0 }
    }
}

/// Decides what to ask about a rule. `None` if the rule is deleted or invalid, if the rule reads a namespace
/// that Copyrator cannot see, or while it is unknown whether the author's stamp can be trusted.
pub fn about_rule(
    world: &World,
    rule: &Declarer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> Option<Decided> {
    let facts = world.rules().get(rule).filter(|facts| facts.compiled.is_ok())?;
    let account = facts.spec.service_account_name.as_deref();
    let compiled = facts.compiled.as_ref().ok()?;
    // The API server cannot be asked about an unreadable namespace, and the rule does nothing before the
    // namespace becomes readable.
    if unseen_source(world, rule, compiled).is_some() {
        return None;
    }
    let bounds = bounds(world, rule, compiled);
    let is_proven = world.key().is_some_and(|key| facts.is_granted(key, &bounds));
    // Until the index is read, it is unknown whether a proof in an annotation is valid.
    let granted = is_proven && world.recalls(rule, facts)?;
    let known = world.rule_authority(rule);
    // Leave out deleted namespaces: their rights are gone, and the reconciler neither reads nor writes in a
    // deleted namespace.
    let is_there = |place: &str| place.is_empty() || world.namespaces().contains_key(place);
    let is_standing = |question: &Question| {
        is_there(&question.namespace) && (account.is_some() || question.reads_elsewhere(rule.namespace()))
    };
    let standing = can_be_withdrawn(world, rule, Declaration::Rule(facts))
        .then_some(&is_standing as &dyn Fn(&Question) -> bool);
    let asking = Asking::of(rule, facts, account, granted, known, standing);
    if stamp_must_be_guarded(world, rule) && !asking.is_granted() && !world.stamps_guarded()? {
        return Some(asking.unguarded(world, now));
    }
    let within = within(world, rule, compiled);
    let declared = |subject: &_| {
        rule_questions_within(rule.namespace(), &facts.spec, compiled.kind, subject, within.as_ref())
    };
    Some(match asking.decide(trusted, declared, now) {
        // If one question cannot cover all namespaces, the limit grows with the namespaces that Copyrator may
        // read: the rule's author has not chosen their number.
        Decided::Ask(inquiry) => {
            let listed = within.as_ref().map_or(0, BTreeSet::len) * WRITES;
            Decided::Ask(Inquiry { most: inquiry.most + listed, ..inquiry })
        }
        decided => decided,
    })
}

/// Like [`about_rule`], for a template.
pub fn about_template(
    world: &World,
    template: &Declarer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> Option<Decided> {
    let facts = world.templates().get(template)?;
    let compiled = facts.compiled.as_ref().ok()?;
    // The plural of a kind that is not granted is unknown, so the API server cannot be asked about the kind.
    // A yes to the remaining questions must not be mistaken for a yes to all questions.
    let granted = &world.settings().template_kinds;
    let is_unknown = |object: &CompiledObject| declared_kind(object, granted).is_none();
    if not_read_kind(world, compiled).is_some() || compiled.objects.iter().any(is_unknown) {
        return None;
    }
    let account = facts.spec.service_account_name.as_deref();
    let granted = world.key().is_some_and(|key| facts.is_granted(key, &template_bounds(world, compiled)));
    let is_there = |question: &Question| {
        question.namespace.is_empty() || world.namespaces().contains_key(question.namespace.as_str())
    };
    let is_standing = |question: &Question| {
        is_there(question) && (account.is_some() || question.reads_elsewhere(template.namespace()))
    };
    let standing = can_be_withdrawn(world, template, Declaration::Template(facts))
        .then_some(&is_standing as &dyn Fn(&Question) -> bool);
    let asking = Asking::of(template, facts, account, granted, world.rule_authority(template), standing);
    let declared = |subject: &_| {
        let kinds = &world.settings().template_kinds;
        template_questions(template.namespace(), &facts.spec, Some(compiled), subject, kinds)
    };
    Some(asking.decide(trusted, declared, now))
}

/// Whether only admission policies protect a stamp from forgery. With hooks, rules and monitors cannot be
/// written before their policies exist.
fn stamp_must_be_guarded(world: &World, of: &Declarer) -> bool {
    of.as_annotated().is_some() || world.namespace_scope().is_some()
}

/// Like [`about_rule`], for a monitor.
pub fn about_monitor(
    world: &World,
    monitor: &Declarer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> Option<Decided> {
    let facts = world.monitors().get(monitor).filter(|facts| facts.compiled.is_ok())?;
    let account = facts.spec.service_account_name.as_deref();
    let is_proven = world.key().is_some_and(|key| facts.is_granted(key));
    let granted = is_proven && world.recalls(monitor, facts)?;
    let known = world.monitor_authority(monitor);
    let standing = account.map(|_| &(|_: &Question| true) as &dyn Fn(&Question) -> bool);
    let asking = Asking::of(monitor, facts, account, granted, known, standing);
    if stamp_must_be_guarded(world, monitor) && !asking.is_granted() && !world.stamps_guarded()? {
        return Some(asking.unguarded(world, now));
    }
    let declared = |subject: &_| monitor_questions(monitor.namespace(), &facts.spec, subject);
    Some(asking.decide(trusted, declared, now))
}

/// Whether the new answer differs from the old one: only a different answer queues dependent keys.
pub fn says_otherwise(before: Option<&Authority>, after: Option<&Authority>) -> bool {
    let says = |known: &Authority| (known.uid.clone(), known.generation, known.answer.clone());
    before.map(says) != after.map(says)
}

/// Returns how long an answer lasts before the API server is asked again.
fn holds(known: &Authority) -> SignedDuration {
    if known.answer.is_ok() {
        return ASK_AGAIN;
    }
    let times = known.questions.div_ceil(FEW_QUESTIONS).clamp(1, 1000) as i32;
    let doubled = 1 << known.refusals.saturating_sub(QUICK_TRIES).min(8);
    (ASK_AGAIN * times * doubled).min(REFUSED_AT_MOST)
}

/// Returns after which time to ask again about an object that is settled; `None`: only after a change.
pub fn ask_again(can_be_withdrawn: bool, authority: Option<&Authority>) -> Option<Duration> {
    match authority {
        Some(known) if can_be_withdrawn || known.answer.is_err() => Some(holds(known).unsigned_abs()),
        None if can_be_withdrawn => Some(ASK_AGAIN.unsigned_abs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    mod standing;

    use super::*;
    use crate::{
        marks::{AUTHOR, AUTHOR_GROUPS},
        plan::copy::is_too_old,
    };

    fn decide(account: Option<&str>, granted: bool, known: Option<&Authority>, stamp: bool) -> Decided {
        let always = |_: &Question| true;
        let standing = account.map(|_| &always as &dyn Fn(&Question) -> bool);
        let mut annotations = BTreeMap::new();
        if stamp {
            annotations.insert(AUTHOR.to_owned(), "alice".to_owned());
            annotations.insert(AUTHOR_GROUPS.to_owned(), "[]".to_owned());
        }
        let asking = Asking {
            of: &Declarer::rule("shop", "web"),
            uid: "u",
            generation: 2,
            annotations: &annotations,
            account,
            granted,
            known,
            standing,
        };
        asking.decide(&TrustedWriters::default(), |_| Vec::new(), Timestamp::from_second(1_000).unwrap())
    }

    fn refusal() -> Refusal {
        Refusal { reason: RefusalReason::Forbidden, message: String::new() }
    }

    fn known(answer: Result<(), Refusal>, generation: i64, asked: i64) -> Authority {
        let asked = Timestamp::from_second(asked).unwrap();
        Authority {
            uid: "u".into(),
            generation,
            identity: String::new(),
            answer,
            asked,
            questions: 4,
            refusals: 0,
        }
    }

    #[test]
    fn an_author_is_asked_once_for_each_generation() {
        assert!(matches!(decide(None, false, None, true), Decided::Ask(_)));
        assert!(matches!(decide(None, false, Some(&known(Ok(()), 2, 0)), true), Decided::Known));
        assert!(matches!(decide(None, false, Some(&known(Ok(()), 1, 999)), true), Decided::Ask(_)));
        assert!(matches!(decide(None, true, None, true), Decided::Answer(Authority { answer: Ok(()), .. })));
        let no = || Err(refusal());
        assert!(matches!(decide(None, false, Some(&known(no(), 2, 990)), true), Decided::Known));
        assert!(matches!(decide(None, false, Some(&known(no(), 2, 0)), true), Decided::Ask(_)));
        let of_the_future = known(no(), 2, 2_000);
        assert!(
            matches!(decide(None, false, Some(&of_the_future), true), Decided::Ask(_)),
            "the clock was set back"
        );
        assert!(matches!(decide(None, true, None, false), Decided::Answer(Authority { answer: Err(_), .. })));
    }

    /// A rule written while the hooks are off is no stronger: its writer must be allowed to impersonate the
    /// account.
    #[test]
    fn naming_an_account_takes_the_right_to_impersonate_it() {
        let asks = |decided| match decided {
            Decided::Ask(inquiry) => inquiry.questions.iter().any(|question| question.verb == "impersonate"),
            _ => panic!("nothing is asked"),
        };
        assert!(asks(decide(Some("copier"), false, None, true)));
        assert!(!asks(decide(Some("copier"), true, None, true)));
        assert!(!asks(decide(Some("copier"), false, Some(&known(Ok(()), 2, 0)), true)));
        assert!(matches!(
            decide(Some("copier"), false, None, false),
            Decided::Answer(Authority { answer: Err(_), .. })
        ));
        assert!(matches!(decide(Some("copier"), false, Some(&known(Ok(()), 2, 990)), true), Decided::Known));
    }

    /// A rule that a tenant writes once must not be asked about for ever; a rule that is written with its
    /// roles is asked about soon.
    #[test]
    fn a_refusal_is_asked_again_ever_more_seldom() {
        let refused = |questions, refusals| {
            let answer = Err(refusal());
            holds(&Authority { questions, refusals, ..known(answer, 2, 0) }).as_secs()
        };
        assert_eq!([refused(4, 1), refused(4, 9)], [20, 20], "three minutes of quick tries");
        assert_eq!([refused(4, 10), refused(4, 11), refused(4, 12), refused(4, 13)], [40, 80, 160, 300]);
        assert_eq!([refused(33, 1), refused(4288, 1), refused(usize::MAX, u32::MAX)], [60, 300, 300]);
        assert_eq!(holds(&Authority { questions: 4288, ..known(Ok(()), 2, 0) }), ASK_AGAIN);
    }

    #[test]
    fn an_answer_is_news_where_it_says_otherwise_and_ages() {
        let (yes, no) = (known(Ok(()), 2, 10), Err(refusal()));
        assert!(!says_otherwise(Some(&yes), Some(&known(Ok(()), 2, 30))));
        assert!(says_otherwise(Some(&yes), Some(&known(no, 2, 30))));
        assert!(says_otherwise(Some(&yes), Some(&known(Ok(()), 3, 30))));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(!is_too_old(&yes, at(39)) && is_too_old(&yes, at(40)));
        assert!(is_too_old(&yes, at(9)), "the clock was set back");
    }
}
