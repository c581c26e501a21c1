//! The login: the one-time token for the cookie of this run.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::{HeaderValue, StatusCode, header};
use maud::{Markup, html};

use super::{
    door::{COOKIE, Door, whole},
    page::bare,
};

/// `GET` and `POST /login`.
pub(super) fn routes(door: Arc<Door>) -> Router {
    Router::new().route("/login", get(async || form(None)).post(take)).with_state(door)
}

async fn take(State(door): State<Arc<Door>>, request: Request) -> Response {
    let body = match whole(request).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let token = form_urlencoded::parse(&body).find(|(name, _)| name == "token").map(|(_, value)| value);
    let token = token.unwrap_or_default();
    let cookie = door.entry.redeem(token.trim(), Instant::now());
    let cookie = cookie.map(|value| format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict"));
    match cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        Some(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response(),
        None => {
            let said =
                "That token is not taken: it has been used, is older than a minute, or is another one.";
            (StatusCode::FORBIDDEN, form(Some(said))).into_response()
        }
    }
}

/// The form. A script fills it from the address (`#TOKEN`), which browsers keep to themselves.
fn form(said: Option<&str>) -> Markup {
    let body = html! {
        main .login {
            h1 { "Copyrator" }
            @if let Some(said) = said {
                p .said role="alert" { (said) " End " code { "copyrator console" } " and start it anew for another." }
            } @else {
                p { "Paste the token that " code { "copyrator console" } " has printed behind " code { "#" } ". It is taken once, within a minute." }
            }
            form method="post" action="/login" {
                label for="token" { "Token" }
                input #token name="token" type="password" required autofocus autocomplete="off" spellcheck="false";
                button { "Log in" }
            }
        }
    };
    bare("Log in", &body)
}
