//! Operations on one template: get, apply and delete, with the caller's own rights. Answers of the API server
//! are passed on unchanged.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use kube::{Resource as _, api::Preconditions, client::Body, core::Request};
use serde_json::{Value, json};

use super::{Call, operation};
use crate::{api::CopyratorTemplate, as_caller::Unsent, names::NamespacedName, problem::Problem, seat::Seat};

/// `GET`: the template, as the API server has it.
pub(super) async fn one(call: Call) -> Result<Response, Problem> {
    Ok(respond(read(&call.seat, &name(&call)?).await?))
}

/// `PUT`: a server-side apply.
pub(super) async fn put(mut call: Call) -> Result<Response, Problem> {
    let name = name(&call)?;
    let mut documents = std::mem::take(&mut call.documents);
    let (Some(document), None) = (documents.pop(), documents.pop()) else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the body must be one template"));
    };
    let seen = match &call.version {
        // An apply with only a resourceVersion would recreate a deleted object; an apply with the UID does
        // not.
        Some(version) => Some((read(&call.seat, &name).await?.uid().unwrap_or_default(), version.clone())),
        None => None,
    };
    let template = named(document.value, &name, seen)?;
    let answer = call.seat.writes.apply(&name, &template, call.asked.dry_run).await;
    Ok(respond(said(answer.map_err(unsent)?).await?))
}

/// `DELETE`: deletes the version that `If-Match` names. Without `If-Match`, the current UID is the
/// precondition, so a new object of that name is not deleted. The resourceVersion is no precondition in that
/// case, since every status update changes it.
pub(super) async fn delete(call: Call) -> Result<Response, Problem> {
    let name = name(&call)?;
    let meant = match &call.version {
        Some(version) => Preconditions { resource_version: Some(version.clone()), uid: None },
        None => Preconditions { uid: read(&call.seat, &name).await?.uid(), resource_version: None },
    };
    let answer = call.seat.writes.delete(&name, meant, call.asked.dry_run).await;
    Ok(respond(said(answer.map_err(unsent)?).await?))
}

/// A successful answer of the API server.
struct Said {
    code: StatusCode,
    body: Value,
    /// The `Warning` headers, including the warnings of our own webhook.
    warnings: Vec<HeaderValue>,
}

impl Said {
    fn uid(&self) -> Option<String> {
        self.body["metadata"]["uid"].as_str().map(str::to_owned)
    }
}

/// The template that the path names. Names of other objects in paths may have colons.
fn name(call: &Call) -> Result<NamespacedName, Problem> {
    let (namespace, name) = (call.variable("namespace"), call.variable("name"));
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.split('.').all(|part| !part.is_empty() && part.bytes().all(is_plain)) {
        return Ok(NamespacedName::new(namespace, name));
    }
    Err(Problem::new(StatusCode::BAD_REQUEST, format!("{name:?} is not the name of a template")))
}

async fn read(seat: &Seat, name: &NamespacedName) -> Result<Said, Problem> {
    let path = CopyratorTemplate::url_path(&(), Some(&name.namespace));
    let request = Request::new(path).get(&name.name, &Default::default());
    let request = request.map_err(|error| Problem::of(&error))?.map(Body::from);
    said(seat.client.send(request).await.map_err(|error| Problem::of(&error))?).await
}

/// Reads the object of an answer.
///
/// # Errors
/// The answer is a refusal, or cannot be read.
async fn said(answer: http::Response<Body>) -> Result<Said, Problem> {
    let (head, body) = answer.into_parts();
    let body = body.collect_bytes().await.map_err(|error| Problem::of(&error))?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if !head.status.is_success() || !body.is_object() {
        return Err(refused(head.status, body));
    }
    let warnings = head.headers.get_all(header::WARNING).iter().cloned().collect();
    Ok(Said { code: head.status, body, warnings })
}

