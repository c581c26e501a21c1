//! The same routes for callers who each bring a token, over an API server that knows some.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::Router;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{Settings, small_cluster};
use crate::{
    cli::console::{
        callers::Callers,
        door::Door,
        guard::Guard,
        routes,
        sealed::Seal,
        seats::Seats,
        site::{Session, Site},
        token::Token,
    },
    cluster::ApiServer,
};

const FORM: &str = "application/x-www-form-urlencoded";

/// What the API server was sent: the path and the headers of each request.
type Sent = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// An API server that knows every token that begins with "good", until it is told that they are withdrawn.
fn server(sent: Sent, withdrawn: CancellationToken) -> ApiServer {
    ApiServer::answering(move |request| {
        let path = request.uri().path().to_owned();
        let token = request.headers()[header::AUTHORIZATION].to_str().unwrap().to_owned();
        sent.lock().unwrap().push((path.clone(), request.headers().clone()));
        let is_known = token.starts_with("Bearer good") && !withdrawn.is_cancelled();
        let (code, body) = match is_known {
            true if path.ends_with("selfsubjectreviews") => {
                let user = json!({ "username": "system:serviceaccount:shop:app", "groups": [] });
                (201, json!({ "metadata": {}, "status": { "userInfo": user } }))
            }
            true => small_cluster(request.method().as_str(), &path),
            false => (
                401,
                json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
                    "reason": "Unauthorized", "code": 401 }),
            ),
        };
        Response::builder().status(code).body(body.to_string()).unwrap()
    })
}

struct Run {
    router: Router,
    seats: Arc<Seats>,
    sent: Sent,
    withdrawn: CancellationToken,
}

impl Run {
    fn below(base: &str) -> Self {
        use clap::Parser as _;
        let (sent, withdrawn) = (Sent::default(), CancellationToken::new());
        let site = Site { base: base.parse().unwrap(), session: Session::Token };
        let installed = Settings::parse_from(["console"]).installed.check().unwrap();
        let server = server(sent.clone(), withdrawn.clone());
        let seats = Arc::new(Seats::new(server, installed, site.clone(), CancellationToken::new()));
        let callers = Callers::Tokens { seal: Box::new(Seal::new().unwrap()), seats: seats.clone() };
        let guard = Guard::named(vec!["localhost".parse().unwrap(), "console.example.com".parse().unwrap()]);
        Self { router: routes(Arc::new(Door::new(guard, site, callers))), seats, sent, withdrawn }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, HeaderMap, String) {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let is_named = headers.iter().any(|(name, _)| *name == "host");
        let request = if is_named { request } else { request.header(header::HOST, "localhost:8001") };
        let request = request.body(axum::body::Body::from(body.to_owned())).unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status.as_u16(), head.headers, String::from_utf8(body).unwrap())
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let (code, _, body) = self.send("GET", path, headers, "").await;
        (code, serde_json::from_str(&body).unwrap_or_default())
    }

    /// Logs in, and gives the cookie as browsers send it.
    async fn log_in(&self, base: &str, token: &str) -> (u16, HeaderMap, String) {
        let (code, headers, _) = self
            .send("POST", &format!("{base}/login"), &[("content-type", FORM)], &format!("token={token}"))
            .await;
        let cookie = headers.get(header::SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        (code, headers, cookie.unwrap_or_default())
    }

    fn asked(&self) -> usize {
        self.sent.lock().unwrap().len()
    }
}

const GOOD: (&str, &str) = ("authorization", "Bearer good");

#[tokio::test]
async fn without_a_token_there_is_a_status_for_programs_and_a_form_for_people() {
    let run = Run::below("");
    let (code, headers, body) = run.send("GET", "/api/v1/whoami", &[], "").await;
    let said: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &said["kind"], &said["reason"]), (401, &json!("Status"), &json!("Unauthorized")));
    assert_eq!(headers[header::WWW_AUTHENTICATE], "Bearer");
    let (code, headers, _) = run.send("GET", "/where", &[], "").await;
    assert_eq!((code, &headers[header::LOCATION]), (303, &"/login".parse().unwrap()));
    let (code, _, form) = run.send("GET", "/login", &[], "").await;
    assert!(code == 200 && form.contains("kubectl create token") && !form.contains("data-once"), "{form}");
    for other in ["Basic YTpi", "Bearer ", "good"] {
        assert_eq!(run.get("/api/v1/whoami", &[("authorization", other)]).await.0, 401, "{other}");
    }
    for host in ["evil.example", "localhost.evil.example", "console.example.com@evil.example"] {
        let (code, said) = run.get("/api/v1/whoami", &[GOOD, ("host", host)]).await;
        assert!(code == 403 && said["message"].as_str().unwrap().contains("--allowed-hosts"), "{said}");
    }
    assert_eq!(run.asked(), 0, "the API server hears of nobody without a token");
}

