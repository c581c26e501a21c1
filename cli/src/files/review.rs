//! The AdmissionReview that the API server would send to the webhook for an object of a file.

use jiff::Timestamp;
use serde_json::{Value, value::to_raw_value};

use super::{Fault, FileObject};
use crate::{
    admit::{
        Parties, Purpose, UserInfo,
        decide::{Case, DecideError, read},
        decode::{GroupVersionKind, Operation, Review},
    },
    authority::Subject,
};

/// A write of an object of a file.
pub(crate) struct Write<'a> {
    pub of: &'a FileObject,
    pub writer: &'a Subject,
    /// The object as the API server would store it.
    pub new: Value,
    /// The object in the cluster, which the write updates.
    pub old: Option<&'a Value>,
    pub now: Timestamp,
}

impl Write<'_> {
    /// Asks one hook.
    pub(super) fn asked<T>(
        &self,
        purpose: &Purpose,
        parties: &Parties,
        answer: impl FnOnce(Case<'_>) -> Result<T, DecideError>,
    ) -> Result<T, Fault> {
        let raw = |value: &Value| {
            to_raw_value(value).map_err(|_| Fault::new("cannot be written as JSON; check its keys"))
        };
        let (new, old) = (raw(&self.new)?, self.old.map(raw).transpose()?);
        let (group, version) = self.of.kind.group_version();
        let Subject { user: username, uid, groups, extra } = self.writer.clone();
        let review = Review {
            uid: "file".into(),
            kind: GroupVersionKind {
                group: group.into(),
                version: version.into(),
                kind: self.of.kind.as_str().into(),
            },
            sub_resource: None,
            name: (&*self.of.name.name).into(),
            namespace: self.of.place().into(),
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            user_info: UserInfo { username, uid, groups, extra },
            object: Some(&new),
            old_object: old.as_deref(),
            dry_run: Some(false),
        };
        read(&review, purpose, parties, self.now)
            .and_then(answer)
            .map_err(|error| Fault::new(error.to_string()))
    }
}
