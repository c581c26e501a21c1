//! The AdmissionReview that the API server would send to the webhook for an object of a file.

use serde_json::value::RawValue;

use crate::{
    admit::{
        UserInfo,
        decode::{GroupVersionKind, Operation, Review},
    },
    authority::Subject,
};

/// The review of a write by `caller`; an update if an `old` object is given.
pub(super) fn review<'a>(
    kind: GroupVersionKind<'a>,
    namespace: &'a str,
    name: &'a str,
    caller: &Subject,
    new: &'a RawValue,
    old: Option<&'a RawValue>,
) -> Review<'a> {
    Review {
        uid: "plan".into(),
        kind,
        sub_resource: None,
        name: name.into(),
        namespace: namespace.into(),
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        user_info: UserInfo {
            username: caller.user.clone(),
            uid: caller.uid.clone(),
            groups: caller.groups.clone(),
            extra: caller.extra.clone(),
        },
        object: Some(new),
        old_object: old,
        dry_run: Some(true),
    }
}