/// Passes a refusal on unchanged, with one exception: if a manifest does not fit the definition, the API
/// server answers an apply with 500 and no reason (kubernetes#122480). The answer becomes 422, since the
/// server has no fault.
fn refused(code: StatusCode, mut said: Value) -> Problem {
    let is_unfit =
        said["message"].as_str().is_some_and(|text| text.starts_with("failed to create typed patch"));
    if code != StatusCode::INTERNAL_SERVER_ERROR || !is_unfit {
        return Problem::said(code, said);
    }
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    said["code"] = code.as_u16().into();
    said["reason"] = "Invalid".into();
    Problem::said(code, said)
}

fn unsent(error: Unsent) -> Problem {
    Problem::of(&error)
}

fn respond(said: Said) -> Response {
    let mut response = operation::json(said.body.to_string()).into_response();
    *response.status_mut() = said.code;
    let version = said.body["metadata"]["resourceVersion"].as_str();
    let version = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok());
    version.map(|version| response.headers_mut().insert(header::ETAG, version));
    for warning in said.warnings {
        response.headers_mut().append(header::WARNING, warning);
    }
    response
}

/// Sets the identity that the path gives on the manifest, and, if the object was seen, its UID and
/// resourceVersion.
///
/// # Errors
/// The manifest names a different object.
fn named(
    mut manifest: Value,
    name: &NamespacedName,
    seen: Option<(String, String)>,
) -> Result<Value, Problem> {
    let mut fill = |pointer: &[&str], value: &str| {
        let (last, above) = pointer.split_last()?;
        let mut at = &mut manifest;
        for part in above {
            at = &mut at[*part];
            if at.is_null() {
                *at = json!({});
            }
        }
        let at = at.as_object_mut()?.entry(*last).or_insert_with(|| value.into());
        (*at == value).then_some(())
    };
    let api_version = CopyratorTemplate::api_version(&());
    let identity = [
        (&["apiVersion"][..], &*api_version),
        (&["kind"], "CopyratorTemplate"),
        (&["metadata", "namespace"], &name.namespace),
        (&["metadata", "name"], &name.name),
    ];
    let seen = seen.iter().flat_map(|(uid, version)| {
        [(&["metadata", "uid"][..], &**uid), (&["metadata", "resourceVersion"], version)]
    });
    for (pointer, value) in identity.into_iter().chain(seen) {
        let message = || {
            format!("{}: write {value:?} as in the request's path, or remove the field", pointer.join("."))
        };
        fill(pointer, value).ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, message()))?;
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_what_the_path_names_or_is_refused() {
        let name = NamespacedName::new("shop", "team");
        let whole = json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
            "metadata": { "namespace": "shop", "name": "team" }, "spec": {} });
        for short in
            [json!({ "spec": {} }), json!({ "metadata": { "name": "team" }, "spec": {} }), whole.clone()]
        {
            assert_eq!(named(short, &name, None).unwrap(), whole);
        }
        let seen = |version: &str| Some(("u".to_owned(), version.to_owned()));
        let versioned = named(whole.clone(), &name, seen("7")).unwrap();
        let metadata = &versioned["metadata"];
        assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("u"), &json!("7")));
        assert!(named(versioned, &name, seen("8")).is_err());
        for (wrong, field) in [
            (json!({ "kind": "Secret" }), "kind"),
            (json!({ "apiVersion": "v1" }), "apiVersion"),
            (json!({ "metadata": { "name": "other" } }), "metadata.name"),
            (json!({ "metadata": { "namespace": "web" } }), "metadata.namespace"),
            (json!({ "metadata": "hunter2" }), "metadata.namespace"),
            (json!({ "metadata": ["hunter2"] }), "metadata.namespace"),
        ] {
            let said = named(wrong, &name, None).unwrap_err();
            assert!(
                said.message().starts_with(field) && !said.message().contains("hunter2"),
                "{}",
                said.message()
            );
        }
    }
}
