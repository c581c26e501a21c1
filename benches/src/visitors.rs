//! People who use the console in the cluster: its process, their tokens, and what their browsers send.

use std::fs::{self, File};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Outcome;
use crate::arena::{Arena, LOOK, PATIENCE};

/// What their accounts are called.
const ACCOUNT: &str = "visitor";

/// `copyrator serve --roles=console`, as a pod runs it: without credentials.
pub(crate) struct Console {
    child: Child,
    address: String,
}

impl Console {
    /// Starts it, and waits until it listens.
    pub(crate) async fn start(arena: &Arena) -> Outcome<Console> {
        let (cluster, folder) = (arena.bed().cluster(), arena.bed().logs());
        let (authority, file) = (folder.join("console-ca.crt"), folder.join("console-kubeconfig"));
        fs::write(&authority, cluster.ca_pem())?;
        let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{ "name": "here", "cluster": { "server": cluster.server_url(), "certificate-authority": authority } }],
            "contexts": [{ "name": "here", "context": { "cluster": "here" } }] });
        fs::write(&file, kubeconfig.to_string())?;
        let log = folder.join("console.log");
        let mut command = arena.bed().copyrator(&["serve", "--roles=console"]);
        command.args(["--console-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--drain-delay=0s"]);
        let child = command.env("KUBECONFIG", &file).stderr(File::create(&log)?).spawn()?;
        let mut console = Console { child, address: String::new() };
        let begun = Instant::now();
        while console.address.is_empty() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("the console does not listen; see {}", log.display()).into());
            }
            tokio::time::sleep(LOOK).await;
            let text = fs::read_to_string(&log)?;
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let is_it = |line: &Value| {
                line["message"].as_str().is_some_and(|text| text.starts_with("serving the console"))
            };
            let said = lines.into_iter().find(is_it);
            console.address =
                said.and_then(|line| Some(line["address"].as_str()?.to_owned())).unwrap_or_default();
        }
        Ok(console)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Somebody who has opened it.
    pub(crate) fn visitor(&self, person: &Person) -> Visitor {
        let Person { namespace, token } = person;
        Visitor { address: self.address.clone(), token: token.clone(), namespace: namespace.clone() }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One in so many people may do everything, as those who run a platform; the others may in a namespace of theirs.
const OF_PLATFORM: usize = 4;

/// Somebody with a token.
pub(crate) struct Person {
    /// Where they are at home.
    pub(crate) namespace: String,
    token: String,
}

/// So many people, each at home in another namespace; the first one may do everything.
pub(crate) async fn people(arena: &Arena, count: usize) -> Outcome<Vec<Person>> {
    let group = "rbac.authorization.k8s.io";
    let mut people = Vec::new();
    for number in 0..count {
        let namespace = format!("team-{number:05}");
        let account = json!({"metadata": {"name": ACCOUNT}});
        arena.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), [account]).await?;
        let subject = json!({"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT});
        let binding = |name: &str, role: &str| {
            json!({"metadata": {"name": name}, "subjects": [subject],
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role}})
        };
        let (path, binding) = match number % OF_PLATFORM {
            0 => ("clusterrolebindings".to_owned(), binding(&format!("{ACCOUNT}-{number}"), "cluster-admin")),
            _ => (format!("namespaces/{namespace}/rolebindings"), binding(ACCOUNT, "admin")),
        };
        arena.create(&format!("/apis/{group}/v1/{path}"), [binding]).await?;
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36_000}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token");
        let request = http::Request::post(path).header("content-type", "application/json");
        let made: Value = arena.admin.request(request.body(serde_json::to_vec(&body)?)?).await?;
        let token = made["status"]["token"].as_str().ok_or("there is no token")?.to_owned();
        people.push(Person { namespace, token });
    }
    Ok(people)
}

/// Whether a request to the API server was made for one of them.
pub(crate) fn is_theirs(user: &str) -> bool {
    user.starts_with("system:serviceaccount:team-") && user.ends_with(&format!(":{ACCOUNT}"))
}

/// Somebody who uses a console.
#[derive(Clone)]
pub(crate) struct Visitor {
    address: String,
    token: String,
    /// Where they are at home.
    pub(crate) namespace: String,
}

/// Where what a page shows begins.
const SHOWN: &[u8] = b"<body";

/// Where bytes are in others.
fn place(all: &[u8], part: &[u8]) -> Option<usize> {
    all.windows(part.len()).position(|window| window == part)
}

/// An answer.
pub(crate) struct Page {
    /// Until bytes of the body were there that show something.
    pub(crate) painted: Duration,
    /// Until the last byte was there.
    pub(crate) took: Duration,
    pub(crate) body: Vec<u8>,
}

impl Visitor {
    /// Gets a page over a connection of its own. Another status than 200 is an error.
    pub(crate) async fn get(&self, path: &str) -> Outcome<Page> {
        let begun = Instant::now();
        let mut stream = self.ask(path).await?;
        let (mut answer, mut painted) = (Vec::new(), None);
        while timeout(PATIENCE, stream.read_buf(&mut answer)).await?? > 0 {
            if painted.is_none() && place(&answer, SHOWN).is_some() {
                painted = Some(begun.elapsed());
            }
        }
        let took = begun.elapsed();
        let end = place(&answer, b"\r\n\r\n").ok_or("an answer without a head")?;
        if !answer.starts_with(b"HTTP/1.1 200") {
            return Err(
                format!("{path}: {}", String::from_utf8_lossy(&answer[..answer.len().min(2000)])).into()
            );
        }
        Ok(Page { painted: painted.unwrap_or(took), took, body: answer.split_off(end + 4) })
    }

    /// The lines of the stream of events, from its first event.
    pub(crate) async fn follow(&self) -> Outcome<Lines<BufReader<TcpStream>>> {
        let mut lines = BufReader::new(self.ask("/api/v1/events").await?).lines();
        while let Some(line) = timeout(PATIENCE, lines.next_line()).await?? {
            match line.strip_prefix("HTTP/1.1 ") {
                Some(status) if !status.starts_with("200") => {
                    return Err(format!("a stream: {status}").into());
                }
                _ if line.starts_with("id:") => return Ok(lines),
                _ => {}
            }
        }
        Err("a stream has ended before its first event".into())
    }

    async fn ask(&self, path: &str) -> Outcome<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let (host, token) = (&self.address, &self.token);
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        Ok(stream)
    }
}
