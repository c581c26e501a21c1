//! Asks the API server what a subject may do, by SubjectAccessReview and its kin.

use std::{collections::BTreeMap, fmt, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{
        LocalSubjectAccessReview, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};

use crate::authority::{Question, Subject};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why a question has no answer, neither yes nor no.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The API server did not answer in time.
    #[error("asking the API server for an access review took longer than {} s", TIMEOUT.as_secs())]
    TimedOut,
    /// The API server refused the review, or could not be reached.
    #[error("asking the API server for an access review failed")]
    Failed(#[source] Box<kube::Error>),
    /// The question was not sent: the budget for its namespace, or for all reviews, is used up.
    #[error("more access reviews are asked for than are answered at once")]
    OverBudget,
    /// The API server's answer had no status.
    #[error("the API server answered an access review without a status")]
    Unanswered,
}

impl AskError {
    /// Whether our account lacks the right to ask.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Failed(error) if matches!(&**error, kube::Error::Api(status) if status.code == 403))
    }
}

/// Answers whether a subject has a right.
pub trait Authorizer: Send + Sync {
    /// Whether the subject of the question has the right.
    ///
    /// # Errors
    /// There was no answer.
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>>;
}

/// Asks by SubjectAccessReview, with the client's own account.
#[derive(Clone)]
pub(crate) struct ReviewAuthorizer {
    client: Client,
}

impl ReviewAuthorizer {
    /// Asks through this client, whose account needs `create subjectaccessreviews`.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Authorizer for ReviewAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        Box::pin(async move {
            let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let review = review(question);
            let answer = answered(&reviews, &review).await?;
            // An evaluation error beside a no (for example a binding whose role is gone) stays a no, as it
            // does for the user's own requests.
            answer.status.map(|status| status.allowed).ok_or(AskError::Unanswered)
        })
    }
}

/// Asks by LocalSubjectAccessReview, which takes a right in each namespace that is asked about, and none over
/// the cluster.
#[derive(Clone)]
pub(crate) struct LocalAuthorizer {
    client: Client,
}

impl LocalAuthorizer {
    /// Asks through this client, whose account needs `create localsubjectaccessreviews` wherever it asks.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Authorizer for LocalAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        Box::pin(async move {
            // A local review cannot ask about all namespaces at once. The answer is never yes, so that each
            // namespace is asked about by itself.
            if question.namespace.is_empty() {
                return Ok(false);
            }
            let reviews: Api<LocalSubjectAccessReview> =
                Api::namespaced(self.client.clone(), &question.namespace);
            let metadata =
                ObjectMeta { namespace: Some(question.namespace.clone()), ..ObjectMeta::default() };
            let review = LocalSubjectAccessReview { metadata, spec: review(question).spec, status: None };
            let answer = answered(&reviews, &review).await?;
            answer.status.map(|status| status.allowed).ok_or(AskError::Unanswered)
        })
    }
}

/// Asks on behalf of the person who runs a command. Everybody may ask about their own rights
/// (SelfSubjectAccessReview). Questions about others need the right to create SubjectAccessReviews, or
/// LocalSubjectAccessReviews in each namespace.
#[derive(Clone)]
pub(crate) struct CallerAuthorizer {
    client: Client,
    caller: Subject,
    is_local: bool,
}

impl CallerAuthorizer {
    /// Asks the API server who the client's user is.
    ///
    /// # Errors
    /// The API server did not say.
    pub(crate) async fn new(client: Client) -> Result<Self, AskError> {
        let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
        let review = SelfSubjectReview::default();
        let answer = answered(&reviews, &review).await?;
        let info = answer.status.and_then(|status| status.user_info).ok_or(AskError::Unanswered)?;
        let caller = Subject {
            user: info.username.unwrap_or_default(),
            uid: info.uid.unwrap_or_default(),
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        };
        Ok(Self { client, caller, is_local: false })
    }

    /// The same, with a LocalSubjectAccessReview for each namespace.
    pub(crate) fn locally(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// The user that the client acts as, whose rights count for its questions.
    pub(crate) fn caller(&self) -> &Subject {
        &self.caller
    }
}

impl Authorizer for CallerAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let Subject { user, groups, .. } = &question.subject;
        if (user, groups) != (&self.caller.user, &self.caller.groups) {
            let client = self.client.clone();
            return Box::pin(async move {
                match self.is_local {
                    true => LocalAuthorizer::new(client).allowed(question).await,
                    false => ReviewAuthorizer::new(client).allowed(question).await,
                }
            });
        }
        Box::pin(async move {
            let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes(question)),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = answered(&reviews, &review).await?;
            answer.status.map(|status| status.allowed).ok_or(AskError::Unanswered)
        })
    }
}

/// The API server's answer to a review. A connection that it has closed, as when it restarts, is noticed by the next request: that
/// one is made again, once, since a review stores nothing.
async fn answered<K>(reviews: &Api<K>, review: &K) -> Result<K, AskError>
where
    K: Clone + DeserializeOwned + Serialize + fmt::Debug,
{
    let params = PostParams::default();
    let ask = async {
        match reviews.create(&params, review).await {
            Err(error) if !matches!(error, kube::Error::Api(_)) => reviews.create(&params, review).await,
            answer => answer,
        }
    };
    let asked = tokio::time::timeout(TIMEOUT, ask).await;
    asked.map_err(|_| AskError::TimedOut)?.map_err(|error| AskError::Failed(Box::new(error)))
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
            resource_attributes: Some(attributes(question)),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

fn attributes(question: &Question) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(question.verb.into()),
        group: Some(question.group.clone().into_owned()),
        version: Some("*".into()),
        resource: Some(question.resource.clone().into_owned()),
        subresource: question.subresource.map(Into::into),
        name: question.name.clone(),
        namespace: Some(question.namespace.clone()),
        ..ResourceAttributes::default()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use crate::authority::listing_namespaces;

    /// As after a restart of the API server, whose closed connections are still in the pool.
    #[tokio::test]
    async fn a_review_that_met_a_closed_connection_is_asked_once_more() {
        for (broken, expected) in [(0, Some(true)), (1, Some(true)), (2, None)] {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = asked.clone();
            let server = tower::service_fn(move |_: Request<Body>| {
                let is_broken = counted.fetch_add(1, Ordering::Relaxed) < broken;
                async move {
                    match is_broken {
                        true => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                        false => {
                            let answer = r#"{"metadata": {}, "spec": {"resourceAttributes": {}}, "status": {"allowed": true}}"#;
                            Ok(Response::new(Body::from(answer.as_bytes().to_vec())))
                        }
                    }
                }
            });
            let authorizer = ReviewAuthorizer::new(Client::new(server, "shop"));
            let answer = authorizer.allowed(&listing_namespaces(&Subject::default())).await;
            assert_eq!(answer.ok(), expected, "{broken} times broken");
            assert_eq!(asked.load(Ordering::Relaxed), 2.min(broken + 1));
        }
    }
}
