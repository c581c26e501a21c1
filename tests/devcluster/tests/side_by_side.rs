//! Two clusters at once: each works by itself, obeys its tests, and leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by failing")]

mod remains;

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use devcluster::{Component, DevCluster, Error, Options, User};

#[test]
fn two_clusters_work_side_by_side_and_leave_nothing_behind() {
    let other = thread::spawn(|| DevCluster::start(Options::default().nodes(1)).unwrap());
    let cluster =
        DevCluster::start(Options::default().audit(true).users([User::new("carol", &["crew"])])).unwrap();
    let other = other.join().unwrap();
    assert_ne!(cluster.server_url(), other.server_url());

    thread::scope(|scope| {
        scope.spawn(|| a_deployment_rolls_out(&other));
        a_deployment_rolls_out(&cluster);
    });
    users_have_the_rights_they_are_given(&cluster);
    service_account_tokens_work(&cluster);
    the_audit_log_names_who_wrote_what(&cluster);
    admission_policies_are_served(&cluster);
    helm_installs_a_chart(&cluster);
    what_is_stored_survives_restarts(&cluster);
    a_paused_api_server_goes_on(&cluster);
    other.check().unwrap();

    // Paused processes must not hold up the end.
    cluster.component(Component::ControllerManager).pause().unwrap();
    let dirs = [cluster.dir().to_owned(), other.dir().to_owned()];
    let mut tied = tied_process(&cluster);
    drop(cluster);
    remains::assert_nothing(&dirs[0]);
    assert!(tied.try_wait().unwrap().is_some(), "a tied process outlived its cluster");
    assert_eq!(ok(other.kubectl().args(["get", "nodes", "--output=name"])), "node/node-0\n");
    drop(other);
    remains::assert_nothing(&dirs[1]);
}

#[test]
fn an_existing_cluster_can_be_used_but_not_stopped() {
    let own = DevCluster::start(Options::default()).unwrap();
    // The variable must not reach the other test of this process, so a child has it.
    let program = env!("CARGO_BIN_EXE_devcluster");
    let kubectl = own.kubectl().get_program().to_owned();
    let path = Path::new(&kubectl).parent().unwrap();
    let output = Command::new(program)
        .args(["up", "--keep"])
        .env("COPYRATOR_TEST_KUBECONFIG", own.admin_kubeconfig())
        .env("PATH", format!("{}:/usr/bin:/bin", path.display()))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(own.server_url()), "{text}");

    let dir = text.lines().last().and_then(|line| line.split(' ').next_back()).map(Path::new).unwrap();
    let alice = dir.join("users/alice.kubeconfig");
    assert_eq!(
        ok(own.kubectl_as(&alice).args(["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"])),
        "alice"
    );
    assert!(
        own.kubectl_as(&alice)
            .args(["get", "secrets"])
            .output()
            .unwrap()
            .stderr
            .starts_with(b"Error from server (Forbidden)")
    );

    ok(Command::new(program).arg("stop").arg(dir));
    remains::assert_nothing(dir);
    own.check().unwrap();
}

fn a_deployment_rolls_out(cluster: &DevCluster) {
    ok(cluster.kubectl().args(["create", "deployment", "web", "--image=web", "--replicas=3"]));
    ok(cluster.kubectl().args(["rollout", "status", "deployment/web", "--timeout=60s"]));
}

fn users_have_the_rights_they_are_given(cluster: &DevCluster) {
    let alice = cluster.user("alice").unwrap();
    let refused = cluster.kubectl_as(&alice).args(["get", "secrets"]).output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(complaint.contains("User \"alice\" cannot list resource \"secrets\""), "{complaint}");
    ok(cluster.kubectl().args(["get", "secrets"]));

    let groups = "--output=jsonpath={.status.userInfo.groups}";
    let carol = cluster.user("carol").unwrap();
    assert_eq!(
        ok(cluster.kubectl_as(&carol).args(["auth", "whoami", groups])),
        "[\"crew\",\"system:authenticated\"]"
    );
    assert!(matches!(cluster.user("mallory"), Err(Error::UnknownUser { .. })));
}

