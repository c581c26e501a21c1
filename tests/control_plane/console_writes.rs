//! `copyrator console` writes templates, and nothing else, as its caller: over HTTP alone.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, ours};
use crate::bed::{Story, eventually, peaceful};
use crate::console::{Run, names};
use crate::plan::account;

/// A template whose ConfigMap holds this text.
fn manifest(story: &Story<'_>, text: &str) -> String {
    let labels = &story.selector()["matchLabels"];
    format!(
        "spec:\n  forEach: {{namespaces: [{{namespaceSelector: {{matchLabels: {labels}}}}}]}}\n  deletionGrace: 0s\n  objects:\n  \
         - id: stub\n    template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: stub}}, data: {{text: {text}}}}}\n"
    )
}

/// A write, answered with JSON.
fn write(run: &Run, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value, String) {
    let (code, head, body) = run.send(method, &format!("/api/v1{path}"), headers, body);
    let said = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: no JSON: {body}"));
    (code, said, etag(&head))
}

fn etag(head: &str) -> String {
    head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default().to_owned()
}

fn message(said: &Value) -> &str {
    assert_eq!((&said["kind"], &said["status"]), (&json!("Status"), &json!("Failure")), "{said}");
    said["message"].as_str().unwrap_or_default()
}

#[test]
fn a_template_is_made_changed_and_deleted_over_http_alone() {
    let story = Story::new(peaceful(), "console-writes");
    let target = story.target("a");
    let run = Run::start(&story, None, &[]);
    assert_eq!(run.api("/nodes").0, 200);
    assert!(names(&run.api("/namespaces").1).contains(&target.as_str()));
    for plural in ["deployments", "services"] {
        let (code, list) = run.api(&format!("/namespaces/{target}/{plural}"));
        assert_eq!((code, names(&list)), (200, Vec::new()), "{list}");
    }

    let path = &format!("/namespaces/{}/templates/stub", story.home);
    let put = |query: &str, headers: &[(&str, &str)], text: &str| {
        write(&run, "PUT", &format!("{path}{query}"), headers, &manifest(&story, text))
    };
    let (code, tried, _) = put("?dryRun=All", &[], "first");
    assert_eq!((code, &tried["metadata"]["name"]), (201, &json!("stub")), "{tried}");
    assert_eq!(run.api(path).0, 404, "it was not stored");
    let (code, made, first) = put("", &[], "first");
    assert_eq!((code, &made["kind"]), (201, &json!("CopyratorTemplate")), "{made}");
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "copyrator-console");
    assert!(annotation(&made, "copyrator.dev/author").is_some(), "stamped, as everybody's: {made}");
    story.until("ConfigMap", &target, "stub", [("text", "first")]);

    // The version that was seen, which every status changes, and another one.
    let changed = eventually("it is as it was just read", || {
        let (_, head, _) = run.send("GET", &format!("/api/v1{path}"), &[], "");
        let seen = etag(&head);
        let (code, said, _) = put("", &[("If-Match", &seen)], "second");
        if code == 200 { Ok(said) } else { Err(said.to_string()) }
    });
    story.until("ConfigMap", &target, "stub", [("text", "second")]);
    let (code, said, _) = put("", &[("If-Match", &first)], "third");
    assert!(code == 409 && message(&said).contains("the object has been modified"), "{code} {said}");

    // A field of somebody else, and what makes no sense.
    let mut owned = ours("CopyratorTemplate", &story.home, "stub", changed["spec"].clone());
    owned["spec"]["deletionGrace"] = json!("1s");
    story.admin().apply_as("gitops", &owned).ok();
    let (code, said, _) = put("", &[], "second");
    assert!(code == 409 && message(&said).contains("\"gitops\""), "its owner is named: {code} {said}");
    for (body, code, part) in [
        ("spec: {forEach: {namespaces: 7}}", 422, "spec.forEach.namespaces"),
        ("spec: {misspelt: 7}", 422, "misspelt"),
        ("spec: {objects: []}", 422, "spec.objects"),
        ("kind: Secret", 400, "CopyratorTemplate"),
    ] {
        let (seen, said, _) = write(&run, "PUT", &format!("{path}-wrong"), &[], body);
        assert!(seen == code && message(&said).contains(part), "{body}: {seen} {said}");
    }

    let (code, said, _) =
        write(&run, "PUT", &format!("{path}-new"), &[("If-Match", "7")], &manifest(&story, "x"));
    assert!(code == 404 && message(&said).contains("not found"), "there is no such version: {code} {said}");

    let (code, said, _) = write(&run, "DELETE", path, &[("If-Match", &first)], "");
    assert!(code == 409 && message(&said).contains("does not match the ResourceVersion"), "{code} {said}");
    assert_eq!(write(&run, "DELETE", &format!("{path}?dryRun=All"), &[], "").0, 200);
    assert_eq!(run.api(path).0, 200, "it was not deleted");
    let (code, said, _) = write(&run, "DELETE", path, &[], "");
    assert_eq!((code, &said["status"]), (200, &json!("Success")), "{said}");
    story.until_gone("ConfigMap", &target, "stub");
    assert_eq!(write(&run, "DELETE", path, &[], "").0, 404);
}

/// The API server decides, and the webhook after it; the console says what they said.
#[test]
fn who_may_not_write_is_told_so_in_the_words_of_the_api_server() {
    let story = Story::new(peaceful(), "console-refused");
    let (home, target) = (&story.home, story.target("a"));
    let path = &format!("/namespaces/{home}/templates/stub");
    let read =
        json!([{ "apiGroups": ["copyrator.dev"], "resources": ["copyratortemplates"], "verbs": ["get"] }]);
    let reader = Run::start(&story, Some(&account(&story, "reader", read)), &["--namespaces", home]);
    let all =
        json!([{ "apiGroups": ["copyrator.dev"], "resources": ["copyratortemplates"], "verbs": ["*"] }]);
    let writer = Run::start(&story, Some(&account(&story, "writer", all)), &["--namespaces", home]);

    let (code, said, _) = write(&reader, "PUT", path, &[], &manifest(&story, "x"));
    let expected = format!(
        "copyratortemplates.copyrator.dev \"stub\" is forbidden: User \"system:serviceaccount:{home}:reader\" cannot patch \
         resource \"copyratortemplates\" in API group \"copyrator.dev\" in the namespace \"{home}\""
    );
    assert_eq!((code, message(&said), &said["reason"]), (403, &*expected, &json!("Forbidden")), "{said}");
    let said = eventually("the writer may write templates, and is told what is lacking", || {
        let (code, said, _) = write(&writer, "PUT", path, &[], &manifest(&story, "x"));
        let is_told = code == 403 && message(&said).contains("missing rights");
        if is_told { Ok(message(&said).to_owned()) } else { Err(said.to_string()) }
    });
    assert!(said.contains("configmaps"), "{said}");

    let admin = Run::start(&story, None, &[]);
    assert_eq!(write(&admin, "PUT", path, &[], &manifest(&story, "x")).0, 201);
    story.until("ConfigMap", &target, "stub", [("text", "x")]);
    let (code, said, _) = write(&reader, "DELETE", path, &[], "");
    assert!(code == 403 && message(&said).contains("cannot delete resource"), "{code} {said}");
    assert_eq!(write(&writer, "DELETE", path, &[], "").0, 200, "who may delete it may");
    story.until_gone("ConfigMap", &target, "stub");
}
