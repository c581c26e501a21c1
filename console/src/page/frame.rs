//! The frame around every view: heading, links to the views, the caller and the cluster.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use crate::{
    asked::Asked,
    problem::Problem,
    seat::Seat,
    site::{BasePath, Session, Site},
    whoami::{WhoAmI, whoami},
};

/// The views, by path.
const VIEWS: [(&str, &str); 5] = [
    ("/", "Overview"),
    ("/where", "Where"),
    ("/restarts", "Restarts"),
    ("/policies", "Policies"),
    ("/live", "Live"),
];

/// The frame of one request.
pub(super) struct Frame {
    site: Site,
    who: Option<WhoAmI>,
    cluster: String,
    /// The namespaces in the address, separated by commas. Every link keeps the namespaces.
    namespaces: String,
    /// The namespaces that the view is about, separated by commas.
    scope: String,
}

impl Frame {
    /// The frame for a request.
    pub(super) async fn of(seat: &Seat, asked: &Asked) -> Self {
        // If the API server does not answer, the view reports the problem.
        let frame = Self {
            site: seat.site.clone(),
            who: whoami(seat).await.ok(),
            cluster: seat.cluster.clone(),
            namespaces: String::new(),
            scope: String::new(),
        };
        frame.about(seat, asked)
    }

    /// Returns the frame for other query parameters.
    pub(super) fn about(self, seat: &Seat, asked: &Asked) -> Self {
        let names = |all: &std::collections::BTreeSet<std::sync::Arc<str>>| {
            all.iter().map(|name| &**name).collect::<Vec<_>>().join(",")
        };
        let namespaces = names(&asked.namespaces);
        let scope = if namespaces.is_empty() { names(&seat.named) } else { namespaces.clone() };
        Self { namespaces, scope, ..self }
    }

    /// A frame for tests.
    #[cfg(test)]
    pub(super) fn plain() -> Self {
        Self {
            site: Site::of_run(),
            who: None,
            cluster: "context test".into(),
            namespaces: String::new(),
            scope: String::new(),
        }
    }

    /// A link that keeps the namespaces. `link` encodes the further parameters `query`.
    pub(super) fn link(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut pairs = form_urlencoded::Serializer::new(String::new());
        let namespaces = Some(("namespaces", self.namespaces.as_str()));
        for (name, value) in namespaces.into_iter().chain(query.iter().copied()) {
            if !value.is_empty() {
                pairs.append_pair(name, value);
            }
        }
        let query = pairs.finish();
        let at = self.at(path);
        if query.is_empty() { at } else { format!("{at}?{query}") }
    }

    /// The address of a path, below the base path.
    pub(super) fn at(&self, path: &str) -> String {
        self.site.base.at(path)
    }

    /// A link to the page of one object.
    pub(super) fn object(&self, kind: &str, namespace: &str, name: &str) -> String {
        self.link(&format!("/object/{}/{namespace}/{name}", kind.to_lowercase()), &[])
    }

    /// Hidden fields, with which a form keeps the namespaces.
    pub(super) fn kept(&self) -> Markup {
        html! {
            @if !self.namespaces.is_empty() { input type="hidden" name="namespaces" value=(self.namespaces); }
        }
    }

    /// The whole HTML page around this body, with the links to all views.
    pub(super) fn page(&self, path: &str, title: &str, body: &Markup) -> Markup {
        let body = html! {
            a .skip href="#main" { "Skip to content" }
            header .top {
                a .brand href=(self.link("/", &[])) { span .mark aria-hidden="true" {} "Copyrator" }
                nav aria-label="Views" {
                    @for (to, name) in VIEWS {
                        a href=(self.link(to, &[])) aria-current=[(to == path).then_some("page")] { (name) }
                    }
                }
                p .who {
                    @if let Some(who) = &self.who { span title=(who.groups.join(", ")) { (who.user) } }
                    span .quiet { (self.cluster) }
                }
                @if self.site.session == Session::Token {
                    form .out method="post" action=(self.at("/logout")) { button { "Log out" } }
                }
            }
            main #main tabindex="-1" { (body) }
            footer { (self.scope_form()) }
        };
        bare(&self.site.base, title, &body)
    }

    /// The form in which a caller who may not list namespaces names them.
    fn scope_form(&self) -> Markup {
        html! {
            form .scope method="get" {
                label for="namespaces" { "Namespaces" }
                input #namespaces name="namespaces" value=(self.scope) placeholder="all that you may \
                 read" spellcheck="false" autocomplete="off";
                button { "Look" }
            }
        }
    }

    /// The placeholder of a view that is still loading.
    pub(super) fn looking(&self, title: &str) -> Markup {
        html! {
            div .looking {
                h1 { (title) }
                p .lead role="status" {
                    "Reading "
                    @if self.scope.is_empty() { "everything that you may read" } @else { (self.scope.replace(',', ", ")) }
                    " in " (self.cluster) ". A large cluster takes some seconds; the page then loads by itself."
                }
                div aria-hidden="true" { i {} i {} i {} }
            }
        }
    }

    /// A page that says what went wrong.
    pub(super) fn problem(&self, path: &str, problem: &Problem) -> Response {
        let (heading, body) = trouble(problem);
        (problem.code(), self.page(path, heading, &body)).into_response()
    }
}

/// The heading and the body for a problem: what failed, and what the caller can do.
pub(super) fn trouble(problem: &Problem) -> (&'static str, Markup) {
    let heading = match problem.code() {
        StatusCode::UNAUTHORIZED => "The cluster no longer accepts your credentials",
        StatusCode::FORBIDDEN => "You do not have the rights to see this",
        StatusCode::NOT_FOUND => "This does not exist",
        StatusCode::BAD_REQUEST => "The console cannot answer this request",
        _ => "The cluster did not answer",
    };
    let body = html! {
        h1 { (heading) }
        p .lead { (problem.message()) }
        @if problem.code() == StatusCode::FORBIDDEN {
            p { "Enter your namespaces below: the console shows what you may read in each." }
        }
    };
    (heading, body)
}

/// Notes above a view: what the caller may not see, and the right that would show it.
pub(super) fn notes(notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            aside .notes aria-label="Notes" { @for note in notes { p { (note) } } }
        }
    }
}

/// A page without the heading that names the caller.
pub(crate) fn bare(base: &BasePath, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-base=(base.text()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Copyrator" }
                link rel="icon" href=(base.at("/assets/icon.svg"));
                link rel="stylesheet" href=(base.at("/assets/style.css"));
                script src=(base.at("/assets/script.js")) defer {}
            }
            body { (body) }
        }
    }
}
