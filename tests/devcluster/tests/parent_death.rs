//! A cluster ends with the process that started it, however that ends, and only with it if it is not kept.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by failing")]

mod remains;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn sigkill_of_the_parent_leaves_nothing_behind() {
    ends_with(Signal::SIGKILL);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    ends_with(Signal::SIGINT);
}

#[test]
fn sigkill_during_the_start_leaves_nothing_behind() {
    // A folder for temporary files of its own tells which clusters are this test's.
    let folder = std::env::temp_dir().join(format!("devcluster-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_devcluster"));
    let mut up = up.arg("up").env("TMPDIR", &folder).stdout(Stdio::null()).spawn().unwrap();
    while !remains::processes(&folder).iter().any(|process| process.contains("kube-apiserver")) {
        assert!(up.try_wait().unwrap().is_none(), "ended before it started anything");
    }
    up.kill().unwrap();
    up.wait().unwrap();
    let left = || std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    for dir in left() {
        remains::assert_nothing(&dir);
    }
    assert_eq!(left().count(), 0);
    std::fs::remove_dir(&folder).unwrap();
    remains::assert_nothing(&folder);
}

#[test]
fn a_kept_cluster_runs_until_it_is_stopped() {
    let (mut up, mut output) = up(&["--keep"]);
    let dir = dir(&mut output);
    assert!(up.wait().unwrap().success());
    assert_eq!(remains::processes(&dir).len(), 5, "{:?}", remains::processes(&dir));
    let status = Command::new(env!("CARGO_BIN_EXE_devcluster")).arg("stop").arg(&dir).status().unwrap();
    assert!(status.success());
    remains::assert_nothing(&dir);
}

#[test]
fn only_a_cluster_is_stopped() {
    let output = Command::new(env!("CARGO_BIN_EXE_devcluster")).args(["stop", "/"]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "devcluster: / is not the folder of a devcluster\n"
    );
}

fn ends_with(signal: Signal) {
    let (mut up, mut output) = up(&["--nodes", "1"]);
    let dir = dir(&mut output);
    assert!(remains::processes(&dir).len() >= 5);
    kill(Pid::from_raw(up.id().cast_signed()), signal).unwrap();
    up.wait().unwrap();
    remains::assert_nothing(&dir);
}

/// Ctrl-C is heard also where the parent of the tests ignores it, as a job in the background does.
fn up(arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_devcluster")]);
    let mut child = command.arg("up").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// The cluster's folder, from the line that says where the kubeconfig is, and all lines read to the last.
fn dir(output: &mut impl BufRead) -> PathBuf {
    let mut dir = PathBuf::new();
    for line in output.lines().map_while(Result::ok) {
        if let Some(kubeconfig) = line.strip_prefix("export KUBECONFIG=") {
            dir = PathBuf::from(kubeconfig).ancestors().nth(2).unwrap().to_owned();
        }
        if line.starts_with("# It runs until") {
            return dir;
        }
    }
    panic!("devcluster up said nothing of use");
}
