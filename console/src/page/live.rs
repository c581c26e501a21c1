//! The view Live: Events of Copyrator, the latest first. A script keeps the view up to date.

use std::sync::Arc;

use axum::response::Response;
use maud::{Markup, html};

use super::{
    frame::{Frame, notes},
    state::Shape,
    visit::Visit,
};
use crate::{
    feed::{Happening, Latest, Thing, latest},
    problem::Problem,
};

/// Answers `GET /live`: Events of Copyrator, the latest first.
pub(super) async fn view(visit: Visit) -> Response {
    visit.answer("/live", "Live", shown).await
}

async fn shown(visit: Arc<Visit>) -> Result<Markup, Problem> {
    Ok(render(&visit.frame, &latest(&visit.seat, &visit.asked).await?))
}

/// The body of the view. The script clones the `template` elements at the end of the body for new rows.
pub(super) fn render(frame: &Frame, latest: &Latest) -> Markup {
    html! {
        h1 { "Live" }
        p .lead { "Copyrator's Events, the latest first. The cluster keeps them for about an hour." }
        p #feed-state role="status" { noscript { "Reload the page to see new Events." } }
        (notes(&latest.notes))
        div #feed data-after=(latest.after) role="log" aria-label="What has happened" {
            div .empty hidden[!latest.items.is_empty()] {
                h2 { (Shape::Good.mark()) "No recent Events" }
                p { "Copyrator reports restarts, and copies that were refused, replaced, taken over or deleted; it does not report a copy \
                 that was created or updated." }
            }
            ol .things hidden[latest.items.is_empty()] { @for one in &latest.items { (row(frame, Some(one), one.warning)) } }
        }
        template #happening { (row(frame, None, false)) }
        template #happening-warning { (row(frame, None, true)) }
    }
}

/// A row; without an entry, an empty row for the script to fill.
fn row(frame: &Frame, one: Option<&Happening>, is_warning: bool) -> Markup {
    let page = |thing: &Thing| thing.page.as_ref().map(|page| frame.link(page, &[]));
    let related = one.and_then(|one| one.related.as_ref());
    html! {
        li data-id=[one.map(|one| &one.id)] {
            @if is_warning { (Shape::Bad.with("Warning")) } @else { (Shape::Good.with("Done")) }
            div {
                a data-slot="about" href=[one.and_then(|one| page(&one.about))] { @if let Some(one) = one { (one.about.said()) } }
                " "
                a data-slot="related" href=[related.and_then(page)] { @if let Some(thing) = related { (thing.said()) } }
                p data-slot="message" { @if let Some(one) = one { (one.message) } }
                p .when {
                    time data-slot="at" datetime=[one.map(|one| &one.at)] { @if let Some(one) = one { (one.at) } }
                    " " span data-slot="reason" { @if let Some(one) = one { (one.reason) } }
                    " " span data-slot="count" { @if let Some(one) = one.filter(|one| one.count > 1) { (one.count) " times" } }
                }
            }
        }
    }
}
