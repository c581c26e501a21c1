//! The command: what it writes, what it says, how it exits.
#![allow(clippy::unwrap_used)] // a test, its set-up functions too

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use copyrator_certs::Certificate;

fn run(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_copyrator-certs")).args(arguments).current_dir(dir).output().unwrap()
}

fn succeed(dir: &Path, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn certificates(dir: &Path, name: &str) -> Vec<Certificate> {
    Certificate::all_from_pem(&std::fs::read_to_string(dir.join(name)).unwrap()).unwrap()
}

#[test]
fn issue_then_inspect_then_rotate() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &["issue", "--service", "hook.ops", "--ip", "::1", "--out-dir", "certs"]);
    let certs = dir.join("certs");
    for key in ["ca.key", "tls.key"] {
        let mode = std::fs::metadata(certs.join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    let said = succeed(&certs, &["inspect", "tls.crt", "tls.key"]);
    assert!(said.contains("hook.ops.svc, hook.ops, hook.ops.svc.cluster.local, ::1"), "{said}");
    assert!(said.contains("EC 256 (found)"), "{said}");

    let before = certificates(&certs, "ca.crt");
    succeed(dir, &["rotate", "--dir", "certs"]);
    let bundle = certificates(&certs, "ca-bundle.crt");
    assert_eq!(bundle, [certificates(&certs, "ca.crt"), before].concat());
    let json = succeed(&certs, &["inspect", "-o", "json", "tls.crt", "tls.key", "ca.crt", "ca.key"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["findings"], serde_json::json!([]));
    assert_eq!(report["certificates"][0]["dnsNames"][0], "hook.ops.svc");
    assert_eq!(report["certificates"][1]["isCa"], true);
    assert!(!json.contains("PRIVATE"), "{json}");
    let left: Vec<_> = std::fs::read_dir(&certs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn a_given_authority_signs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &["issue", "--dns", "a.test", "--out-dir", "one"]);
    let ca = ["--ca-cert", "one/ca.crt", "--ca-key", "one/ca.key"];
    succeed(dir, &[&["issue", "--dns", "b.test", "--out-dir", "two"], &ca[..]].concat());
    assert_eq!(certificates(dir, "one/ca-bundle.crt"), certificates(dir, "two/ca-bundle.crt"));
    assert!(!dir.join("two/ca.key").exists());
}

#[test]
fn findings_exit_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &["issue", "--dns", "a.test", "--out-dir", "one"]);
    succeed(dir, &["issue", "--dns", "a.test", "--out-dir", "two"]);
    let mismatch = run(dir, &["inspect", "one/tls.crt", "two/tls.key"]);
    assert_eq!(mismatch.status.code(), Some(1));
    let said = String::from_utf8(mismatch.stderr).unwrap();
    assert_eq!(said, "two/tls.key: the key does not belong to any of the certificates\n");

    let expired = copyrator_certs::Authority::issue(
        "expired",
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400),
        std::time::Duration::from_secs(60),
    );
    std::fs::write(dir.join("expired.crt"), expired.unwrap().cert_pem()).unwrap();
    let expired = run(dir, &["inspect", "expired.crt"]);
    assert_eq!(expired.status.code(), Some(1));
    assert_eq!(String::from_utf8(expired.stderr).unwrap(), "expired.crt: `CN=expired` has expired\n");
}

#[test]
fn wrong_usage_exits_with_two() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &["issue", "--dns", "a.test", "--out-dir", "one"]);
    for wrong in [
        &["inspect"][..],
        &["inspect", "absent.pem"],
        &["issue", "--out-dir", "x"],
        &["issue", "--service", "nodot", "--out-dir", "x"],
        &["issue", "--service", "hook.ops.svc", "--out-dir", "x"],
        &["issue", "--dns", "a.test", "--out-dir", "one"],
        &["rotate", "--dir", "absent"],
    ] {
        let output = run(dir, wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?}");
    }
}

#[test]
fn issue_and_rotate_say_what_they_did_and_what_comes_next() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = succeed(dir, &["issue", "--dns", "hook.test", "--out-dir", "certs"]);
    for part in [
        "wrote certs/ca.key\n",
        "wrote certs/tls.crt\n  server CN=hook.test, until ",
        "1. give ca-bundle.crt",
    ] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    for round in 0..2 {
        let json = succeed(dir, &["rotate", "--dir", "certs", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["wrote"][0], "certs/ca-bundle.crt", "round {round}: whom to trust comes first");
        assert_eq!(report["wrote"].as_array().unwrap().last().unwrap(), "certs/tls.crt");
        let certificates = report["certificates"].as_array().unwrap();
        let bundle = certificates.iter().filter(|it| it["origin"] == "certs/ca-bundle.crt").count();
        assert_eq!(bundle, round + 2);
        assert_eq!(report["next"].as_array().unwrap().len(), 3);
        assert!(!json.contains("PRIVATE"), "{json}");
    }
    let refused = run(dir, &["issue", "--dns", "hook.test", "--out-dir", "certs", "-o", "json"]);
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(2), true));
    for command in ["inspect", "issue", "rotate"] {
        let help = succeed(dir, &[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--output"), "{command}: {help}");
    }
}
