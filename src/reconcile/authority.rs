//! Whose rights a rule or monitor acts with, asked as rarely as is safe.
//!
//! An author is asked for once for each written spec, as RBAC's own escalation check does; that he leaves later
//! changes nothing. A ServiceAccount is asked for again when the last answer is too old to write by, and whoever
//! names one must have been allowed to impersonate it when he wrote the spec. A refusal is asked again in a while:
//! a right given since counts.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::Again;
use crate::{
    authority::{
        AskError, Authorizer, Identity, IdentityRequired, Question, Subject, TrustedWriters, author,
        impersonation, settle,
    },
    model::{Authority, Declared},
};

/// How old an answer about a ServiceAccount may be when something is written with it.
pub(super) const ACCOUNT_ANSWER: SignedDuration = SignedDuration::from_secs(30);
/// When a ServiceAccount is asked for again, and an author who was refused.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What is known before the API server is asked.
pub(super) struct Asking<'a> {
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    pub(super) generation: i64,
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) account: Option<&'a str>,
    /// The generation that an earlier leader settled, from the status, which nobody else may write.
    pub(super) settled: Option<i64>,
    pub(super) known: Option<&'a Authority>,
}

/// What follows from it.
pub(super) enum Decided {
    /// The answer at hand is good.
    Known,
    /// The answer needs no asking.
    Answer(Authority),
    /// These questions have to be asked.
    Ask(Inquiry),
}

/// Questions to ask on behalf of one object.
pub(super) struct Inquiry {
    uid: Box<str>,
    generation: i64,
    identity: Identity,
    questions: Vec<Question>,
}

impl Inquiry {
    pub(super) async fn ask(
        &self,
        authorizer: &dyn Authorizer,
        now: Timestamp,
    ) -> Result<Authority, AskError> {
        settle(authorizer, &self.uid, self.generation, &self.identity, &self.questions, now).await
    }
}

impl<'a> Asking<'a> {
    pub(super) fn of<S, C, T>(
        namespace: &'a str,
        facts: &'a Declared<S, C, T>,
        account: Option<&'a str>,
        settled: Option<i64>,
        known: Option<&'a Authority>,
    ) -> Self {
        let Declared { uid, generation, annotations, .. } = facts;
        Self { namespace, uid, generation: *generation, annotations, account, settled, known }
    }

    /// `declared` says what the spec needs, of whom it is asked.
    pub(super) fn decide(
        &self,
        trusted: &TrustedWriters,
        declared: impl FnOnce(&Subject) -> Vec<Question>,
        now: Timestamp,
    ) -> Decided {
        let identity = match Identity::of_stored(self.namespace, self.account, self.annotations, trusted) {
            Ok(identity) => identity,
            Err(required) => return self.refused(&required, now),
        };
        let is_of_this = |known: &&Authority| *known.uid == *self.uid && known.generation == self.generation;
        let known = self.known.filter(is_of_this);
        let granted =
            known.is_some_and(|known| known.answer.is_ok()) || self.settled == Some(self.generation);
        if let Some(known) = known {
            let may_age = self.account.is_none() && known.answer.is_ok();
            if may_age || now.duration_since(known.asked) < ACCOUNT_ANSWER {
                return Decided::Known;
            }
        }
        if self.account.is_none() && granted {
            return Decided::Answer(self.authority(identity.to_string(), Ok(()), now));
        }
        let mut questions = declared(&identity.subject());
        if let Some(account) = self.account.filter(|_| !granted) {
            match author(self.annotations) {
                Ok(writer) => questions.insert(0, impersonation(self.namespace, account, &writer)),
                Err(required) => return self.refused(&required, now),
            }
        }
        Decided::Ask(Inquiry { uid: self.uid.into(), generation: self.generation, identity, questions })
    }

    fn refused(&self, required: &IdentityRequired, now: Timestamp) -> Decided {
        let why = (IdentityRequired::REASON.to_owned(), required.to_string());
        Decided::Answer(self.authority("none".into(), Err(why), now))
    }

    fn authority(&self, identity: String, answer: Result<(), (String, String)>, now: Timestamp) -> Authority {
        Authority { uid: self.uid.into(), generation: self.generation, identity, answer, asked: now }
    }
}

/// When to ask again, seen from a settled object.
pub(super) fn ask_again(account: bool, authority: Option<&Authority>) -> Again {
    let refused = authority.is_some_and(|authority| authority.answer.is_err());
    if account || refused { Again::After(ASK_AGAIN) } else { Again::OnChange }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::{AUTHOR, AUTHOR_GROUPS};

    fn decide(
        account: Option<&str>,
        settled: Option<i64>,
        known: Option<&Authority>,
        stamp: bool,
    ) -> Decided {
        let mut annotations = BTreeMap::new();
        if stamp {
            annotations.insert(AUTHOR.to_owned(), "alice".to_owned());
            annotations.insert(AUTHOR_GROUPS.to_owned(), "[]".to_owned());
        }
        let asking = Asking {
            namespace: "shop",
            uid: "u",
            generation: 2,
            annotations: &annotations,
            account,
            settled,
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
        assert!(matches!(decide(None, None, None, true), Decided::Ask(_)));
        assert!(matches!(decide(None, None, Some(&known(Ok(()), 2, 0)), true), Decided::Known));
        assert!(matches!(decide(None, None, Some(&known(Ok(()), 1, 999)), true), Decided::Ask(_)));
        assert!(matches!(
            decide(None, Some(2), None, true),
            Decided::Answer(Authority { answer: Ok(()), .. })
        ));
        assert!(matches!(decide(None, Some(1), None, true), Decided::Ask(_)));
        let no = || Err(("Forbidden".to_owned(), String::new()));
        assert!(matches!(decide(None, None, Some(&known(no(), 2, 990)), true), Decided::Known));
        assert!(matches!(decide(None, None, Some(&known(no(), 2, 0)), true), Decided::Ask(_)));
        assert!(matches!(
            decide(None, Some(2), None, false),
            Decided::Answer(Authority { answer: Err(_), .. })
        ));
    }

    /// A rule written while the hooks are off is no stronger: its writer must be allowed to impersonate the account.
    #[test]
    fn naming_an_account_takes_the_right_to_impersonate_it() {
        let asks = |decided| match decided {
            Decided::Ask(inquiry) => inquiry.questions.iter().any(|question| question.verb == "impersonate"),
            _ => panic!("nothing is asked"),
        };
        assert!(asks(decide(Some("copier"), None, None, true)));
        assert!(!asks(decide(Some("copier"), Some(2), None, true)));
        assert!(!asks(decide(Some("copier"), None, Some(&known(Ok(()), 2, 0)), true)));
        assert!(matches!(
            decide(Some("copier"), None, None, false),
            Decided::Answer(Authority { answer: Err(_), .. })
        ));
        assert!(matches!(decide(Some("copier"), None, Some(&known(Ok(()), 2, 990)), true), Decided::Known));
    }
}
