//! Asks the API server.

use std::{collections::BTreeMap, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

use super::Question;

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why there is no answer: neither a yes nor a no.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It took too long.
    #[error("asking the API server for an access review took longer than {} s", TIMEOUT.as_secs())]
    TimedOut,
    /// The API server could not be asked.
    #[error("asking the API server for an access review failed")]
    Failed(#[source] Box<kube::Error>),
    /// The answer said neither.
    #[error("the API server answered an access review without a status")]
    Unanswered,
}

/// Somebody who knows what is allowed.
pub trait Authorizer: Send + Sync {
    /// Whether it is allowed.
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>>;
}

/// Asks by SubjectAccessReview, with the client's own account.
#[derive(Clone)]
pub struct ReviewAuthorizer {
    client: Client,
}

impl ReviewAuthorizer {
    /// Asks through this client, whose account needs `create subjectaccessreviews`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Authorizer for ReviewAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        Box::pin(async move {
            let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let (review, params) = (review(question), PostParams::default());
            let asked = tokio::time::timeout(TIMEOUT, reviews.create(&params, &review)).await;
            let answer =
                asked.map_err(|_| AskError::TimedOut)?.map_err(|error| AskError::Failed(Box::new(error)))?;
            // An evaluation error (a binding whose role is gone, for one) beside a no stays a no, as it does for
            // the user's own requests.
            answer.status.map(|status| status.allowed).ok_or(AskError::Unanswered)
        })
    }
}

fn review(question: &Question) -> SubjectAccessReview {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let subject = &question.subject;
    let extra: BTreeMap<_, _> = subject.extra.clone();
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(subject.user.clone()),
            uid: text(&subject.uid),
            groups: Some(subject.groups.clone()),
            extra: (!extra.is_empty()).then_some(extra),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(question.verb.into()),
                group: Some(question.group.into()),
                version: Some("*".into()),
                resource: Some(question.resource.into()),
                subresource: question.subresource.map(Into::into),
                name: question.name.clone(),
                namespace: Some(question.namespace.clone()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
