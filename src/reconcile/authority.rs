//! Whose rights a rule or monitor acts with, asked as rarely as is safe.
//!
//! An author is asked for once for each written spec, as RBAC's own escalation check does; that he leaves later
//! changes nothing. A ServiceAccount is asked for again before the last answer is too old to write by, and whoever
//! names one must have been allowed to impersonate it when he wrote the spec. A refusal is asked again in a while:
//! a right given since counts.
//!
//! Only the keys of rules and monitors ask, and a key runs once at a time: that is what keeps 16 workers from asking
//! the same questions, and a slow answer from replacing a newer one.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Again;
use crate::{
    authority::{
        AskError, Authorizer, Identity, IdentityRequired, Question, Subject, TrustedWriters, author,
        impersonation, monitor_questions, rule_questions_within, settle,
    },
    model::{Authority, Declared, NamespacedName, World},
    plan::{claims::unseen_source, targets::within},
};

/// How old an answer about a ServiceAccount may be when something is written with it.
pub(super) const ACCOUNT_ANSWER: SignedDuration = SignedDuration::from_secs(30);
/// When a ServiceAccount is asked for again, and an author who was refused: in good time for the next write.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(20);

/// What is known before the API server is asked.
pub(super) struct Asking<'a> {
    pub(super) of: &'a NamespacedName,
    pub(super) uid: &'a str,
    pub(super) generation: i64,
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) account: Option<&'a str>,
    /// This very spec was granted, also by an earlier leader, as its status proves.
    pub(super) granted: bool,
    pub(super) known: Option<&'a Authority>,
}

/// What follows from it.
pub(crate) enum Decided {
    /// The answer at hand is good.
    Known,
    /// The answer needs no asking.
    Answer(Authority),
    /// These questions have to be asked.
    Ask(Inquiry),
}

/// Questions to ask on behalf of one object.
pub(crate) struct Inquiry {
    of: NamespacedName,
    uid: Box<str>,
    generation: i64,
    identity: Identity,
    questions: Vec<Question>,
}

impl Inquiry {
    pub(crate) async fn ask(
        &self,
        authorizer: &dyn Authorizer,
        now: Timestamp,
    ) -> Result<Authority, AskError> {
        let version = (&*self.uid, self.generation);
        settle(authorizer, &self.of, version, &self.identity, &self.questions, now).await
    }
}

impl<'a> Asking<'a> {
    pub(super) fn of<S, C, T>(
        of: &'a NamespacedName,
        facts: &'a Declared<S, C, T>,
        account: Option<&'a str>,
        granted: bool,
        known: Option<&'a Authority>,
    ) -> Self {
        let Declared { uid, generation, annotations, .. } = facts;
        Self { of, uid, generation: *generation, annotations, account, granted, known }
    }

    /// `declared` says what the spec needs, of whom it is asked.
    pub(super) fn decide(
        &self,
        trusted: &TrustedWriters,
        declared: impl FnOnce(&Subject) -> Vec<Question>,
        now: Timestamp,
    ) -> Decided {
        let identity = match Identity::of_stored(&self.of.namespace, self.account, self.annotations, trusted)
        {
            Ok(identity) => identity,
            Err(required) => return self.refused(&required, now),
        };
        let is_of_this = |known: &&Authority| *known.uid == *self.uid && known.generation == self.generation;
        let known = self.known.filter(is_of_this);
        let granted = self.granted || known.is_some_and(|known| known.answer.is_ok());
        if let Some(known) = known {
            let may_age = self.account.is_none() && known.answer.is_ok();
            if may_age || now.duration_since(known.asked) < ASK_AGAIN {
                return Decided::Known;
            }
        }
        if self.account.is_none() && granted {
            return Decided::Answer(self.authority(identity.to_string(), Ok(()), now));
        }
        let mut questions = declared(&identity.subject());
        if let Some(account) = self.account.filter(|_| !granted) {
            match author(self.annotations) {
                Ok(writer) => questions.insert(0, impersonation(&self.of.namespace, account, &writer)),
                Err(required) => return self.refused(&required, now),
            }
        }
        let Self { of, uid, generation, .. } = *self;
        Decided::Ask(Inquiry { of: of.clone(), uid: uid.into(), generation, identity, questions })
    }

    /// This very spec was granted before.
    pub(super) fn is_granted(&self) -> bool {
        let is_of_this = |known: &&Authority| *known.uid == *self.uid && known.generation == self.generation;
        self.granted || self.known.filter(is_of_this).is_some_and(|known| known.answer.is_ok())
    }

