//! What `release/sign.sh` has signed, and what it refuses to sign.

use std::{fs, path::Path};

use crate::{
    path,
    release::{checkout, program, run},
};

const IMAGE: &str = "registry.example.com/somebody/fork@sha256:image";
const CHART: &str = "registry.example.com/somebody/fork/charts/copyrator@sha256:chart";

/// What the script says, and what cosign is told: a stand-in that writes it down. `spoil` is what happens to the folder of what
/// is released before.
fn sign(published: &[&str], key: &str, spoil: impl FnOnce(&Path)) -> (Result<String, String>, Vec<String>) {
    let top = checkout(&["release/sign.sh", "release/checksums.sh"], "", "", "");
    let (dist, called) = (top.path().join("dist"), top.path().join("called"));
    fs::create_dir(&dist).unwrap();
    fs::write(dist.join("a.tar.gz"), "a").unwrap();
    run(&top.path().join("release/checksums.sh"), &[], &[("DIST", &dist)]).unwrap();
    spoil(&dist);
    let (tools, cosign) = (top.path().join("release/tools.sh"), top.path().join("cosign"));
    for (file, text) in [
        (&tools, format!("#!/bin/sh\n[ \"$1\" = cosign ] && echo {}\n", cosign.display())),
        (&cosign, format!("#!/bin/sh\necho \"$@\" >>{}\n", called.display())),
    ] {
        program(file, &text);
    }
    let environment = [("DIST", dist.as_path()), ("KEY", Path::new(key))];
    let said = run(&top.path().join("release/sign.sh"), published, &environment);
    let folder = dist.display().to_string();
    let calls = fs::read_to_string(called).unwrap_or_default().replace(&folder, "DIST");
    (said.map(|text| text.replace(&folder, "DIST")), calls.lines().map(str::to_owned).collect())
}

#[test]
fn image_chart_and_checksums_are_signed_with_the_identity_of_the_run() {
    let (said, calls) = sign(&[IMAGE, CHART], "", |_| ());
    assert_eq!(said.as_deref(), Ok("DIST/sha256sums.txt.sigstore.json\n"));
    let how = "--yes --oidc-provider github-actions";
    assert_eq!(
        calls,
        [
            format!("sign {how} --recursive {IMAGE}"),
            format!("sign {how} --recursive {CHART}"),
            format!("sign-blob {how} --bundle DIST/sha256sums.txt.sigstore.json DIST/sha256sums.txt"),
        ]
    );
}

/// A trial must not end in a public log, for good.
#[test]
fn what_a_key_signs_nobody_is_told() {
    let (said, calls) = sign(&[IMAGE], "some.key", |_| ());
    said.unwrap();
    let signing: Vec<&String> = calls.iter().filter(|call| call.starts_with("sign")).collect();
    let [services, image, sums] = signing[..] else { panic!("{calls:?}") };
    let file = services.strip_prefix("signing-config create --out ").expect("no service but these: none");
    for call in [image, sums] {
        assert!(call.contains(&format!(" --key some.key --signing-config {file} ")), "{call}");
        assert!(call.contains(" --trusted-root ") && !call.contains("oidc"), "{call}");
    }
}

#[test]
fn nothing_is_signed_that_is_not_known_to_be_what_was_made() {
    let nothing = |_: &Path| ();
    let changed = |dist: &Path| fs::write(dist.join("a.tar.gz"), "another").unwrap();
    let missing = |dist: &Path| fs::remove_file(dist.join("sha256sums.txt")).unwrap();
    let tag = IMAGE.replace("@sha256:image", ":1.2.3");
    for ((said, calls), expected) in [
        (sign(&[IMAGE, &tag], "", nothing), "has no digest, and a tag may lead elsewhere"),
        (sign(&[], "", nothing), "nothing to sign"),
        (sign(&[IMAGE], "", changed), "is not of the files beside it"),
        (sign(&[IMAGE], "", missing), "sha256sums.txt is missing: run release/checksums.sh"),
    ] {
        let said = said.expect_err(expected);
        assert!(said.contains(expected), "{said}");
        assert!(calls.is_empty(), "{expected}: {calls:?}");
    }
}

/// Who verifies names the workflow that signs, and who gave it its identity; the log-in is GitHub's.
#[test]
fn whom_documents_say_to_trust_is_the_workflow_that_signs() {
    let page = fs::read_to_string(path("docs/releasing.md")).unwrap();
    let commands: Vec<&str> = page.split("```").filter(|block| block.contains("\ncosign verify ")).collect();
    let [block] = commands[..] else { panic!("{} blocks verify by cosign", commands.len()) };
    let verified: Vec<&str> = block.lines().filter(|line| line.starts_with("cosign ")).collect();
    assert_eq!(verified.len(), 3, "image, chart and checksums: {verified:?}");
    let workflow = ".github/workflows/release.yml";
    assert!(path(workflow).is_file());
    for who in [
        format!("https://github.com/OWNER/REPOSITORY/{workflow}@refs/tags/v1.2.3"),
        "https://token.actions.githubusercontent.com".to_owned(),
    ] {
        assert_eq!(block.matches(&who).count(), 3, "{who} is not in each of: {block}");
    }
}
