//! Steady writes that a policy judges, while something happens that nobody is to notice.

use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::http;
use crate::scene::Scene;

/// Some thirty writes a second together.
const WRITERS: usize = 4;
const EVERY: Duration = Duration::from_millis(130);
/// Plain HTTP on this side, the admin's connections on the other.
const PROXY: &str = "127.0.0.1:8001";
/// So many before and after whatever happens would show what is amiss without it.
const ENOUGH: Duration = Duration::from_secs(3);

/// What became of the writes.
#[derive(Debug, Default)]
pub(super) struct Writes {
    accepted: AtomicUsize,
    refused: AtomicUsize,
    failed: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Writes {
    /// Writes until `happens` has happened: how many were accepted, and how many refused as they should be. None may fail.
    pub(super) fn flow_while(
        scene: &mut Scene,
        happens: impl FnOnce(&mut Scene) -> Result<(), Failure>,
    ) -> Result<(usize, usize), Failure> {
        let mut proxy = scene.client("proxy --port=8001");
        let mut proxy =
            proxy.stdout(Stdio::null()).spawn().map_err(Failure::at("run", "kubectl proxy".as_ref()))?;
        scene.eventually("kubectl proxy to answer", |_| {
            TcpStream::connect(PROXY).map(drop).map_err(|error| error.to_string())
        })?;
        let writes = Writes::default();
        let outcome = thread::scope(|scope| {
            for writer in 0..WRITERS {
                let writes = &writes;
                scope.spawn(move || writes.write(writer));
            }
            thread::sleep(ENOUGH);
            let outcome = happens(scene);
            thread::sleep(ENOUGH);
            writes.is_over.store(true, Ordering::Relaxed);
            outcome
        });
        let _ = proxy.kill();
        let _ = proxy.wait();
        outcome?;
        let failed = writes.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !failed.is_empty() {
            let first = &failed[..failed.len().min(5)];
            return Err(Failure::new(format!("{} writes failed, at first: {first:#?}", failed.len())));
        }
        Ok((writes.accepted.into_inner(), writes.refused.into_inner()))
    }

    fn write(&self, writer: usize) {
        let place = "/api/v1/namespaces/shop/configmaps";
        let path = format!("{place}/app-{writer}?fieldManager=writer&force=true&fieldValidation=Strict");
        let mut due = Instant::now();
        for turn in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            // Each fifth is one that the policy refuses: so all of them are judged.
            let is_good = turn % 5 != 4;
            let url =
                if is_good { format!("https://example.com/{turn}") } else { format!("nonsense {turn}") };
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"app-{writer}"}},"data":{{"url":"{url}"}}}}"#
            );
            match http::request(PROXY, "PATCH", &path, "application/apply-patch+yaml", &body) {
                Ok(answer) if is_good && matches!(answer.code, 200 | 201) => {
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                }
                Ok(answer) if !is_good && answer.code == 403 && answer.body.contains("app-config") => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                other => {
                    let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.push(format!("{url}: {other:?}"));
                }
            }
            due += EVERY;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}
