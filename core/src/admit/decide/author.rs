//! Stamps the author on an object if the API server has no MutatingAdmissionPolicy of ours that does so. The
//! stamps equal the stamps by `author.yaml` and `annotations.yaml` in `webhook-config/policies`.
//! `author-honest.yaml` and `annotations-honest.yaml` check either kind of stamp.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{DecideError, Edit, MetaMap};
use crate::{
    admit::decode::{Operation, Review, UserInfo},
    api::GROUP,
    marks::{ASKING, AUTHOR, AUTHOR_GROUPS, declares},
};

type Annotations = BTreeMap<String, String>;

/// The part of an object that a stamp depends on: the spec of our own kinds, the annotations of [`ASKING`] on
/// other objects.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<Annotations>,
    labels: Option<Annotations>,
}

impl Metadata {
    fn declares(&self) -> bool {
        declares(|key| self.labels.as_ref()?.get(key).map(String::as_str))
    }
}

/// Returns the edits that stamp an object of our own kinds, or an object with annotations of [`ASKING`].
///
/// # Errors
/// The review lacks an object that its operation needs, or one cannot be read.
pub(super) fn edits(review: &Review<'_>) -> Result<Vec<Edit>, DecideError> {
    if !matches!(review.operation, Operation::Create | Operation::Update) {
        return Ok(Vec::new());
    }
    let object: Object = read(review.object, "object")?;
    let old: Option<Object> = match review.operation {
        Operation::Update => Some(read(review.old_object, "oldObject")?),
        _ => None,
    };
    let annotations = object.metadata.annotations.as_ref();
    if review.kind.group == GROUP {
        let anew = old.as_ref().is_none_or(|old| is_written_anew(&object.spec, &old.spec));
        let before = old.and_then(|old| old.metadata.annotations).unwrap_or_default();
        return Ok(stamp(&before, annotations, anew, &review.user_info));
    }
    let Some(annotations) = annotations else { return Ok(Vec::new()) };
    let declared = old.as_ref().is_some_and(|old| old.metadata.declares());
    if !declared && !object.metadata.declares() {
        return Ok(Vec::new());
    }
    let before = old.and_then(|old| old.metadata.annotations).unwrap_or_default();
    let asked = |of: &Annotations| ASKING.map(|key| of.get(key).cloned());
    let (asks, asked_before) = (asked(annotations), asked(&before));
    match asks.iter().any(Option::is_some) {
        true => {
            let anew = !declared || asks != asked_before;
            let kept = if anew { Annotations::new() } else { before };
            let mut edits = stamp(&kept, Some(annotations), anew, &review.user_info);
            if !anew {
                edits.extend(unstamp(annotations, &kept));
            }
            Ok(edits)
        }
        false => Ok(unstamp(annotations, &Annotations::new())),
    }
}

/// Returns the edits that remove a stamp that the stored object lacks.
fn unstamp(annotations: &Annotations, before: &Annotations) -> Vec<Edit> {
    let stamped = [AUTHOR, AUTHOR_GROUPS].into_iter();
    let extra = stamped.filter(|key| annotations.contains_key(*key) && !before.contains_key(*key));
    extra.map(|key| Edit::Remove(MetaMap::Annotations, key.into())).collect()
}

/// Returns the edits that put the right stamp on an object with these annotations. If the write changes the
/// stamped part (`anew`), the right stamp is the writer's; otherwise the right stamp is that of the stored
/// object, `before`.
fn stamp(
    before: &Annotations,
    annotations: Option<&Annotations>,
    anew: bool,
    writer: &UserInfo,
) -> Vec<Edit> {
    let wanted: Vec<(&str, String)> = match anew {
        true => vec![(AUTHOR, writer.username.clone()), (AUTHOR_GROUPS, groups(writer))],
        false => [AUTHOR, AUTHOR_GROUPS]
            .into_iter()
            .filter_map(|key| Some((key, before.get(key)?.clone())))
            .collect(),
    };
    let is_there = |key: &str, value: &String| annotations.and_then(|map| map.get(key)) == Some(value);
    let sets = wanted.into_iter().filter(|(key, value)| !is_there(key, value));
    let mut edits: Vec<Edit> =
        sets.map(|(key, value)| Edit::Set(MetaMap::Annotations, key.into(), value)).collect();
    if annotations.is_none() && !edits.is_empty() {
        edits.insert(0, Edit::CreateMap(MetaMap::Annotations));
    }
    edits
}

