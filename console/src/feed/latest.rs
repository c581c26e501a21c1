//! The latest Events of the feed, and the position where a stream of later ones begins.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams};

use super::{
    happening::{Happening, at},
    resume::{Resume, WatchScope},
};
use crate::{asked::Asked, problem::Problem, seat::Seat};

/// The field selector for Copyrator's Events. The feed reads core/v1 Events, which users' roles cover;
/// `events.k8s.io` has the same objects.
pub(super) const OURS: &str = "reportingComponent=copyrator";
/// How many Events a page of a list has.
const PAGE: u32 = 500;
/// How many pages are read per scope.
const PAGES: usize = 4;

/// The latest entries of the feed.
pub(crate) struct Latest {
    /// The Events of Copyrator, the latest first.
    pub items: Vec<Happening>,
    /// The id after which a stream begins.
    pub after: String,
    /// Refusals for scopes that the caller may not read.
    pub notes: Vec<String>,
}

/// Returns the latest Events that the caller may see.
///
/// # Errors
/// The caller may not read Events, or the API server failed.
pub(crate) async fn latest(seat: &Seat, asked: &Asked) -> Result<Latest, Problem> {
    let mut start = begin(seat, asked, PAGE, PAGES).await?;
    start.events.sort_by_cached_key(|event| Reverse(at(event)));
    let items = start.events.iter().take(asked.limit).map(Happening::of).collect();
    let notes = start.refused.iter().map(|refused| refused.message().to_owned()).collect();
    Ok(Latest { items, after: start.resume.text(), notes })
}

/// The namespaces that a request is about; empty: all namespaces, or the context's own.
pub(super) fn named<'s>(seat: &'s Seat, asked: &'s Asked) -> &'s BTreeSet<Arc<str>> {
    if asked.namespaces.is_empty() { &seat.named } else { &asked.namespaces }
}

/// The API for the Events of a scope.
pub(super) fn events(client: &Client, scope: &WatchScope) -> Api<Event> {
    match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The start of a stream.
pub(super) struct Start {
    pub events: Vec<Event>,
    pub resume: Resume,
    /// Refusals for scopes that the caller may not read.
    pub refused: Vec<Problem>,
}

/// Lists the Events of each scope that may be read.
///
/// # Errors
/// The caller may read none of the scopes, or the API server failed.
pub(super) async fn begin(seat: &Seat, asked: &Asked, page: u32, pages: usize) -> Result<Start, Problem> {
    let named = named(seat, asked);
    let mut start = Start { events: Vec::new(), resume: Resume(Vec::new()), refused: Vec::new() };
    if named.is_empty() {
        let home: WatchScope = Some(seat.client.default_namespace().into());
        start.add(seat, None, page, pages).await?;
        if start.resume.0.is_empty() {
            start.add(seat, home, page, pages).await?;
        }
    }
    for namespace in named {
        start.add(seat, Some(namespace.clone()), page, pages).await?;
    }
    match start.refused.pop() {
        Some(refused) if start.resume.0.is_empty() => Err(refused),
        refused => {
            start.refused.extend(refused);
            Ok(start)
        }
    }
}

impl Start {
    async fn add(&mut self, seat: &Seat, scope: WatchScope, page: u32, pages: usize) -> Result<(), Problem> {
        let api = events(&seat.client, &scope);
        let mut params = ListParams::default().fields(OURS).limit(page);
        let mut version = None;
        for _ in 0..pages {
            let list = match api.list(&params).await {
                Ok(list) => list,
                Err(kube::Error::Api(status)) if status.code == StatusCode::FORBIDDEN => {
                    self.refused.push(Problem::answered(&status));
                    return Ok(());
                }
                Err(error) => return Err(Problem::asking(error)),
            };
            version = version.or(list.metadata.resource_version);
            self.events.extend(list.items);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        self.resume.0.push((scope, version.unwrap_or_default()));
        Ok(())
    }
}
