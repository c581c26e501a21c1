//! The routes of the console, for both kinds of callers.

use std::sync::Arc;

use axum::Router;

use crate::{
    door::{Door, behind},
    login, page, rest,
};

/// Every route, behind the door.
pub(crate) fn routes(door: Arc<Door>) -> Router {
    let inside = rest::routes(&door.site).merge(page::routes()).merge(page::assets());
    behind(door.clone(), inside.merge(login::routes(door)))
}