    /// Where no hook of ours can be, not even a rule's stamp is worth anything without the policies.
    pub(super) fn unguarded(&self, world: &World, now: Timestamp) -> Decided {
        if world.places.is_some() && self.of.annotated().is_none() {
            let message = "the admission policy copyrator-author-honest is not in force, so anybody could have written who \
                           wrote this spec: have an administrator apply what `copyrator crds` prints, then write the \
                           spec again";
            let why = (IdentityRequired::REASON.to_owned(), message.to_owned());
            return Decided::Answer(self.authority("none".into(), Err(why), now));
        }
        let message = "the admission policy copyrator-annotations-honest is not in force, so anybody could have written \
                       who asks for this: have an administrator apply what `copyrator crds` prints, then change the \
                       annotation";
        let why = (IdentityRequired::REASON.to_owned(), message.to_owned());
        Decided::Answer(self.authority("none".into(), Err(why), now))
    }

    fn refused(&self, required: &IdentityRequired, now: Timestamp) -> Decided {
        let why = (IdentityRequired::REASON.to_owned(), required.to_string());
        Decided::Answer(self.authority("none".into(), Err(why), now))
    }

    fn authority(&self, identity: String, answer: Result<(), (String, String)>, now: Timestamp) -> Authority {
        Authority { uid: self.uid.into(), generation: self.generation, identity, answer, asked: now }
    }
}