#[tokio::test]
async fn the_token_is_all_that_the_api_server_gets_to_see_of_a_request() {
    let run = Run::below("");
    let headers = [
        GOOD,
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("cookie", "other=1"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-remote-user", "admin"),
        ("accept", "text/html"),
    ];
    let (code, who) = run.get("/api/v1/whoami", &headers).await;
    assert_eq!((code, &who["user"]), (200, &json!("system:serviceaccount:shop:app")), "{who}");
    let (code, said) = run.get("/api/v1/nodes", &headers).await;
    assert_eq!((code, &said["details"]["kind"]), (403, &json!("nodes")), "{said}");
    let put = [&headers[..], &[("content-type", "application/yaml"), ("if-match", "7")]].concat();
    let path = "/api/v1/namespaces/shop/templates/app";
    assert_eq!(run.send("PUT", path, &put, "spec: {}").await.0, 201);
    let sent = run.sent.lock().unwrap();
    assert!(sent.len() > 3, "{sent:?}");
    for (path, headers) in sent.iter() {
        let names: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
        let ours = ["accept", "authorization", "content-type", "user-agent"];
        assert!(names.iter().all(|name| ours.contains(name)), "{path}: {names:?}");
        assert_eq!(headers[header::AUTHORIZATION], "Bearer good");
        assert!(headers.get(header::ACCEPT).is_none_or(|kind| kind != "text/html"), "{path}");
    }
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_asked_about_again_at_once() {
    let run = Run::below("");
    let bad = [("authorization", "Bearer bad")];
    for _ in 0..3 {
        let (code, said) = run.get("/api/v1/whoami", &bad).await;
        assert_eq!((code, &said["kind"]), (401, &json!("Status")), "{said}");
        assert_eq!(run.asked(), 1);
    }
    assert_eq!(run.get("/api/v1/whoami", &[GOOD]).await.0, 200);
    // The one that was withdrawn is refused, and then without a question.
    run.withdrawn.cancel();
    assert_eq!(run.get("/api/v1/whoami", &[GOOD]).await.0, 401);
    let asked = run.asked();
    assert_eq!(run.get("/api/v1/whoami", &[GOOD]).await.0, 401);
    assert_eq!(run.asked(), asked);
}

#[tokio::test]
async fn a_cookie_holds_the_token_sealed_and_lets_nobody_write() {
    let run = Run::below("");
    let (code, _, cookie) = run.log_in("", "bad").await;
    assert_eq!((code, cookie.as_str()), (401, ""));
    assert_eq!(run.log_in("", "").await.0, 400);
    let (code, headers, cookie) = run.log_in("", "good").await;
    assert_eq!((code, &headers[header::LOCATION]), (303, &"/".parse().unwrap()));
    let (value, attributes) = cookie.split_once(';').unwrap();
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=28800");
    assert!(value.starts_with("__Host-copyrator-console=") && !value.contains("good"), "{value}");
    assert_eq!(run.get("/api/v1/whoami", &[("cookie", value)]).await.0, 200);
    let (_, _, page) = run.send("GET", "/", &[("cookie", value)], "").await;
    assert!(page.contains("Log out") && page.contains("system:serviceaccount:shop:app"), "{page}");

    let middle = value.len() - 20;
    let other = if value[middle..].starts_with('A') { "B" } else { "A" };
    let tampered = format!("{}{other}{}", &value[..middle], &value[middle + 1..]);
    let renamed = value.replace("__Host-", "");
    for wrong in [&tampered, &renamed, "__Host-copyrator-console=good"] {
        assert_eq!(run.get("/api/v1/whoami", &[("cookie", wrong)]).await.0, 401, "{wrong}");
    }
    assert_eq!(Run::below("").get("/api/v1/whoami", &[("cookie", value)]).await.0, 401, "another process");
    let path = "/api/v1/namespaces/shop/templates/app";
    let yaml = ("content-type", "application/yaml");
    assert_eq!(run.send("PUT", path, &[("cookie", value), yaml], "spec: {}").await.0, 401);
    assert_eq!(run.send("PUT", path, &[GOOD, yaml], "spec: {}").await.0, 201);

    for (site, code) in [("cross-site", 403), ("same-site", 403), ("same-origin", 303)] {
        let headers = [("content-type", FORM), ("sec-fetch-site", site)];
        assert_eq!(run.send("POST", "/login", &headers, "token=good").await.0, code, "{site}");
        assert_eq!(run.send("POST", "/logout", &headers, "").await.0, code, "{site}");
    }
    let (_, headers, _) = run.send("POST", "/logout", &[], "").await;
    assert!(
        headers[header::SET_COOKIE]
            .to_str()
            .unwrap()
            .ends_with("=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0")
    );
}

#[tokio::test]
async fn below_a_base_path_every_address_has_it() {
    let run = Run::below("/tools/copyrator");
    let (code, headers, _) = run.log_in("/tools/copyrator", "good").await;
    assert_eq!((code, &headers[header::LOCATION]), (303, &"/tools/copyrator".parse().unwrap()));
    let (code, headers, _) = run.send("GET", "/tools/copyrator/where", &[], "").await;
    assert_eq!((code, &headers[header::LOCATION]), (303, &"/tools/copyrator/login".parse().unwrap()));
    let (code, headers, _) = run.send("GET", "/tools/copyrator/", &[], "").await;
    assert_eq!((code, &headers[header::LOCATION]), (308, &"/tools/copyrator".parse().unwrap()));
    for beside in ["/", "/login", "/tools", "/tools/copyratorx", "/api/v1/whoami"] {
        let (code, headers, said) = run.send("GET", beside, &[GOOD], "").await;
        assert!(code == 404 && said.contains("--base-path"), "{beside}: {said}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
    for view in ["", "/where", "/object/configmap/shop/app", "/restarts", "/policies", "/live", "/login"] {
        let (code, _, page) = run.send("GET", &format!("/tools/copyrator{view}"), &[GOOD], "").await;
        assert_eq!(code, 200, "{view}: {page}");
        let mut addresses = 0;
        for name in ["href=\"", "src=\"", "action=\""] {
            for (at, _) in page.match_indices(name) {
                let address = page[at + name.len()..].split('"').next().unwrap();
                assert!(
                    address.starts_with("/tools/copyrator") || address.starts_with('#'),
                    "{view}: {address}"
                );
                addresses += 1;
            }
        }
        assert!(addresses > 3 && page.contains("data-base=\"/tools/copyrator\""), "{page}");
    }
    let (code, document) = run.get("/tools/copyrator/api/v1/openapi.json", &[GOOD]).await;
    assert_eq!((code, &document["servers"][0]["url"]), (200, &json!("/tools/copyrator")));
    assert_eq!(document["components"]["securitySchemes"]["cookie"]["name"], "__Host-copyrator-console");
    let (code, _, script) = run.send("GET", "/tools/copyrator/assets/script.js", &[], "").await;
    assert!(code == 200 && !script.contains("\"/api") && !script.contains("`/api"), "{script}");
}

#[tokio::test]
async fn seats_are_few_and_given_up_after_a_minute() {
    let run = Run::below("");
    let seat = async |number: usize| run.seats.of(&Token::read(&format!("good-{number}")).unwrap()).await;
    let mut taken = Vec::new();
    for number in 0..20 {
        taken.push(seat(number).await.unwrap());
    }
    assert_eq!(taken[0].client.default_namespace(), "shop", "an account's own namespace");
    let problem = seat(20).await.err().unwrap();
    assert_eq!(problem.code(), StatusCode::SERVICE_UNAVAILABLE);
    let (code, headers, _) = run.send("GET", "/api/v1/whoami", &[GOOD], "").await;
    assert_eq!((code, &headers[header::RETRY_AFTER]), (503, &"5".parse().unwrap()));
    // Whoever does nothing makes room, and is known again later.
    let own = Arc::as_ptr(&taken[3]);
    assert_eq!(Arc::as_ptr(&seat(3).await.unwrap()), own, "one seat a token");
    taken.truncate(19);
    assert!(seat(20).await.is_ok());
    let asked = run.asked();
    assert!(seat(3).await.is_ok());
    assert_eq!(run.asked(), asked, "who has a seat is not asked about");
    let later = Instant::now() + Duration::from_secs(61);
    run.seats.sweep(later);
    assert_eq!(Arc::as_ptr(&seat(3).await.unwrap()), own, "it is in use");
    drop(taken);
    run.seats.sweep(later);
    seat(3).await.unwrap();
    assert_eq!(run.asked(), asked + 1, "it was given up");
}