/// Whether the writer becomes the spec's author: the spec changed by more than `suspend: true`.
fn is_written_anew(spec: &Map<String, Value>, old: &Map<String, Value>) -> bool {
    let suspended = spec.get("suspend") == Some(&Value::Bool(true));
    let same = |field: &String| field == "suspend" || spec.get(field) == old.get(field);
    spec != old && !(suspended && spec.keys().chain(old.keys()).all(same))
}

/// Returns the writer's groups as a JSON list. The list omits groups with control characters, which the
/// policy cannot escape: an omitted group can only reduce rights.
fn groups(writer: &UserInfo) -> String {
    let plain = |group: &&String| !group.bytes().any(|byte| byte.is_ascii_control());
    Value::from(writer.groups.iter().filter(plain).map(String::as_str).collect::<Vec<_>>()).to_string()
}

fn read(raw: Option<&serde_json::value::RawValue>, what: &'static str) -> Result<Object, DecideError> {
    let raw = raw.ok_or(DecideError::Missing(what))?;
    serde_json::from_str(raw.get()).map_err(|error| DecideError::Unreadable {
        what,
        source: crate::validate::CandidateError::Unreadable { line: error.line(), column: error.column() },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        admit::{decode::decode, respond::patch},
        marks::{COPY_TO, DECLARES, RESTART_PODS},
    };

    /// The cases are those of the tests of the policy on a real API server.
    const CASES: &str = include_str!("../../../../tests/cases/author.yaml");

    #[derive(Deserialize)]
    struct Case {
        name: String,
        #[serde(default)]
        before: Option<Value>,
        after: Value,
        #[serde(default)]
        given: Option<Value>,
        author: String,
    }

    fn patched(review: &Value) -> Value {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review});
        let body = body.to_string();
        let review_of = decode(body.as_bytes()).unwrap();
        let mut object = review["object"].clone();
        json_patch::patch(&mut object, &patch(&edits(&review_of).unwrap())).unwrap();
        object["metadata"]["annotations"].take()
    }

    #[test]
    fn the_stamp_is_the_policys() {
        let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
        assert!(cases.len() >= 8);
        for Case { name, before, after, given, author } in cases {
            let stamp_of = |user: &str| json!({AUTHOR: user, AUTHOR_GROUPS: format!(r#"["{user}s"]"#)});
            let mut object = json!({"metadata": {}, "spec": after});
            if let Some(given) = given {
                object["metadata"]["annotations"] = given;
            }
            let mut review = json!({
                "uid": "u", "kind": {"group": "copyrator.dev", "version": "v1alpha1", "kind": "CopyratorRule"},
                "operation": "CREATE", "userInfo": {"username": "second", "groups": ["seconds"]}, "object": object,
            });
            if let Some(before) = before {
                review["operation"] = "UPDATE".into();
                review["oldObject"] = json!({"metadata": {"annotations": stamp_of("first")}, "spec": before});
            }
            let annotations = patched(&review);
            for (key, value) in stamp_of(&author).as_object().unwrap() {
                assert_eq!(&annotations[key], value, "{name}");
            }
        }
    }

    #[test]
    fn annotations_that_ask_for_copies_are_stamped_and_others_carry_no_stamp() {
        let stamp_of = |user: &str| json!({AUTHOR: user, AUTHOR_GROUPS: format!(r#"["{user}s"]"#)});
        let with = |stamp: Value, to: Option<&str>| {
            let mut annotations = stamp;
            if let Some(to) = to {
                annotations[COPY_TO] = to.into();
            }
            annotations
        };
        let none = || json!({});
        let restarting = |mut annotations: Value| {
            annotations[RESTART_PODS] = "app=web".into();
            annotations
        };
        let (first, second) = (|| stamp_of("first"), || stamp_of("second"));
        // Each case has the object before the write, as the second user writes it, and as stamped.
        let cases = [
            (None, with(none(), Some("a")), with(second(), Some("a"))),
            (None, with(first(), Some("a")), with(second(), Some("a"))),
            (None, with(first(), None), none()),
            (Some(with(first(), Some("a"))), with(none(), Some("a")), with(first(), Some("a"))),
            (Some(with(first(), Some("a"))), with(second(), Some("a")), with(first(), Some("a"))),
            (Some(with(first(), Some("a"))), with(first(), Some("b")), with(second(), Some("b"))),
            (Some(with(first(), Some("a"))), with(first(), None), none()),
            (Some(with(none(), Some("a"))), with(first(), Some("a")), with(none(), Some("a"))),
            // The user who adds a further request becomes the author of all requests.
            (
                Some(with(first(), Some("a"))),
                restarting(with(none(), Some("a"))),
                restarting(with(second(), Some("a"))),
            ),
            (Some(restarting(first())), with(none(), None), none()),
            (Some(none()), restarting(none()), restarting(second())),
        ];
        for (before, written, expected) in cases {
            let mut review = json!({
                "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Secret"}, "operation": "CREATE",
                "userInfo": {"username": "second", "groups": ["seconds"]},
                "object": {"metadata": {"annotations": written, "labels": {DECLARES: "true"}}},
            });
            if let Some(before) = &before {
                review["operation"] = "UPDATE".into();
                review["oldObject"] =
                    json!({"metadata": {"annotations": before, "labels": {DECLARES: "true"}}});
            }
            assert_eq!(patched(&review), expected, "{before:?} {written}");
        }
    }

    /// The user who sets the label answers for annotations that no policy has guarded so far.
    #[test]
    fn the_label_makes_a_stamp_and_its_end_none() {
        let asks =
            |author: &str| json!({COPY_TO: "a", AUTHOR: author, AUTHOR_GROUPS: format!(r#"["{author}s"]"#)});
        let (label, other, none) = (json!({DECLARES: "true"}), json!({DECLARES: "yes"}), json!({}));
        for (before, after, written, expected) in [
            (Some(&none), &label, asks("admin"), asks("second")),
            (Some(&other), &label, asks("admin"), asks("second")),
            (Some(&label), &label, asks("admin"), asks("first")),
            // Stamps of annotations without effect are ignored, except in the write that ends the effect of
            // the annotations.
            (Some(&none), &none, asks("admin"), asks("admin")),
            (None, &none, asks("admin"), asks("admin")),
            (None, &other, asks("admin"), asks("admin")),
            (Some(&label), &none, asks("admin"), asks("first")),
        ] {
            let mut review = json!({
                "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Secret"}, "operation": "CREATE",
                "userInfo": {"username": "second", "groups": ["seconds"]},
                "object": {"metadata": {"annotations": written, "labels": after}},
            });
            if let Some(before) = before {
                review["operation"] = "UPDATE".into();
                review["oldObject"] = json!({"metadata": {"annotations": asks("first"), "labels": before}});
            }
            assert_eq!(patched(&review), expected, "{before:?} {after} {written}");
        }
    }

    #[test]
    fn what_never_had_a_stamp_gets_none_by_a_change_of_labels() {
        let spec = json!({"suspend": false});
        let review = json!({
            "uid": "u", "kind": {"group": "copyrator.dev", "kind": "CopyratorRule"}, "operation": "UPDATE", "userInfo": {"username": "second"},
            "object": {"metadata": {}, "spec": spec}, "oldObject": {"metadata": {}, "spec": spec},
        });
        assert_eq!(patched(&review), Value::Null);
    }

    #[test]
    fn groups_are_written_as_the_policy_writes_them() {
        let given = ["a", "b\\c\"d", "bad\u{7f}", "bad\n", "größe", "\u{85}"];
        let writer = UserInfo { groups: given.map(str::to_owned).into(), ..UserInfo::default() };
        assert_eq!(groups(&writer), "[\"a\",\"b\\\\c\\\"d\",\"größe\",\"\u{85}\"]");
        assert_eq!(groups(&UserInfo::default()), "[]");
    }
}
