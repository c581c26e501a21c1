//! A visit of a page: the caller and the request. If the view takes long, the answer begins with the frame
//! and a placeholder. The view follows in the same answer, and `style.css` hides the placeholder.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{
    Extension as Shared,
    body::Body,
    extract::FromRequestParts,
    response::{Html, IntoResponse as _, Response},
};
use futures::{FutureExt as _, StreamExt as _, future::ready};
use http::{HeaderMap, request::Parts};
use maud::{Markup, PreEscaped, html};
use tokio::time::timeout;

use super::frame::{Frame, trouble};
use crate::{asked::Asked, problem::Problem, seat::Seat, stay::Stay};

/// How long an answer waits for its view, unless the client requests more. A refusal by the API server within
/// that time sets the status code.
const AT_ONCE: Duration = Duration::from_millis(150);
/// Marks the place of a late view. User input cannot forge the mark, since maud escapes input.
const HERE: &str = "<!-- the view -->";

/// One request for a page.
pub(super) struct Visit {
    pub seat: Arc<Seat>,
    pub asked: Asked,
    pub frame: Frame,
    stay: Stay,
    /// How long the answer waits for the view before it begins without the view.
    patience: Duration,
}

/// The future of a view.
type Coming = Pin<Box<dyn Future<Output = Result<Markup, Problem>> + Send>>;

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Response;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Response> {
        let asked = Asked::from_request_parts(head, state).await.map_err(|wrong| wrong.into_response())?;
        let seat = Shared::<Arc<Seat>>::from_request_parts(head, state).await;
        let Shared(seat) = seat.map_err(|absent| absent.into_response())?;
        let stay = Shared::<Stay>::from_request_parts(head, state).await;
        let Shared(stay) = stay.map_err(|absent| absent.into_response())?;
        let frame = Frame::of(&seat, &asked).await;
        let patience = preferred_wait(&head.headers).unwrap_or(AT_ONCE);
        Ok(Self { seat, asked, frame, stay, patience })
    }
}

/// The seconds of `Prefer: wait=10` (RFC 7240). Programs set this header to get a whole page with its status
/// code. [`Stay`] limits the wait.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = said.flat_map(|value| value.split(','));
    let seconds = preferences.find_map(|one| one.trim().strip_prefix("wait=")?.parse().ok());
    seconds.map(Duration::from_secs)
}

impl Visit {
    /// Returns the visit with other query parameters.
    pub(super) fn asking(self, asked: Asked) -> Self {
        let frame = self.frame.about(&self.seat, &asked);
        Self { asked, frame, ..self }
    }

    /// Returns the page with the view, or with the problem.
    pub(super) async fn answer<V>(
        self,
        path: &'static str,
        title: &str,
        view: impl FnOnce(Arc<Self>) -> V,
    ) -> Response
    where
        V: Future<Output = Result<Markup, Problem>> + Send + 'static,
    {
        let (stay, patience, visit) = (self.stay.clone(), self.patience, Arc::new(self));
        let view = view(visit.clone());
        let mut coming: Coming = Box::pin(async move { stay.within(view).await.flatten() });
        match timeout(patience, &mut coming).await {
            Ok(Ok(view)) => visit.frame.page(path, title, &view).into_response(),
            Ok(Err(problem)) => visit.frame.problem(path, &problem),
            Err(_) => visit.begin(path, title, coming),
        }
    }

    /// Starts the page without its view, which follows. If the view fails, the page shows the problem, since
    /// the status code is already sent.
    fn begin(self: Arc<Self>, path: &str, title: &str, coming: Coming) -> Response {
        let body = html! { (self.frame.looking(title)) (PreEscaped(HERE)) };
        let page = self.frame.page(path, title, &body).into_string();
        let (before, after) = page.split_once(HERE).unwrap_or((&page, ""));
        let after = after.to_owned();
        let rest =
            coming.map(move |view| view.unwrap_or_else(|problem| trouble(&problem).1).into_string() + &after);
        let parts = ready(before.to_owned()).into_stream().chain(rest.into_stream());
        Html(Body::from_stream(parts.map(Ok::<_, Infallible>))).into_response()
    }
}
