//! Login and logout: `/login` exchanges a token for a cookie, `/logout` removes the cookie.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http::{HeaderValue, header};
use maud::{Markup, html};

use super::{
    door::{Door, at_most},
    page::bare,
    problem::Problem,
    site::{Session, Site},
};

/// The largest form: a token, encoded.
const FORM: usize = 64 << 10;

/// `GET` and `POST /login`, `POST /logout`.
pub(super) fn routes(door: Arc<Door>) -> Router {
    let show = async |State(door): State<Arc<Door>>| form(&door.site, None);
    Router::new().route("/login", get(show).post(take)).route("/logout", post(leave)).with_state(door)
}

async fn take(State(door): State<Arc<Door>>, request: Request) -> Response {
    let body = match at_most(FORM, request).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let token = form_urlencoded::parse(&body).find(|(name, _)| name == "token").map(|(_, value)| value);
    match door.callers.log_in(token.unwrap_or_default().trim()).await {
        Ok(pass) => with_cookie(&door.site, &pass.value, pass.life, "/"),
        Err(problem) => (problem.code(), form(&door.site, Some(&problem))).into_response(),
    }
}

async fn leave(State(door): State<Arc<Door>>) -> Response {
    with_cookie(&door.site, "", Some(Duration::ZERO), "/login")
}

/// Redirects the browser to a page, and sets the session cookie.
fn with_cookie(site: &Site, value: &str, life: Option<Duration>, to: &str) -> Response {
    let mut response = Redirect::to(&site.base.at(to)).into_response();
    let cookie = HeaderValue::from_str(&site.session.set_cookie(value, life)).ok();
    cookie.map(|cookie| response.headers_mut().insert(header::SET_COOKIE, cookie));
    response
}

/// The login form. In a run, a script fills in the token from the address's fragment (`#TOKEN`), which
/// browsers do not send.
fn form(site: &Site, said: Option<&Problem>) -> Markup {
    let body = html! {
        main .login {
            h1 { "Copyrator" }
            @if let Some(said) = said { p .said role="alert" { (said.message()) } }
            @match (site.session, said) {
                (Session::Run, Some(_)) => {}
                (Session::Run, None) => p {
                    "Paste the token that " code { "copyrator console" } " printed after " code { "#" } ". The token works once, within \
                     one minute."
                }
                (Session::Token, _) => p {
                    "Paste your token for this cluster: the console shows what the token may read. " code { "kubectl create token ACCOUNT" }
                    " creates a token for a ServiceAccount. Your browser keeps the token encrypted, for at most 8 hours."
                }
            }
            form method="post" action=(site.base.at("/login")) {
                label for="token" { "Token" }
                input #token name="token" type="password" data-once[site.session == Session::Run] required autofocus autocomplete="off" spellcheck="false";
                button { "Log in" }
            }
        }
    };
    bare(&site.base, "Log in", &body)
}
