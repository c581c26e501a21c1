//! The routes in one process, over an API server that answers what a test says.

mod crowd;
mod in_cluster;
mod late;

use std::{convert::Infallible, sync::Arc, time::Instant};

use axum::Router;
use clap::Parser as _;
use copyrator_cli::installed::InstalledArgs;
use futures::stream::pending;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{
    callers::Callers,
    door::Door,
    entry::{Entry, Printed},
    guard::Guard,
    routes::routes,
    seat::Seat,
    site::Site,
};
use crate::{
    as_caller::{AsCaller, CallerClients},
    connect::WriteClient,
};

const HOST: &str = "127.0.0.1:4711";

#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    installed: InstalledArgs,
}

/// A console over an API server that answers with a status code and an object, by method and path.
pub(super) struct Run {
    router: Router,
    printed: Printed,
    pub(super) seat: Arc<Seat>,
}

impl Run {
    pub(super) fn over(answer: impl Fn(&str, &str) -> (u16, Value) + Clone + Send + Sync + 'static) -> Self {
        Self::waiting(answer, |_| None)
    }

    /// The same over one that answers some paths only when it is told to.
    fn waiting(
        answer: impl Fn(&str, &str) -> (u16, Value) + Clone + Send + Sync + 'static,
        until: impl Fn(&str) -> Option<CancellationToken> + Clone + Send + Sync + 'static,
    ) -> Self {
        let server = tower::service_fn(move |request: Request<Body>| {
            let until = until(request.uri().path());
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let method = if is_watch { "WATCH" } else { request.method().as_str() };
            let (code, body) = answer(method, request.uri().path());
            let text: String = match body.as_array().filter(|_| is_watch) {
                Some(events) => events.iter().map(|event| format!("{event}\n")).collect(),
                None => body.to_string(),
            };
            let body = match is_watch && body.is_null() {
                // A watch to which nothing comes.
                true => axum::body::Body::from_stream(pending::<Result<String, Infallible>>()),
                false => text.into(),
            };
            let response = Response::builder().status(code).body(body);
            async move {
                if let Some(until) = until {
                    until.cancelled().await;
                }
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        let installed = Settings::parse_from(["console"]).installed.check().unwrap();
        let client = Client::new(server, "shop");
        let writes = AsCaller::new(WriteClient::of(client.clone()));
        let clients = CallerClients { reads: client, writes };
        let seat = Seat::of_run(clients, installed, "context test".to_owned());
        let (entry, printed) = Entry::new(Instant::now()).unwrap();
        let seat = Arc::new(seat);
        let callers = Callers::One { entry, seat: seat.clone() };
        let door = Door::new(Guard::of_run(HOST).unwrap(), Site::of_run(), callers);
        Self { router: routes(Arc::new(door)), printed, seat }
    }

    fn quiet() -> Self {
        Self::over(|_, path| match path {
            "/apis/authentication.k8s.io/v1/selfsubjectreviews" => (
                201,
                json!({ "metadata": {}, "status": { "userInfo": { "username": "alice", "groups": ["blue"] } } }),
            ),
            _ => (
                404,
                json!({ "kind": "Status", "status": "Failure", "message": "path not found", "reason": "NotFound", "code": 404 }),
            ),
        })
    }

    /// The end of this run, as Ctrl-C makes it.
    pub(super) fn end(&self) {
        self.seat.ended.cancel();
    }

    /// An answer whose body is still to be read.
    pub(super) async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Response<axum::body::Body> {
        let request = Request::get(path).header(header::HOST, HOST);
        let request = request.header(header::AUTHORIZATION, self.bearer());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(axum::body::Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> (StatusCode, http::HeaderMap, Vec<u8>) {
        let request = request.header(header::HOST, HOST).body(axum::body::Body::from(body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.printed.bearer)
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).header(header::AUTHORIZATION, self.bearer());
        let (code, _, body) = self.send(request, Vec::new()).await;
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn log_in(&self, token: &str) -> (StatusCode, http::HeaderMap) {
        let request =
            Request::post("/login").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let (code, headers, _) = self.send(request, format!("token={token}").into_bytes()).await;
        (code, headers)
    }
}

#[tokio::test]
async fn nobody_comes_in_without_a_secret_of_this_run() {
    let run = Run::quiet();
    let (code, headers, body) = run.send(Request::get("/api/v1/whoami"), Vec::new()).await;
    let said: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (code, &said["kind"], &said["reason"]),
        (StatusCode::UNAUTHORIZED, &json!("Status"), &json!("Unauthorized"))
    );
    assert_eq!(headers[header::WWW_AUTHENTICATE], "Bearer");
    let (code, headers, _) = run.send(Request::get("/"), Vec::new()).await;
    assert_eq!((code, &headers[header::LOCATION]), (StatusCode::SEE_OTHER, &"/login".parse().unwrap()));
    for foreign in [Run::quiet().bearer(), "Basic YTpi".to_owned(), format!("Bearer {}", run.printed.token)] {
        let (code, ..) =
            run.send(Request::get("/api/v1/whoami").header(header::AUTHORIZATION, foreign), Vec::new()).await;
        assert_eq!(code, StatusCode::UNAUTHORIZED);
    }
    let (code, who) = run.get("/api/v1/whoami").await;
    assert_eq!(code, StatusCode::OK);
    let expected = json!({ "apiVersion": "cli.copyrator.dev/v1alpha1", "kind": "WhoAmI", "user": "alice", "groups": ["blue"],
        "cluster": "context test" });
    assert_eq!(who, expected);
}

#[tokio::test]
async fn the_token_is_changed_for_a_cookie_once() {
    let run = Run::quiet();
    assert_eq!(run.log_in("guessed").await.0, StatusCode::FORBIDDEN);
    let (code, headers) = run.log_in(&run.printed.token).await;
    assert_eq!((code, &headers[header::LOCATION]), (StatusCode::SEE_OTHER, &"/".parse().unwrap()));
    let cookie = headers[header::SET_COOKIE].to_str().unwrap();
    let (value, attributes) = cookie.split_once(';').unwrap();
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict");
    let with =
        |cookie: &str| Request::get("/api/v1/whoami").header(header::COOKIE, format!("other=1; {cookie}"));
    assert_eq!(run.send(with(value), Vec::new()).await.0, StatusCode::OK);
    assert_eq!(run.send(with("copyrator-console=guessed"), Vec::new()).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(
        Run::quiet().send(with(value), Vec::new()).await.0,
        StatusCode::UNAUTHORIZED,
        "a cookie of another run"
    );
    assert_eq!(run.log_in(&run.printed.token).await.0, StatusCode::FORBIDDEN, "taken twice");
}

#[tokio::test]
async fn every_answer_is_hardened_and_every_problem_is_a_status() {
    let run = Run::quiet();
    let bearer = |request: http::request::Builder| request.header(header::AUTHORIZATION, run.bearer());
    let form = "application/x-www-form-urlencoded";
    for (request, body, code, reason) in [
        (bearer(Request::get("/api/v1/whoami")), 0, 200, None),
        (Request::get("/login"), 0, 200, None),
        (Request::get("/assets/style.css"), 0, 200, None),
        (bearer(Request::get("/api/v1/nothing")), 0, 404, Some("NotFound")),
        (bearer(Request::delete("/api/v1/whoami")), 0, 405, Some("MethodNotAllowed")),
        (bearer(Request::put("/api/v1/whoami")), 0, 405, Some("MethodNotAllowed")),
        (
            bearer(Request::post("/api/v1/plan").header("content-type", "text/plain")),
            0,
            415,
            Some("UnsupportedMediaType"),
        ),
        (bearer(Request::get("/")).header("host", "evil.example"), 0, 403, Some("Forbidden")),
        (bearer(Request::get("/")).header("origin", "http://evil.example"), 0, 403, Some("Forbidden")),
        (Request::post("/login").header("content-type", "text/plain"), 0, 415, Some("UnsupportedMediaType")),
        (Request::post("/login").header("content-type", form), 65 << 10, 413, Some("RequestEntityTooLarge")),
        (
            bearer(Request::post("/api/v1/plan").header("content-type", "application/yaml")),
            8 << 20,
            413,
            Some("RequestEntityTooLarge"),
        ),
        (bearer(Request::post("/policies").header("content-type", form)), 8 << 20, 413, None),
    ] {
        let (seen, headers, body) = run.send(request, vec![b'a'; body]).await;
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert_eq!(
            (seen.as_u16(), said["reason"].as_str()),
            (code, reason),
            "{}",
            String::from_utf8_lossy(&body)
        );
        for (name, part) in [
            ("content-security-policy", "frame-ancestors 'none'"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert!(headers[name].to_str().unwrap().contains(part), "{name}: {headers:?}");
        }
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}

/// The path of a template, at the API server.
const TEMPLATE: &str = "/apis/copyrator.dev/v1alpha1/namespaces/shop/copyratortemplates/app";

/// A cluster with one namespace and one ConfigMap in it, where everybody may everything but see nodes.
pub(super) fn small_cluster(method: &str, path: &str) -> (u16, Value) {
    let metadata = |namespace: &str, name: &str| {
        json!({ "namespace": namespace, "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z" })
    };
    let list = |items: Value| (200, json!({ "metadata": { "resourceVersion": "1" }, "items": items }));
    let last = path.rsplit('/').next().unwrap_or_default();
    match (method, path) {
        (_, "/apis/authentication.k8s.io/v1/selfsubjectreviews") => {
            (201, json!({ "metadata": {}, "status": { "userInfo": { "username": "alice", "groups": [] } } }))
        }
        ("POST", _) if last.ends_with("accessreviews") => {
            (201, json!({ "metadata": {}, "spec": {}, "status": { "allowed": true } }))
        }
        (_, "/version") => {
            let fields = [
                "major",
                "minor",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            ];
            let mut version: Value = fields.into_iter().map(|name| (name.to_owned(), json!(""))).collect();
            version["gitVersion"] = json!("v1.36.0");
            (200, version)
        }
        (_, "/api/v1/nodes") => (
            403,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
                "details": { "kind": "nodes" } }),
        ),
        ("GET" | "PATCH", TEMPLATE) => (
            if method == "GET" { 200 } else { 201 },
            json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "metadata": metadata("shop", "app") }),
        ),
        ("DELETE", TEMPLATE) => (200, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" })),
        ("WATCH", _) => (200, json!([])),
        ("GET", "/api/v1/configmaps" | "/api/v1/namespaces/shop/configmaps") => {
            list(json!([{ "metadata": metadata("shop", "app") }]))
        }
        ("GET", "/api/v1/namespaces") => list(json!([{ "metadata": metadata("", "shop") }])),
        ("GET", _) if last.ends_with('s') && last.len() > 3 => list(json!([])),
        _ => (
            404,
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404 }),
        ),
    }
}

#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let run = Run::over(small_cluster);
    let (code, document) = run.get("/api/v1/openapi.json").await;
    assert_eq!((code, &document["openapi"]), (StatusCode::OK, &json!("3.1.0")));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15, "{paths:?}");
    let is_as = |mut schema: Value, body: &Value| {
        schema["components"] = document["components"].clone();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> = validator.iter_errors(body).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:#?} in {body}");
    };
    let mut answered = 0;
    for (path, operations) in paths {
        let real =
            path.replace("{kind}", "configmap").replace("{namespace}", "shop").replace("{name}", "app");
        for (verb, operation) in operations.as_object().unwrap() {
            let request = Request::builder().method(verb.to_uppercase().as_str()).uri(&real);
            let request = request
                .header(header::AUTHORIZATION, run.bearer())
                .header("content-type", "application/yaml");
            let manifest = match verb.as_str() {
                "post" => "kind: ConfigMap\napiVersion: v1\nmetadata: {name: app}\ndata: {key: value}\n",
                "put" => "spec: {}",
                _ => "",
            };
            let (code, _, body) = run.send(request, manifest.into()).await;
            if path.ends_with("/events") {
                assert_eq!(code, StatusCode::OK, "{body:?}");
                answered += 1;
                continue;
            }
            let body: Value = serde_json::from_slice(&body).unwrap();
            let responses = &operation["responses"];
            let described = responses.get(code.as_str()).unwrap_or(&responses["default"]);
            answered += usize::from(code.is_success());
            assert!(code.is_success() || path.ends_with("/nodes"), "{verb} {real}: {code} {body}");
            is_as(described["content"]["application/json"]["schema"].clone(), &body);
        }
    }
    assert!(answered > 15, "only {answered} answers");
}

#[tokio::test]
async fn a_refusal_of_the_api_server_comes_through_and_nonsense_is_named() {
    let run = Run::over(small_cluster);
    let (code, said) = run.get("/api/v1/nodes").await;
    assert_eq!((code, &said["details"]["kind"]), (StatusCode::FORBIDDEN, &json!("nodes")));
    assert!(said["message"].as_str().unwrap().starts_with("nodes is forbidden: User \"alice\""), "{said}");
    for (path, code) in [
        ("/api/v1/copies?limit=0", 400),
        ("/api/v1/copies?colour=red", 400),
        ("/api/v1/nodes?state=Failed", 400),
        ("/api/v1/events?after=x&limit=1", 400),
        ("/api/v1/why/pod/shop/app", 404),
        ("/api/v1/why/configmap/shop/absent", 404),
        ("/api/v1/tree/deploy/shop/web", 404),
        ("/api/v1/why-not/shop?rule=nonsense", 400),
        // A path that would lead to others at the API server, such as Secrets with their values.
        ("/api/v1/namespaces/shop%2Fsecrets%3Fx=/services", 400),
        ("/api/v1/namespaces/..%2F..%2Fsecrets%23/services", 400),
        ("/api/v1/why/configmap/shop%2F..%2Fweb/app", 400),
        ("/api/v1/why/configmap/shop/%3Cb%3E", 400),
        ("/api/v1/namespaces/shop/templates/%2E%2E", 400),
        ("/api/v1/namespaces/shop/templates/a:b", 400),
        ("/api/v1/namespaces/shop/templates/other", 404),
    ] {
        let (seen, said) = run.get(path).await;
        assert_eq!((seen.as_u16(), &said["kind"]), (code, &json!("Status")), "{path}: {said}");
    }
    for (body, code) in [("kind: A\nkind: hunter2", 400), ("", 400), ("hunter2", 400)] {
        let request = Request::post("/api/v1/check").header(header::AUTHORIZATION, run.bearer());
        let (seen, _, said) = run.send(request.header("content-type", "application/yaml"), body.into()).await;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(seen.as_u16(), code, "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[tokio::test]
async fn a_template_is_written_with_the_bearer_token_alone() {
    let run = Run::over(small_cluster);
    let (_, headers) = run.log_in(&run.printed.token).await;
    let cookie = headers[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let path = "/api/v1/namespaces/shop/templates/app";
    let yaml = ("content-type", "application/yaml");
    let bearer = run.bearer();
    let bearer = ("authorization", bearer.as_str());
    for (method, headers, body, code) in [
        ("PUT", &[bearer, yaml][..], "spec: {}", 201),
        ("PUT", &[bearer, yaml, ("if-match", "\"7\"")], "spec: {}", 201),
        ("PUT", &[bearer, yaml, ("if-match", "*")], "spec: {}", 400),
        ("PUT", &[bearer, yaml], "kind: Secret", 400),
        ("PUT", &[bearer, yaml], "metadata: {name: other}", 400),
        ("PUT", &[bearer, yaml], "spec: {}\n---\nspec: {}", 400),
        ("PUT", &[bearer, yaml], "", 400),
        ("PUT", &[bearer], "spec: {}", 415),
        ("DELETE", &[bearer], "", 200),
        ("DELETE", &[bearer, ("if-match", "7")], "", 200),
        ("DELETE", &[bearer], "{}", 400),
        ("PUT", &[("cookie", &cookie), yaml], "spec: {}", 401),
        ("DELETE", &[("cookie", &cookie), ("sec-fetch-site", "same-origin")], "", 401),
        ("DELETE", &[bearer, ("sec-fetch-site", "none")], "", 403),
        ("PUT", &[bearer, yaml, ("origin", "http://evil.example")], "spec: {}", 403),
        ("PATCH", &[bearer, yaml], "spec: {}", 405),
    ] {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (seen, answer, said) = run.send(request, body.into()).await;
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(seen.as_u16(), code, "{method} {headers:?} {body}: {said}");
        assert_eq!(said["kind"] == "Status", code >= 400 || method == "DELETE", "{said}");
        assert!(method != "PUT" || code != 201 || answer[header::ETAG] == "\"1\"", "{answer:?}");
    }
    for query in ["?dryRun=All", "?dryRun=None"] {
        let request = Request::delete(format!("{path}{query}")).header(bearer.0, bearer.1);
        let (seen, ..) = run.send(request, Vec::new()).await;
        assert_eq!(seen == StatusCode::OK, query == "?dryRun=All", "{query}");
    }
}

#[tokio::test]
async fn every_view_is_a_page_of_its_own_and_says_what_to_do_next() {
    let run = Run::over(small_cluster);
    for (path, part) in [
        ("/", "Nothing is declared yet"),
        ("/where", "Nothing is copied here"),
        ("/object/configmap/shop/app", "every user with RBAC rights on the object"),
        ("/object/configmap/shop/absent", "This does not exist"),
        ("/restarts", "No monitor or annotation selects a workload"),
        ("/policies", "no object violates a policy"),
        ("/live", "No recent Events"),
        ("/where?namespaces=shop,web", "namespaces=shop%2Cweb"),
    ] {
        let (_, headers, body) =
            run.send(Request::get(path).header(header::AUTHORIZATION, run.bearer()), Vec::new()).await;
        let page = String::from_utf8(body).unwrap();
        assert!(page.contains(part), "{path}: {page}");
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
        assert!(
            page.contains("context test") && page.contains("alice"),
            "{path} does not say who looks at what"
        );
        assert!(
            !page.contains(" style=") && !page.contains("onclick"),
            "the policy for content forbids it: {path}"
        );
    }
    let request = Request::post("/policies").header(header::AUTHORIZATION, run.bearer());
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let manifest = "manifest=kind%3A+CopyratorRule%0AapiVersion%3A+copyrator.dev%2Fv1alpha1%0Ametadata%3A+%7Bname%3A+%3Cb%3E%7D%0Aspec%3A+%7B%7D";
    let (code, _, body) = run.send(request, manifest.into()).await;
    let page = String::from_utf8(body).unwrap();
    assert_eq!(code, StatusCode::OK);
    assert!(page.contains("Refused") && !page.contains("<b>"), "{page}");
}
