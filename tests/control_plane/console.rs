//! `copyrator console`: nodes, namespaces, Deployments and Services over HTTP, with the rights of the caller and no others.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::objects::{config_map, deployment, ours, secret};
use crate::bed::{Person, Story, eventually, peaceful};
use crate::plan::account;

/// A value that must be in no answer.
pub const CANARY: &str = "canary-8f1b7c";

/// A console that runs, as admin or as somebody else.
pub struct Run {
    child: Child,
    /// The page's address, with the token that is taken once.
    pub page: String,
    caller: Caller,
}

/// A caller of a console, by what curl sends.
pub struct Caller {
    /// Where it listens.
    pub host: String,
    pub bearer: String,
}

impl Deref for Run {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Run {
    /// Starts it as the user of a kubeconfig, or as admin.
    pub fn start(story: &Story<'_>, who: Option<&Path>, arguments: &[&str]) -> Run {
        let mut command = story.bed.testbed.copyrator(&["console"]);
        command.args(arguments).stdout(Stdio::piped());
        if let Some(kubeconfig) = who {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command.spawn().expect("it runs");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines().take(3);
        let said: Vec<String> = said.map(|line| line.expect("a line")).collect();
        let word = |name: &str| {
            let line = said.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {said:?}")).trim().to_owned()
        };
        let api = word("api");
        let host =
            api.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/api/v1")).expect("an address");
        let caller = Caller { host: host.to_owned(), bearer: word("token") };
        Run { child, page: word("page"), caller }
    }

    /// Ends it as Ctrl-C does, and waits for it.
    pub fn interrupt(&mut self) -> std::process::ExitStatus {
        let told = std::process::Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        self.child.wait().expect("it ends")
    }
}

impl Caller {
    /// The status code and the body, as curl gets them.
    pub fn get(&self, path: &str) -> (u16, String) {
        let (code, _, body) = self.send("GET", path, &[], "");
        (code, body)
    }

    /// A stream, line by line, after the event with this id.
    pub fn follow(&self, path: &str, last: &str) -> impl Iterator<Item = String> + use<> {
        let port = self.host.rsplit(':').next().expect("a port");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
        let (host, bearer) = (&self.host, &self.bearer);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}");
        write!(stream, "{head}\r\nLast-Event-ID: {last}\r\nConnection: close\r\n\r\n").expect("it reads");
        BufReader::new(stream).lines().map(|line| line.expect("a line in time"))
    }

    /// What curl gets: the status code, the head and the body.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let port = self.host.rsplit(':').next().expect("a port");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(90))).expect("a timeout");
        let (host, bearer) = (&self.host, &self.bearer);
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\n");
        if !body.is_empty() {
            let is_said = headers.iter().any(|(name, _)| *name == "Content-Type");
            let kind = if is_said { "" } else { "Content-Type: application/yaml\r\n" };
            head += &format!("{kind}Content-Length: {}\r\n", body.len());
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        write!(stream, "{head}Connection: close\r\n\r\n{body}").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status code");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        (code, head.to_owned(), body.to_owned())
    }

    /// The answer of the API to a read.
    pub fn api(&self, path: &str) -> (u16, Value) {
        let (code, body) = self.get(&format!("/api/v1{path}"));
        (code, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: no JSON: {body}")))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of a list's objects.
pub fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

#[test]
fn a_console_shows_what_its_caller_may_see_and_no_value_of_a_secret() {
    let story = Story::new(peaceful(), "console");
    let (home, other) = (&story.home, story.bystander("other"));
    story.admin().create(&secret(home, "registry", [("password", CANARY)])).ok();
    story.admin().create(&config_map(&other, "app", [("k", "1")])).ok();
    for (place, kind, name, target) in
        [(home, "Secret", "registry", &other), (&other, "ConfigMap", "app", home)]
    {
        let spec = json!({ "source": { "kind": kind, "names": [name] }, "targets": [{ "names": [target] }] });
        story.admin().create(&ours("CopyratorRule", place, name, spec)).ok();
    }
    for place in [home, &other] {
        let mut web = deployment(place, "web", json!({}));
        web["spec"]["replicas"] = json!(0);
        story.admin().create(&web).ok();
        let port = json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] });
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": place, "name": "web" }, "spec": port });
        story.admin().create(&service).ok();
    }
    story.until("Secret", &other, "registry", [("password", CANARY)]);
    story.until("ConfigMap", home, "app", [("k", "1")]);

