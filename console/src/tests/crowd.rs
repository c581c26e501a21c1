//! Very many connections to one console, most of which ask nothing.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::{HOST, Run, small_cluster};
use crate::{
    command::{CONNECTIONS, limits},
    seat::STREAMS,
    serve::{ConnectionMetrics, Drain, serve_plain},
};

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Sends a request, and reads until there is this text in the answer.
async fn ask(run: &Run, port: u16, path: &str, enough: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {}\r\n\r\n", run.bearer());
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut answer, mut part) = (String::new(), vec![0; 4096]);
    while !answer.contains(enough) {
        let read = timeout(DEADLINE, stream.read(&mut part)).await.unwrap().unwrap();
        assert!(read > 0, "{path} is closed after {answer:?}");
        answer += std::str::from_utf8(&part[..read]).unwrap();
    }
    (stream, answer)
}

#[tokio::test]
async fn a_thousand_idle_streams_and_connections_keep_nobody_out() {
    let run = Run::over(|method, path| match method {
        "WATCH" => (200, Value::Null),
        _ => small_cluster(method, path),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let metrics = ConnectionMetrics::default();
    let mut serving = JoinSet::new();
    let drain = Drain::on(run.seat.ended.clone());
    serving.spawn(serve_plain(listener, run.router.clone(), drain, limits(), metrics.clone()));

    let (mut streams, mut idle) = (Vec::new(), Vec::new());
    for number in 0..1_000 {
        let end = if number < STREAMS { "id: " } else { "}" };
        let (stream, answer) = ask(&run, port, "/api/v1/events", end).await;
        if answer.starts_with("HTTP/1.1 200 ") {
            streams.push(stream);
            continue;
        }
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("\r\nretry-after: 1\r\n"), "{head}");
        let said: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&said["kind"], &said["reason"]), (&"Status".into(), &"TooManyRequests".into()), "{said}");
        idle.push(stream);
    }
    assert_eq!(streams.len(), STREAMS);
    for _ in 0..1_000 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    for path in ["/api/v1/whoami", "/", "/where"] {
        let (_, answer) = ask(&run, port, path, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    assert!(metrics.open.get() <= i64::try_from(CONNECTIONS).unwrap() + 1, "{:?}", metrics.open);
    // Those who follow are still told.
    for stream in &streams {
        let lost = stream.try_read(&mut [0; 1]).map_err(|error| error.kind());
        assert!(!matches!(lost, Ok(0)), "a stream was closed");
    }
    assert_eq!(run.get("/api/v1/events").await.0, StatusCode::TOO_MANY_REQUESTS, "the streams are open");
    drop(streams);
    run.end();
    while serving.join_next().await.is_some() {}
}
