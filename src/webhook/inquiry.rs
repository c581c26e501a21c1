//! Asks the API server what a verdict depends on: may the writer do what the object declares?

use std::time::Duration;

use crate::{
    access::{Answers, AskError, Authorizer, MOST_QUESTIONS, refused},
    admit::decide::{Denial, Foresight, Inquiry, LONGEST_MESSAGE, Verdict},
    authority::{Subject, listing_namespaces, refusal, too_many},
};

/// How long a question may take that only decides about a warning: the write waits for it.
const BRIEFLY: Duration = Duration::from_millis(500);

/// Asks, and turns the answers into a verdict.
pub(crate) async fn settle(authorizer: &dyn Authorizer, inquiry: Inquiry) -> Result<Verdict, AskError> {
    let begin = "copyrator: rights are missing: ";
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
    // The ServiceAccount may get its rights later, with the rest of a release, so this refuses nothing.
    match refused(authorizer, &inquiry.expected, MOST_QUESTIONS).await? {
        Answers::Refused(missing) => match missing.first() {
            Some(question) => {
                let place = match question.namespace.as_str() {
                    "" => "all namespaces",
                    namespace => namespace,
                };
                verdict.warn(format!(
                    "copyrator: inert until {} may {} {} in {place}",
                    inquiry.identity, question.verb, question.resource
                ));
            }
            None => tell(authorizer, &inquiry.author, inquiry.foresight, &mut verdict).await,
        },
        Answers::TooMany(_) => {
            verdict.warn("copyrator: inert: too many names and namespaces to ask about one by one".into());
        }
    }
    verdict.audit.insert("identity".into(), inquiry.identity.to_string());
    Ok(verdict)
}

/// Warns of what the write brings about. Users who may not list namespaces are not told which or how many exist, and
/// no write fails because that cannot be asked.
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