fn service_account_tokens_work(cluster: &DevCluster) {
    let token = ok(cluster.kubectl().args(["create", "token", "default"]));
    let kubeconfig = cluster.kubeconfig_with_token("default", token.trim()).unwrap();
    let name = "--output=jsonpath={.status.userInfo.username}";
    let who = ok(cluster.kubectl_as(&kubeconfig).args(["auth", "whoami", name]));
    assert_eq!(who, "system:serviceaccount:default:default");
}

fn the_audit_log_names_who_wrote_what(cluster: &DevCluster) {
    ok(cluster.kubectl().args(["create", "configmap", "audited"]));
    let log = cluster.audit_log().unwrap();
    // A line may come after the answer, but then the next ones come after it: wait for a later request's.
    ok(cluster.kubectl().args(["get", "configmap", "audited"]));
    let deadline = Instant::now() + Duration::from_secs(10);
    while count(log, "audited", "get") < 1 {
        assert!(Instant::now() < deadline, "the audit log misses a request");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(log, "audited", "create"), 1);
}

/// How many requests of the admin the audit log has for an object.
fn count(log: &Path, name: &str, verb: &str) -> usize {
    let log = std::fs::read_to_string(log).unwrap();
    // The last line may be half written.
    let events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let wanted = |event: &serde_json::Value| {
        event["objectRef"]["name"] == name && event["verb"] == verb && event["user"]["username"] == "admin"
    };
    events.filter(wanted).count()
}

fn helm_installs_a_chart(cluster: &DevCluster) {
    ok(cluster.helm().unwrap().args(["create", "chart"]).current_dir(cluster.dir()));
    let install = ["install", "released", "chart", "--set=serviceAccount.create=false"];
    ok(cluster.helm().unwrap().args(install).args(["--wait", "--timeout=60s"]).current_dir(cluster.dir()));
    ok(cluster.kubectl().args(["get", "deployment", "released-chart"]));
}

fn admission_policies_are_served(cluster: &DevCluster) {
    let kinds = ok(cluster.kubectl().args([
        "api-resources",
        "--api-group=admissionregistration.k8s.io",
        "--output=name",
    ]));
    assert!(
        kinds.contains("mutatingadmissionpolicies") && kinds.contains("validatingadmissionpolicies"),
        "{kinds}"
    );
}

fn what_is_stored_survives_restarts(cluster: &DevCluster) {
    ok(cluster.kubectl().args(["create", "configmap", "kept"]));
    let api_server = cluster.component(Component::ApiServer);
    let before = api_server.pid();
    api_server.stop().unwrap();
    assert_eq!(api_server.pid(), None);
    assert!(!cluster.kubectl().args(["get", "configmap", "kept"]).output().unwrap().status.success());
    api_server.start().unwrap();
    assert_ne!(api_server.pid(), before);
    ok(cluster.kubectl().args(["get", "configmap", "kept"]));

    for component in [Component::Etcd, Component::ControllerManager, Component::Scheduler, Component::Kwok] {
        cluster.component(component).kill().unwrap();
        cluster.component(component).start().unwrap();
    }
    ok(cluster.kubectl().args(["get", "configmap", "kept"]));
    ok(cluster.kubectl().args(["scale", "deployment/web", "--replicas=5"]));
    ok(cluster.kubectl().args(["rollout", "status", "deployment/web", "--timeout=60s"]));
    cluster.check().unwrap();
}

fn a_paused_api_server_goes_on(cluster: &DevCluster) {
    let api_server = cluster.component(Component::ApiServer);
    api_server.pause().unwrap();
    let asked = cluster.kubectl().args(["get", "nodes", "--request-timeout=1s"]).output().unwrap();
    assert!(!asked.status.success());
    api_server.resume().unwrap();
    ok(cluster.kubectl().args(["get", "nodes"]));
}

/// A process that would run for long, were it not for its cluster's end.
fn tied_process(cluster: &DevCluster) -> Child {
    let mut command = Command::new("sleep");
    cluster.tie(command.arg("1000"));
    command.spawn().unwrap()
}

/// Runs a command that must succeed: what it wrote.
fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
