//! Pages whose views take long: they begin without it, and the view follows in the same answer.

use std::time::Duration;

use futures::future::join_all;
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Run, small_cluster};
use crate::seat::AT_ONCE;

/// What every view asks for first, who looks apart.
const RULES: &str = "/apis/copyrator.dev/v1alpha1/copyratorrules";

/// A console over an API server that lists rules only when it is told to.
fn waiting(
    answer: impl Fn(&str, &str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Run, CancellationToken) {
    let told = CancellationToken::new();
    let until = told.clone();
    (Run::waiting(answer, move |path| (path == RULES).then(|| until.clone())), told)
}

/// An API server that lets nobody list rules.
fn refusing(method: &str, path: &str) -> (u16, Value) {
    match path {
        RULES => (
            403,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "no" }),
        ),
        _ => small_cluster(method, path),
    }
}

/// Whether an answer has begun without its view.
fn is_begun(part: &str) -> bool {
    part.contains("Reading everything that you may read in context test")
}

#[tokio::test]
async fn a_page_whose_view_takes_long_begins_without_it() {
    let (run, told) = waiting(small_cluster);
    let answer = run.open("/where", &[]).await;
    assert_eq!(
        (answer.status(), &answer.headers()["x-accel-buffering"]),
        (StatusCode::OK, &"no".parse().unwrap())
    );
    let mut body = answer.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(is_begun(&first), "{first}");
    assert!(
        first.contains("<title>Where") && first.contains("aria-current=\"page\"") && first.contains("alice"),
        "{first}"
    );
    assert!(!first.contains("</main>"), "{first}");
    told.cancel();
    let rest = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(rest.contains("Nothing is copied here") && rest.ends_with("</html>"), "{rest}");
    for once in ["<html", "</main>", "</footer>", "</html>"] {
        assert_eq!((first.clone() + &rest).matches(once).count(), 1, "{once}");
    }
    // The survey is at hand now.
    let whole = run.open("/", &[]).await;
    assert!(!whole.headers().contains_key("x-accel-buffering"));
    let whole = whole.into_body().collect().await.unwrap().to_bytes();
    let whole = String::from_utf8(whole.to_vec()).unwrap();
    assert!(whole.contains("Nothing is declared yet") && !whole.contains("Reading "), "{whole}");
}

#[tokio::test]
async fn what_is_refused_at_once_has_its_status_code_and_what_is_refused_later_its_words() {
    let (run, told) = waiting(refusing);
    let late = run.open("/where", &[]).await;
    assert_eq!(late.status(), StatusCode::OK);
    told.cancel();
    let late = late.into_body().collect().await.unwrap().to_bytes();
    let late = String::from_utf8(late.to_vec()).unwrap();
    assert!(is_begun(&late) && late.contains("You do not have the rights to see this"), "{late}");
    assert!(late.contains("may not list copyratorrules") && late.ends_with("</html>"), "{late}");
    // On a busy machine a view that is ready at once may take longer than a page waits for it.
    for _ in 0..100 {
        let at_once = run.open("/where", &[]).await;
        let status = at_once.status();
        let page = at_once.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(is_begun(&String::from_utf8_lossy(&page)), status == StatusCode::OK);
        if status == StatusCode::FORBIDDEN {
            return;
        }
    }
    panic!("a hundred refusals had no status code of their own");
}

#[tokio::test]
async fn a_client_that_prefers_to_wait_gets_the_page_whole() {
    let (run, told) = waiting(refusing);
    let open = run.open("/where", &[("prefer", "respond-async, wait=10")]);
    let (page, ()) = tokio::join!(open, async {
        // Longer than a page waits for its view otherwise.
        tokio::time::sleep(Duration::from_millis(300)).await;
        told.cancel();
    });
    assert_eq!(page.status(), StatusCode::FORBIDDEN);
    let page = page.into_body().collect().await.unwrap().to_bytes();
    assert!(!is_begun(&String::from_utf8_lossy(&page)));
}

#[tokio::test]
async fn a_page_on_its_way_has_its_place_until_its_view_is_there_or_nobody_waits_for_it() {
    let (run, told) = waiting(small_cluster);
    let mut begun = join_all((0..AT_ONCE).map(|_| run.open("/where", &[]))).await;
    assert!(begun.iter().all(|answer| answer.status() == StatusCode::OK));
    let whoami = async || run.get("/api/v1/whoami").await.0;
    assert_eq!(whoami().await, StatusCode::TOO_MANY_REQUESTS);
    begun.pop();
    assert_eq!(whoami().await, StatusCode::OK, "one has left");
    let again = run.open("/where", &[]).await;
    assert_eq!(whoami().await, StatusCode::TOO_MANY_REQUESTS);
    told.cancel();
    again.into_body().collect().await.unwrap();
    assert_eq!(whoami().await, StatusCode::OK, "one is complete");
}

/// The API server does not answer what is asked before the survey.
#[tokio::test(start_paused = true)]
async fn a_page_on_its_way_ends_at_the_deadline_of_every_answer() {
    let never = CancellationToken::new();
    let run = Run::waiting(small_cluster, move |path| path.ends_with("/deployments").then(|| never.clone()));
    let page = run.open("/where?namespaces=shop", &[]).await;
    let begun = tokio::time::Instant::now();
    let page = page.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8(page.to_vec()).unwrap();
    assert!(page.contains("Reading shop in context test"), "{page}");
    assert!(page.contains("there was no answer within 60 s") && page.ends_with("</html>"), "{page}");
    assert_eq!(begun.elapsed().as_secs(), 59);
}
