//! Asks what a spec needs, and keeps the outcome.

use futures::future::try_join_all;
use jiff::Timestamp;

use super::{AskError, Authorizer, Identity, Question, refusal};
use crate::model::{Authority, NamespacedName};

/// How many questions are under way at once.
const AT_ONCE: usize = 8;

/// The longest refusal that a status tells, in bytes.
const LONGEST: usize = 8 << 10;

/// Asks everything that an object needs, and says whether its identity may.
///
/// # Errors
/// There was no answer: what was known before stays, until it is too old.
pub async fn settle(
    authorizer: &dyn Authorizer,
    of: &NamespacedName,
    version: (&str, i64),
    identity: &Identity,
    questions: &[Question],
    now: Timestamp,
) -> Result<Authority, AskError> {
    let refused = refused(authorizer, questions).await?;
    let (uid, generation) = version;
    Ok(Authority {
        uid: uid.into(),
        generation,
        identity: identity.to_string(),
        answer: match refused.is_empty() {
            true => Ok(()),
            false => Err(("Forbidden".into(), refusal(&refused, of, LONGEST))),
        },
        asked: now,
    })
}

/// The questions whose answer is no, in order. Where one thing is asked of several namespaces, a yes for all of them
/// answers each.
///
/// # Errors
/// A question was not answered.
pub async fn refused<'q>(
    authorizer: &dyn Authorizer,
    questions: &'q [Question],
) -> Result<Vec<&'q Question>, AskError> {
    let mut narrow: Vec<&Question> = Vec::new();
    for (everywhere, of) in groups(questions) {
        if of.len() > 1 && authorizer.allowed(&everywhere).await? {
            continue;
        }
        narrow.extend(of);
    }
    let mut refused = Vec::new();
    for some in narrow.chunks(AT_ONCE) {
        let answers = try_join_all(some.iter().map(|question| authorizer.allowed(question))).await?;
        refused
            .extend(some.iter().zip(answers).filter(|(_, allowed)| !allowed).map(|(question, _)| *question));
    }
    Ok(refused)
}

/// The questions that differ by namespace alone, with the question that covers them.
fn groups(questions: &[Question]) -> Vec<(Question, Vec<&Question>)> {
    let mut groups: Vec<(Question, Vec<&Question>)> = Vec::new();
    for question in questions {
        let everywhere = Question { namespace: String::new(), ..question.clone() };
        match groups.iter_mut().find(|(known, _)| *known == everywhere) {
            Some((_, of)) => of.push(question),
            None => groups.push((everywhere, vec![question])),
        }
    }
    groups
}
