//! What the scripts of a release leave alone: what is in the registry already, and what else lies in a folder of theirs.

use std::{fs, path::Path, process::Command};

use crate::{
    path,
    release::{VERSION, checkout, program, run},
};

/// A registry's command line: `release/tools.sh` says that crane and helm are this. It writes down what it is told, has whatever
/// is called candidate, and fails as ERROR says where it is asked for the digest of anything else.
const STAND_IN: &str = r#"#!/bin/sh
echo "$@" >>"$CALLED"
case "$*" in
  "digest "*:candidate) echo sha256:ours ;;
  "digest "*) [ -z "$ERROR" ] || { echo "$ERROR" >&2; exit 1; }; echo "$THERE" ;;
  "push "*/charts*) echo Digest: sha256:chart ;;
esac
"#;

/// What `release/publish.sh` says, and what it tells the registry, where asking for a version meets `error` or finds `there`.
fn publish(error: &str, there: &str) -> (Result<String, String>, String) {
    let top = checkout(&["release/publish.sh"], "", "", "");
    let (dist, stand_in, called) =
        (top.path().join("dist"), top.path().join("stand-in"), top.path().join("called"));
    fs::create_dir(&dist).unwrap();
    program(&stand_in, STAND_IN);
    program(&top.path().join("release/tools.sh"), &format!("#!/bin/sh\necho {}\n", stand_in.display()));
    fs::write(dist.join(format!("copyrator-chart-{VERSION}.tgz")), "a chart").unwrap();
    let image = dist.join(format!("copyrator_{VERSION}_linux_amd64.oci.tar"));
    let packed =
        Command::new("tar").arg("-cf").arg(&image).arg("-C").arg(top.path()).arg("release").status().unwrap();
    assert!(packed.success());
    fs::write(format!("{}.digest", image.display()), "sha256:amd64").unwrap();
    let environment = [
        ("DIST", dist.as_path()),
        ("CALLED", called.as_path()),
        ("ERROR", Path::new(error)),
        ("THERE", Path::new(there)),
        ("ARCHES", Path::new("amd64")),
        ("IMAGE", Path::new("registry.example.com/Somebody/Fork")),
    ];
    let said = run(&top.path().join("release/publish.sh"), &[], &environment);
    (said, fs::read_to_string(called).unwrap_or_default())
}

/// What gives a version its name: the tag of the index, and the chart's push.
fn is_named(called: &str) -> bool {
    called
        .lines()
        .any(|line| line.starts_with("tag ") || line.starts_with("push ") && line.contains("oci://"))
}

#[test]
fn a_version_is_published_where_the_registry_says_that_there_is_none() {
    for error in [
        "HEAD https://registry.example.com/v2/a/manifests/1: unexpected status code 404 Not Found",
        "GET https://registry.example.com/v2/a/manifests/1: MANIFEST_UNKNOWN: manifest unknown",
        "GET https://registry.example.com/v2/a/manifests/1: NAME_UNKNOWN: repository name not known to registry",
    ] {
        let (said, called) = publish(error, "");
        let said = said.unwrap_or_else(|failure| panic!("{error}: {failure}\n{called}"));
        for expected in [
            "image=registry.example.com/somebody/fork\n",
            "image_digest=sha256:ours\n",
            "chart_digest=sha256:chart\n",
            "amd64_digest=sha256:amd64\n",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
        assert!(is_named(&called), "{called}");
    }
}

/// A registry that does not answer may have that version.
#[test]
fn nothing_is_published_over_what_cannot_be_seen() {
    for error in [
        "GET https://registry.example.com/token: UNAUTHORIZED: authentication required",
        "HEAD https://registry.example.com/v2/a/manifests/1: unexpected status code 503 Service Unavailable",
        "dial tcp: lookup registry.example.com: no such host",
    ] {
        let (said, called) = publish(error, "");
        let said = said.expect_err(error);
        assert!(said.contains("cannot be seen") && said.contains(error), "{said}");
        assert!(!is_named(&called), "{called}");
    }
}

#[test]
fn a_version_with_other_content_is_left_alone() {
    let (said, called) = publish("", "sha256:other");
    let said = said.expect_err("another image has that version");
    assert!(said.contains("is there already, sha256:other, and is not this one"), "{said}");
    assert!(!is_named(&called), "{called}");
    // The image is ours; the chart's content cannot be had, and so is not seen to be ours.
    let (said, called) = publish("", "sha256:ours");
    let said = said.expect_err("another chart has that version");
    assert!(said.contains("charts/copyrator") && said.contains("is there already, and is not"), "{said}");
    assert!(!is_named(&called), "{called}");
}

/// The folder of what would be released is emptied before: it may be somebody's home by mistake.
#[test]
fn the_dry_run_empties_no_folder_of_others() {
    for (ours, other) in [
        ("sha256sums.txt", "thesis.txt"),
        ("copyrator.yaml", ".ssh"),
        ("copyrator_0_linux_amd64.tar.gz", "a b"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (folder.path().join(ours), folder.path().join(other));
        fs::write(&ours, "").unwrap();
        fs::write(&other, "").unwrap();
        let refused = run(&path("release/dry-run.sh"), &[], &[("DIST", folder.path())]).expect_err("emptied");
        assert!(refused.contains(&format!("{} is none of ours", other.display())), "{refused}");
        assert!(ours.exists() && other.exists());
    }
}
