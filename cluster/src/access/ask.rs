//! Access reviews: asks the API server for a subject's rights (SubjectAccessReview and its variants).

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

/// Timeout of one review.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why a question has no answer, neither yes nor no.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The API server did not answer in time.
    #[error("the API server did not answer an access review within {} s", TIMEOUT.as_secs())]
    TimedOut,
    /// The API server refused the review, or could not be reached.
    #[error("an access review failed")]
    Failed(#[source] Box<kube::Error>),
    /// The question was not sent: the budget for its namespace, or for all reviews, is used up.
    #[error("too many access reviews at once")]
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

/// Answers whether subjects have rights.
pub trait Authorizer: Send + Sync {
    /// Whether the subject of the question has the right.
    ///
    /// # Errors
    /// Returns an error if the API server gave no answer.
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>>;
}

/// Asks by SubjectAccessReview, with the client's own account.
#[derive(Clone)]
pub struct ReviewAuthorizer {
    client: Client,
}

impl ReviewAuthorizer {
    /// Creates an authorizer that asks through this client, whose account needs `create
    /// subjectaccessreviews`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Authorizer for ReviewAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        Box::pin(async move {
            let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let review = review(question);
            let answer = answered(&reviews, &review).await?;
            // A no with an evaluation error (for example, for a binding whose role is gone) stays a no, as
            // for the user's own requests.
            answer.status.map(|status| status.allowed).ok_or(AskError::Unanswered)
        })
    }
}

/// Asks by LocalSubjectAccessReview. The client's account needs a right in each namespace that a question is
/// about, but no cluster-wide right.
#[derive(Clone)]
pub struct LocalAuthorizer {
    client: Client,
}

impl LocalAuthorizer {
    /// Creates an authorizer that asks through this client. The client's account needs
    /// `create localsubjectaccessreviews` in each namespace that a question is about.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Authorizer for LocalAuthorizer {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        Box::pin(async move {
            // A local review cannot ask about all namespaces at once. A no makes the caller ask about each
            // namespace.
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

/// Asks on behalf of the user who runs a command. Every user may ask about their own rights
/// (SelfSubjectAccessReview). Questions about other users need the right to create SubjectAccessReviews, or
/// LocalSubjectAccessReviews in each namespace.
#[derive(Clone)]
pub struct CallerAuthorizer {
    client: Client,
    caller: Subject,
    is_local: bool,
}

impl CallerAuthorizer {
    /// Creates an authorizer for the client's user, after asking the API server for the user's name.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub async fn new(client: Client) -> Result<Self, AskError> {
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

    /// Switches to LocalSubjectAccessReviews for questions about other subjects.
    pub fn locally(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// Returns the user that the client acts as.
    pub fn caller(&self) -> &Subject {
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

/// Returns the API server's answer to a review. Sends the review once more after a connection error, for
/// example if the API server has restarted: a review stores nothing.
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
