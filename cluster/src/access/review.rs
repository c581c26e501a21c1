//! Inquiries: questions to the API server whether the writer has the rights that the object needs.

use std::time::Duration;

use crate::{
    access::{Answers, AskError, Authorizer, MOST_QUESTIONS, refused},
    admit::decide::{Denial, Foresight, Inquiry, LONGEST_MESSAGE, Verdict},
    authority::{Subject, listing_namespaces, refusal, too_many},
};

/// Timeout of a question that only decides about a warning: the write waits for the answer.
const BRIEFLY: Duration = Duration::from_millis(500);

/// Asks the questions of an inquiry, and returns the verdict.
pub async fn settle(authorizer: &dyn Authorizer, inquiry: Inquiry) -> Result<Verdict, AskError> {
    let begin = "copyrator: missing rights: ";
    let room = LONGEST_MESSAGE.saturating_sub(begin.len());
    match refused(authorizer, &inquiry.required, MOST_QUESTIONS).await? {
        Answers::Refused(none) if none.is_empty() => {}
        Answers::Refused(missing) => {
            let message = begin.to_owned() + &refusal(&missing, &inquiry.of, room);
            return Ok(Verdict::refuse(Denial::Forbidden, &message));
        }
        Answers::TooMany(number) => {
            let message = format!("copyrator: {}", too_many(number, MOST_QUESTIONS));
            return Ok(Verdict::refuse(Denial::Forbidden, &message));
        }
    }
    let mut verdict = inquiry.allow;
    // Missing rights of the ServiceAccount only cause a warning: the ServiceAccount may get the rights later
    // in the same release.
    match refused(authorizer, &inquiry.expected, MOST_QUESTIONS).await? {
        Answers::Refused(missing) => match missing.first() {
            Some(question) => {
                let place = match question.namespace.as_str() {
                    "" => "all namespaces",
                    namespace => namespace,
                };
                verdict.warn(format!(
                    "copyrator: no effect until {} may {} {} in {place}",
                    inquiry.identity, question.verb, question.resource
                ));
            }
            None => tell(authorizer, &inquiry.author, inquiry.foresight, &mut verdict).await,
        },
        Answers::TooMany(_) => {
            verdict.warn("copyrator: no effect: too many names and namespaces to check one by one".into());
        }
    }
    verdict.audit.insert("identity".into(), inquiry.identity.to_string());
    Ok(verdict)
}

/// Warns about the consequences of the write. Users without the right to list namespaces get warnings that
/// neither name nor count namespaces. If this right cannot be checked, the write succeeds all the same.
async fn tell(authorizer: &dyn Authorizer, author: &Subject, foresight: Foresight, verdict: &mut Verdict) {
    let Foresight { told, of_namespaces, instead } = foresight;
    told.into_iter().for_each(|said| verdict.warn(said));
    if of_namespaces.is_empty() {
        return;
    }
    let question = listing_namespaces(author);
    let answer = tokio::time::timeout(BRIEFLY, authorizer.allowed(&question)).await;
    let said = if matches!(answer, Ok(Ok(true))) { of_namespaces } else { instead };
    said.into_iter().for_each(|said| verdict.warn(said));
}
