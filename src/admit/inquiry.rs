//! The one question a verdict may hang on: may the writer do what he declares?

use super::decide::{Inquiry, Verdict};
use crate::authority::{AskError, Authorizer, first_refused, refusal};

/// Asks, and turns the answers into a verdict.
pub(crate) async fn settle(authorizer: &dyn Authorizer, inquiry: Inquiry) -> Result<Verdict, AskError> {
    if let Some(question) = first_refused(authorizer, &inquiry.required).await? {
        let message = format!(
            "copyrator: it would act with the rights of {}: {}",
            inquiry.identity,
            refusal(question, &inquiry.required)
        );
        return Ok(Verdict::refuse(403, "Forbidden", &message));
    }
    let mut verdict = inquiry.allow;
    // The account's rights may come later, with the rest of a release: no reason to refuse.
    if let Some(question) = first_refused(authorizer, &inquiry.expected).await? {
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
