//! The reader of a command goes away, or the user who waits for it has had enough.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use super::{PROGRAM, copyrator, quiet, text};

/// `copyrator crds | head -1`: no panic, no complaint, no failure, whichever command it is.
#[test]
fn a_closed_pipe_is_no_failure() {
    for arguments in [
        &["crds"][..],
        &["crds", "--format", "jsonschema"],
        &["completion", "bash"],
        &["man"],
        &["check", "-f", "fine.yaml", "-o", "json"],
        &["status", "--help"],
    ] {
        let mut child = copyrator()
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        // Nobody reads, neither the first line nor the last.
        drop(child.stdout.take().expect("a pipe"));
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// What was found is told by the exit code, also where nobody read the words.
#[test]
fn a_closed_pipe_hides_no_findings() {
    let mut child =
        copyrator().args(["check", "-f", "broken.yaml"]).stdout(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take().expect("a pipe"));
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

/// A shell tells by the signal that its user has stopped a script.
#[test]
fn an_interrupt_ends_a_command_as_an_interrupt() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let text_of = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    fs::write(&kubeconfig, text_of).expect("the file is written");
    // Who starts tests in the background may have interrupts ignored, and that is inherited.
    let mut command = quiet(Command::new("/usr/bin/env"));
    command.args(["--default-signal=INT", PROGRAM, "status", "-o", "json"]);
    let child = command
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // It has asked, and waits for an answer.
    let (_connection, _) = silent.accept().expect("it connects");
    thread::sleep(Duration::from_millis(50));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(2), "{:?}", output.status);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

/// A wait that was given up early, by its own clock.
#[test]
fn a_request_ends_after_its_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let server = format!("{{server: 'http://127.0.0.1:{port}'}}");
    let text_of = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {server}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    fs::write(&kubeconfig, text_of).expect("the file is written");
    let mut command = copyrator();
    command.args(["get", "nodes", "--request-timeout", "200ms"]).env("KUBECONFIG", &kubeconfig);
    let output = command.output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot reach the cluster"), "{}", text(&output.stderr));
}

/// A proxy before the API server says no more than a number.
#[test]
fn an_answer_without_a_word_is_told_by_its_code() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", proxy.local_addr().expect("an address"));
    let answering = thread::spawn(move || {
        let (mut connection, _) = proxy.accept().expect("it connects");
        // The head of its request, so that nothing is reset.
        let read = connection.read(&mut [0; 4096]).expect("it asks");
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        connection.write_all(answer).expect("it hears");
        read
    });
    let output = copyrator().args(["get", "nodes", "--server", &server]).output().expect("it ends");
    assert!(answering.join().expect("the proxy answers") > 0);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot list nodes: the answer is HTTP 503 without a message"), "{said}");
}
