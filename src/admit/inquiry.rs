//! The one question a verdict may hang on: may the writer do what he declares?

use super::decide::{Inquiry, LONGEST_MESSAGE, Verdict};
use crate::authority::{AskError, Authorizer, refusal, refused};

/// Asks, and turns the answers into a verdict.
pub(crate) async fn settle(authorizer: &dyn Authorizer, inquiry: Inquiry) -> Result<Verdict, AskError> {
    let missing = refused(authorizer, &inquiry.required).await?;
    if !missing.is_empty() {
        let begin = format!("copyrator: it would act with the rights of {}: ", inquiry.identity);
        let room = LONGEST_MESSAGE.saturating_sub(begin.len());
        let message = begin + &refusal(&missing, &inquiry.of, room);
        return Ok(Verdict::refuse(403, "Forbidden", &message));
    }
    let mut verdict = inquiry.allow;
    // The account's rights may come later, with the rest of a release: no reason to refuse.
    if let Some(question) = refused(authorizer, &inquiry.expected).await?.first() {
        let place = match question.namespace.as_str() {
            "" => "all namespaces",
            namespace => namespace,
        };
        verdict.warn(format!(
            "copyrator: inert until {} may {} {} in {place}",
            inquiry.identity, question.verb, question.resource
        ));
    }
    verdict.audit.insert("identity".into(), inquiry.identity.to_string());
    Ok(verdict)
}
