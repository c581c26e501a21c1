//! `copyrator serve --roles=console`: a process without credentials, which answers each caller with the rights of the token they bring.

use std::fs::{self, File};
use std::process::{Child, Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bed::objects::{config_map, deployment};
use crate::bed::{Story, eventually, peaceful};
use crate::console::{Caller, names, tenant};
use crate::plan::account;

/// The console, as a pod runs it: it is told where the API server is, and nobody's credentials.
pub struct Console {
    child: Child,
    folder: TempDir,
    /// Where it listens.
    pub host: String,
}

impl Console {
    /// Starts it with these flags, and waits until it listens.
    pub fn start(story: &Story<'_>, more: &[&str]) -> Console {
        let (cluster, folder) = (story.bed.testbed.cluster(), tempfile::tempdir().expect("a folder"));
        let authority = folder.path().join("ca.crt");
        fs::write(&authority, cluster.ca_pem()).expect("it is written");
        let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{ "name": "here", "cluster": { "server": cluster.server_url(), "certificate-authority": authority } }],
            "contexts": [{ "name": "here", "context": { "cluster": "here" } }] });
        let file = folder.path().join("kubeconfig");
        fs::write(&file, kubeconfig.to_string()).expect("it is written");
        let log = File::create(folder.path().join("log")).expect("a log");
        let flags = [
            "serve",
            "--roles=console",
            "--console-addr=127.0.0.1:0",
            "--admin-addr=127.0.0.1:0",
            "--drain-delay=0s",
        ];
        let mut command = story.bed.testbed.copyrator(&flags);
        let child = command.args(more).env("KUBECONFIG", &file).stderr(log).spawn().expect("it runs");
        let mut console = Console { child, folder, host: String::new() };
        console.host = eventually("the console says where it listens", || {
            let log = console.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let said = lines.find(|line| {
                line["message"].as_str().is_some_and(|text| text.starts_with("serving the console"))
            });
            said.and_then(|line| line["address"].as_str().map(str::to_owned)).ok_or(log.clone())
        });
        console
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// Somebody with a token.
    pub fn caller(&self, bearer: &str) -> Caller {
        Caller { host: self.host.clone(), bearer: bearer.to_owned() }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A token of a ServiceAccount of the story's home, by TokenRequest.
pub fn token(story: &Story<'_>, name: &str) -> String {
    let mut kubectl: Command = story.bed.testbed.cluster().kubectl();
    let output =
        kubectl.args(["create", "token", name, "--namespace", &story.home]).output().expect("kubectl runs");
    String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
}

fn message(said: &Value) -> &str {
    assert_eq!((&said["kind"], &said["status"]), (&json!("Status"), &json!("Failure")), "{said}");
    said["message"].as_str().unwrap_or_default()
}

#[test]
fn each_caller_sees_and_writes_what_their_token_may_and_the_process_may_nothing() {
    let story = Story::new(peaceful(), "console-cluster");
    let (home, other) = (&story.home, story.bystander("other"));
    for place in [home, &other] {
        let mut web = deployment(place, "web", json!({}));
        web["spec"]["replicas"] = json!(0);
        story.admin().create(&web).ok();
        story.admin().create(&config_map(place, "app", [("k", "1")])).ok();
    }
    tenant(&story);
    account(&story, "nobody", json!([]));
    let all = json!([{ "apiGroups": ["copyrator.dev"], "resources": ["copyratortemplates"], "verbs": ["*"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] }]);
    account(&story, "writer", all);
    let tokens = ["tenant", "nobody", "writer"].map(|name| token(&story, name));
    let console = Console::start(&story, &[]);
    let [tenant, nobody, writer] = tokens.each_ref().map(|token| console.caller(token));

    // Nobody is let in by what the process has: it has nothing.
    for stranger in ["", "e30.e30.nonsense", "opaque"] {
        for path in ["/whoami", "/nodes", "/copies"] {
            let (code, said) = console.caller(stranger).api(path);
            assert_eq!(
                (code, &said["kind"], &said["reason"]),
                (401, &json!("Status"), &json!("Unauthorized")),
                "{said}"
            );
        }
    }

    only_its_own_namespace_is_there(&tenant, home, &other);
    no_rights_are_told_in_the_words_of_the_api_server(&nobody, home);
    by_a_cookie_a_page_is_shown_and_nothing_written(&console, &tokens[0], home);
    a_template_is_written_by_the_rights_of_the_caller(&story, &writer, &nobody);

    // Rights that are taken away count at once, and a token whose account is gone is no token.
    story.admin().delete("RoleBinding", home, "tenant").ok();
    eventually("the tenant has no rights any more", || {
        let (code, said) = tenant.api(&format!("/namespaces/{home}/deployments"));
        if code == 403 { Ok(()) } else { Err(said.to_string()) }
    });
    story.admin().delete("ServiceAccount", home, "tenant").ok();
    eventually("the token is refused", || {
        let (code, said) = tenant.api("/whoami");
        if code == 401 { Ok(()) } else { Err(said.to_string()) }
    });
    let log = console.log();
    assert!(tokens.iter().all(|token| !log.contains(token.as_str())), "{log}");
}

fn only_its_own_namespace_is_there(tenant: &Caller, home: &str, other: &str) {
    let (code, who) = tenant.api("/whoami");
    assert_eq!((code, &who["user"]), (200, &json!(format!("system:serviceaccount:{home}:tenant"))), "{who}");
    let (code, list) = tenant.api(&format!("/namespaces/{home}/deployments"));
    assert_eq!((code, names(&list)), (200, vec!["web"]), "{list}");
    let (code, said) = tenant.api(&format!("/namespaces/{other}/deployments"));
    assert!(code == 403 && message(&said).starts_with("deployments.apps is forbidden"), "{said}");
    let (code, said) = tenant.api("/namespaces");
    assert!(code == 403 && message(&said).starts_with("namespaces is forbidden"), "{said}");
    for path in ["/copies", "/rules", "/restarts"] {
        let (code, rows) = tenant.api(path);
        let mut places = rows["items"].as_array().into_iter().flatten().map(|row| &row["namespace"]);
        assert!(code == 200 && places.all(|place| place == home), "{path}: {rows}");
    }
    let (code, page) = tenant.get("/where");
    assert!(code == 200 && page.contains(home) && !page.contains(other), "{page}");
    let mut events = tenant.follow(&format!("/api/v1/events?namespaces={home}"), "");
    assert!(events.next().is_some_and(|line| line.contains("200 OK")), "a stream of the caller's");
}

fn no_rights_are_told_in_the_words_of_the_api_server(nobody: &Caller, home: &str) {
    let expected = format!(
        "nodes is forbidden: User \"system:serviceaccount:{home}:nobody\" cannot list resource \"nodes\""
    );
    // A caller who asks to be somebody else stays who they are.
    for headers in [&[][..], &[("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")]] {
        let (code, _, body) = nobody.send("GET", "/api/v1/nodes", headers, "");
        let said: Value = serde_json::from_str(&body).expect("JSON");
        assert!(code == 403 && message(&said).starts_with(&expected), "{said}");
    }
    let (code, said) = nobody.api(&format!("/namespaces/{home}/services"));
    assert!(code == 403 && message(&said).starts_with("services is forbidden"), "{said}");
}

fn by_a_cookie_a_page_is_shown_and_nothing_written(console: &Console, token: &str, home: &str) {
    let stranger = console.caller("");
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let send = |token: &str| stranger.send("POST", "/login", &form, &format!("token={token}"));
    assert_eq!(send("nonsense").0, 401);
    let (code, head, _) = send(token);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(
        code == 303 && cookie.starts_with("__Host-copyrator-console=") && cookie.contains("; Secure"),
        "{cookie}"
    );
    let life = cookie.rsplit("Max-Age=").next().and_then(|life| life.parse::<u32>().ok()).expect("a time");
    assert!((3_000..=3_600).contains(&life), "as long as the token, an hour: {life}");
    let cookie = cookie.split(';').next().expect("a value");
    let (code, _, page) = stranger.send("GET", "/", &[("Cookie", cookie)], "");
    assert!(code == 200 && page.contains(&format!("system:serviceaccount:{home}:tenant")), "{page}");
    let path = format!("/api/v1/namespaces/{home}/templates/stub");
    assert_eq!(stranger.send("DELETE", &path, &[("Cookie", cookie)], "").0, 401);
}

fn a_template_is_written_by_the_rights_of_the_caller(story: &Story<'_>, writer: &Caller, nobody: &Caller) {
    let (home, target) = (&story.home, story.target("a"));
    let labels = &story.selector()["matchLabels"];
    let manifest = format!(
        "spec:\n  forEach: {{namespaces: [{{namespaceSelector: {{matchLabels: {labels}}}}}]}}\n  deletionGrace: 0s\n  objects:\n  \
         - id: stub\n    template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: stub}}, data: {{text: hello}}}}\n"
    );
    let path = format!("/api/v1/namespaces/{home}/templates/stub");
    let said =
        |(code, _, body): (u16, String, String)| (code, serde_json::from_str::<Value>(&body).expect("JSON"));
    let (code, refusal) = said(nobody.send("PUT", &path, &[], &manifest));
    let part =
        format!("User \"system:serviceaccount:{home}:nobody\" cannot patch resource \"copyratortemplates\"");
    assert!(code == 403 && message(&refusal).contains(&part), "{refusal}");
    let (code, made) = said(writer.send("PUT", &path, &[], &manifest));
    assert_eq!((code, &made["kind"]), (201, &json!("CopyratorTemplate")), "{made}");
    let author = &made["metadata"]["annotations"]["copyrator.dev/author"];
    assert_eq!(author, &json!(format!("system:serviceaccount:{home}:writer")), "{made}");
    story.until("ConfigMap", &target, "stub", [("text", "hello")]);
    let (code, refusal) = said(nobody.send("DELETE", &path, &[], ""));
    assert!(code == 403 && !message(&refusal).is_empty(), "{refusal}");
    assert_eq!(writer.send("DELETE", &path, &[], "").0, 200);
    story.until_gone("ConfigMap", &target, "stub");
}
