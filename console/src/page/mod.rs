//! The web pages, server-rendered from the same answers as the API.

mod frame;
mod live;
mod object;
mod overview;
mod policies;
mod restarts;
mod spread;
mod state;
#[cfg(test)]
mod tests;
mod visit;

use axum::{Router, body::Body, response::Response, routing::get};
use http::{HeaderValue, header};

pub(super) use self::frame::bare;

/// The router of all views, each at its path.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/", get(overview::view))
        .route("/where", get(spread::view))
        .route("/object/{kind}/{namespace}/{name}", get(object::view))
        .route("/restarts", get(restarts::view))
        .route("/live", get(live::view))
        .route("/policies", get(policies::view).post(policies::judge))
}

/// The style, the script and the icon, which are the same for everybody.
pub(super) fn assets() -> Router {
    let asset = |kind: &'static str, text: &'static str| {
        get(async move || {
            let mut response = Response::new(Body::from(text));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        })
    };
    Router::new()
        .route("/assets/style.css", asset("text/css; charset=utf-8", include_str!("style.css")))
        .route("/assets/icon.svg", asset("image/svg+xml", include_str!("icon.svg")))
        .route("/assets/script.js", asset("text/javascript; charset=utf-8", include_str!("script.js")))
}
