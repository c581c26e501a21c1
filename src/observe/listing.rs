//! One kind, listed once, in pages: for who looks and goes.

use kube::{Api, Client, api::ListParams};

use super::watched::Watched;

/// Objects a page. Larger than a watch's first list takes: this process does not stay.
const PAGE: u32 = 500;
/// How often a list whose pages have expired is begun anew.
const TRIES: usize = 3;

/// Why a kind could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The API server said no.
    #[error("cannot list {resource} in all namespaces: {message}")]
    Refused {
        /// What was to be listed.
        resource: String,
        /// The API server's words.
        message: String,
    },
    /// The API server does not know the kind.
    #[error(
        "cannot list {resource}: the cluster does not know this kind; is Copyrator installed? \
         copyrator crds | kubectl apply --server-side -f -"
    )]
    NotServed {
        /// What was to be listed.
        resource: String,
    },
    /// Another answer than a list.
    #[error("cannot list {resource}: {message}")]
    Failed {
        /// What was to be listed.
        resource: String,
        /// The API server's words.
        message: String,
    },
    /// No answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

/// Lists every object of a kind, with this field selector.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn list<W: Watched>(client: &Client, fields: Option<&str>) -> Result<Vec<W>, ListError> {
    let api: Api<W> = Api::all(client.clone());
    let first = ListParams::default().limit(PAGE);
    let first = fields.map_or(first.clone(), |fields| first.fields(fields));
    let resource = W::plural(&()).into_owned();
    for _ in 0..TRIES {
        match pages(&api, &first).await {
            Ok(all) => return Ok(all),
            // The rest of the list is of a version that the API server has forgotten.
            Err(kube::Error::Api(status)) if status.code == 410 => {}
            Err(kube::Error::Api(status)) => {
                let message = status.message.clone();
                return Err(match status.code {
                    403 => ListError::Refused { resource, message },
                    404 => ListError::NotServed { resource },
                    _ => ListError::Failed { resource, message },
                });
            }
            Err(error) => return Err(ListError::Unreachable(Box::new(error))),
        }
    }
    let message = format!("the list has expired {TRIES} times before it was read");
    Err(ListError::Failed { resource, message })
}

async fn pages<W: Watched>(api: &Api<W>, first: &ListParams) -> kube::Result<Vec<W>> {
    let (mut all, mut params) = (Vec::new(), first.clone());
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = first.clone().continue_token(&token),
            None => return Ok(all),
        }
    }
}