/// What has to be asked about a rule; `None` where it is gone or not understood, or where it is not known yet whether
/// its author's stamp is worth anything.
pub(crate) fn about_rule(
    world: &World,
    rule: &NamespacedName,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> Option<Decided> {
    let facts = world.rules.get(rule).filter(|facts| facts.compiled.is_ok())?;
    let account = facts.spec.service_account_name.as_deref();
    let compiled = facts.compiled.as_ref().ok()?;
    // Nobody can be asked about a namespace that is not seen, and nothing is done before it is.
    if unseen_source(world, rule, compiled).is_some() {
        return None;
    }
    let within = within(world, rule, compiled);
    let granted = world.key.as_ref().is_some_and(|key| facts.is_granted(key, within.as_ref()));
    let known = world.rule_authority.get(rule);
    let asking = Asking::of(rule, facts, account, granted, known);
    if stamp_must_be_guarded(world, rule) && !asking.is_granted() && !world.stamps_guarded? {
        return Some(asking.unguarded(world, now));
    }
    let declared =
        |subject: &_| rule_questions_within(&rule.namespace, &facts.spec, subject, within.as_ref());
    Some(asking.decide(trusted, declared, now))
}

/// Whether a stamp could have been forged but for admission policies: with hooks, rules and monitors cannot be written before
/// their policies are there.
fn stamp_must_be_guarded(world: &World, of: &NamespacedName) -> bool {
    of.annotated().is_some() || world.places.is_some()
}

/// The same about a monitor.
pub(crate) fn about_monitor(
    world: &World,
    monitor: &NamespacedName,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> Option<Decided> {
    let facts = world.monitors.get(monitor).filter(|facts| facts.compiled.is_ok())?;
    let account = facts.spec.service_account_name.as_deref();
    let granted = world.key.as_ref().is_some_and(|key| facts.is_granted(key));
    let known = world.monitor_authority.get(monitor);
    let asking = Asking::of(monitor, facts, account, granted, known);
    if stamp_must_be_guarded(world, monitor) && !asking.is_granted() && !world.stamps_guarded? {
        return Some(asking.unguarded(world, now));
    }
    let declared = |subject: &_| monitor_questions(&monitor.namespace, &facts.spec, subject);
    Some(asking.decide(trusted, declared, now))
}

/// Keeps an answer, unless what was asked about has changed or gone meanwhile.
pub(super) fn keep<S, C, T>(
    answers: &mut BTreeMap<NamespacedName, Authority>,
    of: &NamespacedName,
    facts: Option<&Declared<S, C, T>>,
    answer: Authority,
) {
    let is_of = |facts: &Declared<S, C, T>| facts.uid == answer.uid && facts.generation == answer.generation;
    let is_newer = |known: &Authority| known.uid != answer.uid || known.asked <= answer.asked;
    if facts.is_some_and(is_of) && answers.get(of).is_none_or(is_newer) {
        answers.insert(of.clone(), answer);
    }
}

/// Forgets what is too old to act by, where nobody answers any more.
pub(super) fn forget_old(
    answers: &mut BTreeMap<NamespacedName, Authority>,
    of: &NamespacedName,
    account: bool,
    now: Timestamp,
) {
    let is_old = |known: &Authority| now.duration_since(known.asked) >= ACCOUNT_ANSWER;
    if account && answers.get(of).is_some_and(is_old) {
        answers.remove(of);
    }
}

/// Whether the answer says something new: what depends on it is looked at only then.
pub(super) fn says_otherwise(before: Option<&Authority>, after: Option<&Authority>) -> bool {
    let says = |known: &Authority| (known.uid.clone(), known.generation, known.answer.clone());
    before.map(says) != after.map(says)
}

/// When to ask again, seen from a settled object.
pub(super) fn ask_again(account: bool, authority: Option<&Authority>) -> Again {
    let refused = authority.is_some_and(|authority| authority.answer.is_err());
    if account || refused { Again::After(ASK_AGAIN.unsigned_abs()) } else { Again::OnChange }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::{AUTHOR, AUTHOR_GROUPS};

    fn decide(account: Option<&str>, granted: bool, known: Option<&Authority>, stamp: bool) -> Decided {
        let mut annotations = BTreeMap::new();
        if stamp {
            annotations.insert(AUTHOR.to_owned(), "alice".to_owned());
            annotations.insert(AUTHOR_GROUPS.to_owned(), "[]".to_owned());
        }
        let asking = Asking {
            of: &NamespacedName::new("shop", "web"),
            uid: "u",
            generation: 2,
            annotations: &annotations,
            account,
            granted,
            known,
        };
        asking.decide(&TrustedWriters::default(), |_| Vec::new(), Timestamp::from_second(1_000).unwrap())
    }

    fn known(answer: Result<(), (String, String)>, generation: i64, asked: i64) -> Authority {
        let asked = Timestamp::from_second(asked).unwrap();
        Authority { uid: "u".into(), generation, identity: String::new(), answer, asked }
    }

    #[test]
    fn an_author_is_asked_once_for_each_generation() {
        assert!(matches!(decide(None, false, None, true), Decided::Ask(_)));
        assert!(matches!(decide(None, false, Some(&known(Ok(()), 2, 0)), true), Decided::Known));
        assert!(matches!(decide(None, false, Some(&known(Ok(()), 1, 999)), true), Decided::Ask(_)));
        assert!(matches!(decide(None, true, None, true), Decided::Answer(Authority { answer: Ok(()), .. })));
        let no = || Err(("Forbidden".to_owned(), String::new()));
        assert!(matches!(decide(None, false, Some(&known(no(), 2, 990)), true), Decided::Known));
        assert!(matches!(decide(None, false, Some(&known(no(), 2, 0)), true), Decided::Ask(_)));
        assert!(matches!(decide(None, true, None, false), Decided::Answer(Authority { answer: Err(_), .. })));
    }

    /// A rule written while the hooks are off is no stronger: its writer must be allowed to impersonate the account.
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

    /// An answer that came too late, about a spec that is no more, or after a newer one, counts for nothing.
    #[test]
    fn an_answer_is_kept_only_for_what_was_asked_about() {
        let facts = |uid: &str, generation| Declared::<(), (), ()> {
            uid: uid.into(),
            resource_version: "1".into(),
            generation,
            created: Timestamp::UNIX_EPOCH,
            annotations: BTreeMap::new(),
            spec: (),
            compiled: Err(Vec::new()),
            status: None,
        };
        let of = NamespacedName::new("shop", "web");
        let mut answers = BTreeMap::new();
        for gone in [None, Some(facts("u", 3)), Some(facts("another", 2))] {
            keep(&mut answers, &of, gone.as_ref(), known(Ok(()), 2, 10));
            assert!(answers.is_empty());
        }
        let there = facts("u", 2);
        keep(&mut answers, &of, Some(&there), known(Ok(()), 2, 10));
        let no = || Err(("Forbidden".to_owned(), String::new()));
        keep(&mut answers, &of, Some(&there), known(no(), 2, 9));
        assert!(answers[&of].answer.is_ok(), "an older answer replaced a newer one");
        assert!(!says_otherwise(answers.get(&of), Some(&known(Ok(()), 2, 30))));
        assert!(says_otherwise(answers.get(&of), Some(&known(no(), 2, 30))));
        assert!(says_otherwise(answers.get(&of), Some(&known(Ok(()), 3, 30))));

        let at = |second| Timestamp::from_second(second).unwrap();
        forget_old(&mut answers, &of, false, at(1_000));
        forget_old(&mut answers, &of, true, at(39));
        assert_eq!(answers.len(), 1);
        forget_old(&mut answers, &of, true, at(40));
        assert!(answers.is_empty());
    }
}
