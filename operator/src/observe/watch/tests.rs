//! Watches against a server that answers as the API server does, or worse.

mod anew;
mod lists;
mod poisoned;
mod silent;
mod widening;
