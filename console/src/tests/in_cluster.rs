//! The same routes for callers who each bring a token, over an API server that knows some.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Body};
use futures::{future::join_all, stream::pending};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{Settings, small_cluster};
use crate::{
    callers::Callers,
    connect::ApiServer,
    door::Door,
    guard::Guard,
    routes::routes,
    sealed::Seal,
    seat::Seat,
    seats::Seats,
    site::{Session, Site},
    token::Token,
};

const FORM: &str = "application/x-www-form-urlencoded";

/// What the API server was sent: the path and the headers of each request.
type Sent = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// An API server that knows every token that begins with "good", until it is told that they are withdrawn. Those with "web" are of
/// another namespace than others, and those with "alice" of a person.
fn server(sent: Sent, withdrawn: CancellationToken) -> ApiServer {
    ApiServer::answering(move |request| {
        let path = request.uri().path().to_owned();
        let token = request.headers()[header::AUTHORIZATION].to_str().unwrap().to_owned();
        sent.lock().unwrap().push((path.clone(), request.headers().clone()));
        let is_known = token.starts_with("Bearer good") && !withdrawn.is_cancelled();
        let (code, body) = match is_known {
            true if path.ends_with("selfsubjectreviews") => {
                let user = match token.as_str() {
                    token if token.contains("alice") => "alice".to_owned(),
                    token if token.contains("web") => format!("system:serviceaccount:web:{}", token.len()),
                    _ => "system:serviceaccount:shop:app".to_owned(),
                };
                let user = json!({ "username": user, "groups": [] });
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
        Self::with(base, &[])
    }

    /// The same with these flags of `serve`.
    fn with(base: &str, flags: &[&str]) -> Self {
        use clap::Parser as _;
        let (sent, withdrawn) = (Sent::default(), CancellationToken::new());
        let site = Site { base: base.parse().unwrap(), session: Session::Token };
        let installed = Settings::parse_from([&["console"], flags].concat()).installed.check().unwrap();
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
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status.as_u16(), head.headers, String::from_utf8(body).unwrap())
    }

    /// Sends the head of a request, and of its body nothing.
    fn begin(&self, tasks: &mut JoinSet<StatusCode>, path: &str, headers: &[(&str, &str)]) {
        let request = Request::post(path).header(header::HOST, "localhost:8001");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let body = Body::from_stream(pending::<Result<String, Infallible>>());
        let (router, request) = (self.router.clone(), request.body(body).unwrap());
        tasks.spawn(async move { router.oneshot(request).await.unwrap().status() });
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

/// With `--namespaces` nothing that a caller may not see is an error, but for those whom the API server does not know.
#[tokio::test]
async fn a_token_that_has_ended_is_401_whatever_is_looked_at() {
    for flags in [&[][..], &["--namespaces=shop"], &["--namespaces=shop,web"]] {
        for path in ["/api/v1/copies", "/api/v1/rules", "/api/v1/why/configmap/shop/app", "/where", "/"] {
            let run = Run::with("", flags);
            assert_eq!(run.get("/api/v1/whoami", &[GOOD]).await.0, 200);
            run.withdrawn.cancel();
            let (code, headers, said) = run.send("GET", path, &[GOOD], "").await;
            assert_eq!(code, 401, "{flags:?} {path}: {said}");
            let is_page = headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html");
            let words = if is_page { "no longer accepts your credentials" } else { "Unauthorized" };
            assert!(is_page != path.starts_with("/api") && said.contains(words), "{path}: {said}");
        }
    }
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
    // A caller who does nothing makes room, and is known again later.
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

#[tokio::test]
async fn a_caller_with_many_tokens_keeps_no_seat_from_others() {
    let run = Run::below("");
    let seat = async |token: &str| run.seats.of(&Token::read(token).unwrap()).await;
    // Of as many accounts of one namespace, and all in use.
    let mut taken = Vec::new();
    for number in 0..20 {
        taken.push(seat(&format!("good-web{}", "x".repeat(number))).await.unwrap());
    }
    assert_eq!(seat("good-web-more").await.err().unwrap().code(), StatusCode::SERVICE_UNAVAILABLE);
    let alice = seat("good-alice").await.unwrap();
    let ended: Vec<bool> = taken.iter().map(|seat| seat.ended.is_cancelled()).collect();
    assert!(ended[0] && !ended[1..].contains(&true), "streams of the seat that was away longest: {ended:?}");
    assert_eq!(seat("good-web").await.err().unwrap().code(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(Arc::ptr_eq(&alice, &seat("good-alice").await.unwrap()));
    let all: Vec<_> =
        join_all((0..9).map(async |number| seat(&format!("good-{number}")).await.unwrap())).await;
    assert!(all.iter().all(|seat| !seat.ended.is_cancelled()) && !alice.ended.is_cancelled());
    assert!(
        seat("good-9").await.is_err() && seat("good-web").await.is_err(),
        "neither has more than its half"
    );
    // What one seat may ask at once, all of a namespace may.
    let places = |seat: &Seat| seat.places.available_permits();
    let before = (places(&all[0]), places(&alice));
    let _held = all[1].places.try_acquire_many(3).unwrap();
    assert_eq!((places(&all[0]), places(&alice)), (before.0 - 3, before.1));
}

#[tokio::test]
async fn many_unknown_tokens_are_asked_about_in_turn() {
    let run = Run::below("");
    let tokens = (0..64).map(|number| Token::read(&format!("bad-{number}")).unwrap());
    let ask = async |token: Token| run.seats.of(&token).await.err().map(|problem| problem.code());
    let answers = join_all(tokens.chain(Token::read("good")).map(ask)).await;
    let (last, refused) = answers.split_last().unwrap();
    assert!(refused.iter().all(|code| *code == Some(StatusCode::UNAUTHORIZED)), "{refused:?}");
    assert_eq!(*last, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_sender_keeps_no_place_from_others() {
    let run = Run::below("");
    let form = ("content-type", FORM);
    let (mut logins, mut large) = (JoinSet::new(), JoinSet::new());
    (0..40).for_each(|_| run.begin(&mut logins, "/login", &[form]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(run.log_in("", "good").await.0, 303);
    assert_eq!(run.get("/api/v1/whoami", &[GOOD]).await.0, 200);

    let yaml = ("content-type", "application/yaml");
    run.begin(&mut large, "/api/v1/check", &[yaml, GOOD]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let small = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n";
    assert_eq!(run.send("POST", "/api/v1/check", &[yaml, GOOD], small).await.0, 200);
    let other = [yaml, ("authorization", "Bearer good-alice")];
    let padded = format!("{small}# {}", "x".repeat(300 << 10));
    assert_eq!(run.send("POST", "/api/v1/check", &other, &padded).await.0, 429, "one at a time");
    assert_eq!(large.join_next().await.unwrap().unwrap(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(run.send("POST", "/api/v1/check", &other, &padded).await.0, 200);
    let ended = logins.join_all().await;
    assert!(ended.len() == 40 && ended.iter().all(|code| !code.is_success() && !code.is_redirection()));
}

#[tokio::test]
async fn a_body_has_no_more_objects_than_memory_for_them() {
    let run = Run::below("");
    let headers = [GOOD, ("content-type", "application/yaml")];
    for (objects, code) in [(1_000, 200), (1_001, 413)] {
        let documents = "---\nkind: A\n".repeat(objects);
        let list = format!("kind: List\nitems:\n{}", "- kind: A\n".repeat(objects));
        for body in [documents, list] {
            assert_eq!(run.send("POST", "/api/v1/check", &headers, &body).await.0, code, "{objects}");
        }
    }
}

#[tokio::test]
async fn the_cookies_of_others_are_passed_over_whatever_is_in_them() {
    let run = Run::below("");
    let (_, _, cookie) = run.log_in("", "good").await;
    let ours = cookie.split(';').next().unwrap();
    let theirs = format!("name=Zoë; {ours}; =; other");
    assert_eq!(run.get("/api/v1/whoami", &[("cookie", &theirs)]).await.0, 200);
}
