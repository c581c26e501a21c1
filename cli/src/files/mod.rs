//! Objects of files, as the API server and the webhook would take them: `read` finds documents, `object` names their objects,
//! `stored` fills in what the API server fills in, and `judge` asks the webhook's code about the `review`.

mod judge;
mod kind;
mod object;
mod read;
mod review;
mod stored;
mod world;

pub use kind::FileKind;
pub use object::{FileObject, Item};
pub use read::{Document, ManifestError, Place, parse};

pub(crate) use self::{
    judge::{Admission, has_webhook},
    kind::meant_kind,
    object::{item, title},
    read::read,
    review::Write,
    stored::{Fault, NAMESPACE_NAME, spec, stored},
    world::{existing, put},
};