    let admin = Run::start(&story, None, &[]);
    // Here nodes are objects without a kubelet, if there are any.
    assert_eq!(admin.api("/nodes").0, 200);
    let (_, namespaces) = admin.api("/namespaces");
    assert!(names(&namespaces).contains(&home.as_str()) && names(&namespaces).contains(&other.as_str()));
    for plural in ["deployments", "services"] {
        let (code, list) = admin.api(&format!("/namespaces/{other}/{plural}"));
        assert_eq!((code, names(&list)), (200, vec!["web"]), "{list}");
    }
    let (_, copies) = admin.api(&format!("/copies?namespace={other}"));
    assert_eq!(copies["items"][0]["rule"], json!(format!("{home}/registry")), "{copies}");
    assert_eq!(copies["items"][0]["state"], "Current", "{copies}");

    let tenant = tenant(&story);
    let tenant = Run::start(&story, Some(&tenant), &["--namespaces", home]);
    only_its_own_namespace_is_there(&tenant, home, &other);
    for run in [&admin, &tenant] {
        no_byte_is_of_a_secret(run, home);
    }
}

/// Somebody with the role `edit` in the story's home, and nothing else.
pub fn tenant(story: &Story<'_>) -> std::path::PathBuf {
    let kubeconfig = account(story, "tenant", json!([]));
    let subject = json!({ "kind": "ServiceAccount", "namespace": story.home, "name": "tenant" });
    let group = "rbac.authorization.k8s.io";
    let binding = json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": { "namespace": story.home, "name": "tenant" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "edit" }, "subjects": [subject] });
    story.admin().create(&binding).ok();
    let person = Person::with(&kubeconfig);
    eventually("the tenant may write at home", || {
        let answer = person.try_create(&config_map(&story.home, "probe", []));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    kubeconfig
}

fn only_its_own_namespace_is_there(tenant: &Run, home: &str, other: &str) {
    let (code, list) = tenant.api(&format!("/namespaces/{home}/deployments"));
    assert_eq!((code, names(&list)), (200, vec!["web"]), "{list}");
    let elsewhere = format!("/namespaces/{other}/deployments");
    for (path, what) in [
        ("/nodes", "nodes is forbidden"),
        ("/namespaces", "namespaces is forbidden"),
        (&elsewhere, "deployments.apps is forbidden"),
    ] {
        let (code, said) = tenant.api(path);
        let message = said["message"].as_str().unwrap_or_default();
        assert_eq!(
            (code, &said["kind"], &said["reason"]),
            (403, &json!("Status"), &json!("Forbidden")),
            "{said}"
        );
        assert!(message.starts_with(what), "the API server's words: {said}");
    }
    let (code, copies) = tenant.api("/copies");
    assert_eq!((code, &copies["items"][0]["name"]), (200, &json!("app")), "{copies}");
    let mut places = copies["items"].as_array().into_iter().flatten().map(|copy| &copy["namespace"]);
    assert!(places.all(|place| place == home), "{copies}");
    for path in ["/restarts", "/rules"] {
        let (code, rows) = tenant.api(path);
        let mut places = rows["items"].as_array().into_iter().flatten().map(|row| &row["namespace"]);
        assert!(code == 200 && places.all(|place| place == home), "{path}: {rows}");
    }
    let (code, page) = tenant.get("/where");
    assert!(code == 200 && page.contains(home), "{page}");
    assert!(!page.contains(&format!("<th scope=\"row\">{other}</th>")), "{page}");
}

/// Every path of the API that is read, and every view.
fn no_byte_is_of_a_secret(run: &Run, home: &str) {
    let (_, document) = run.api("/openapi.json");
    // The feed goes on for minutes; its view has the same.
    let is_read = |path: &str, verbs: &Value| verbs["get"].is_object() && !path.ends_with("/events");
    let paths =
        document["paths"].as_object().expect("paths").iter().filter(|(path, verbs)| is_read(path, verbs));
    let real = |path: &str| {
        path.replace("{kind}", "secret").replace("{namespace}", home).replace("{name}", "registry")
    };
    let views = ["/", "/where", "/restarts", "/policies", "/live"].map(str::to_owned);
    let object = format!("/object/secret/{home}/registry");
    let encoded = "Y2FuYXJ5LThmMWI3Yw";
    for path in paths.map(|(path, _)| real(path)).chain(views).chain([object]) {
        let (code, body) = run.get(&path);
        assert!(code < 500, "{path}: {code} {body}");
        assert!(!body.contains(CANARY) && !body.contains(encoded), "{path} tells a Secret's value");
    }
}
