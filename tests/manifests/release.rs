//! What the scripts of a release write, and that they refuse what must not be released.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::{documents, path};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What a script says on standard output, or else on standard error.
pub(crate) fn run(
    script: &Path,
    arguments: &[&str],
    environment: &[(&str, &Path)],
) -> Result<String, String> {
    let mut command = Command::new(script);
    command.args(arguments).envs(environment.iter().copied()).env_remove("SOURCE");
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// Writes a program, by another process. Were it this one, a program that another test starts at that moment would
/// inherit the open file for a moment, and running it meanwhile would fail with "Text file busy".
pub(crate) fn program(file: &Path, text: &str) {
    let mut install = Command::new("install");
    let mut install =
        install.args(["-m", "755", "/dev/stdin"]).arg(file).stdin(Stdio::piped()).spawn().unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success(), "install {}", file.display());
}

#[test]
fn the_version_is_the_same_everywhere() {
    assert_eq!(run(&path("release/version.sh"), &[], &[]).as_deref(), Ok(format!("{VERSION}\n").as_str()));
}

/// A checkout of only what says a version and of some scripts, with one thing in it changed, or nothing.
pub(crate) fn checkout(scripts: &[&str], file: &str, from: &str, to: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let versions = ["release/version.sh", "Cargo.toml", "charts/copyrator/Chart.yaml", "CHANGELOG.md"];
    for one in versions.iter().chain(scripts).copied() {
        let copy = folder.path().join(one);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let text = text(one);
        if one == file {
            assert!(text.contains(from), "{one} does not contain {from:?}: correct this test");
            program(&copy, &text.replacen(from, to, 1));
        } else {
            program(&copy, &text);
        }
    }
    folder
}

fn says(file: &str, from: &str, to: &str, tag: &[&str]) -> Result<String, String> {
    run(&checkout(&[], file, from, to).path().join("release/version.sh"), tag, &[])
}

#[test]
fn a_version_that_is_not_the_same_everywhere_is_refused() {
    let line = |key: &str| format!("\n{key}: {VERSION}\n");
    let cargo = format!("version = \"{VERSION}\"");
    let tag = format!("v{VERSION}");
    let dated = format!("## [{VERSION}] - 2030-01-31\n");
    let changelog = "## [Unreleased]\n";
    for (file, from, to, tag, expected) in [
        (
            "Cargo.toml",
            cargo.as_str(),
            "version = \"999.0.0\"",
            &[] as &[&str],
            "and Cargo.toml says 999.0.0",
        ),
        ("charts/copyrator/Chart.yaml", &line("version"), "\nversion: 999.0.0\n", &[], "version of charts"),
        (
            "charts/copyrator/Chart.yaml",
            &line("appVersion"),
            "\nappVersion: \"9\"\n",
            &[],
            "appVersion of charts",
        ),
        ("CHANGELOG.md", &format!("What will be {VERSION}."), "", &[], "CHANGELOG.md has neither"),
        ("CHANGELOG.md", changelog, changelog, &[&tag], "CHANGELOG.md has no line"),
        ("CHANGELOG.md", changelog, &dated.replace("-31", ""), &[&tag], "CHANGELOG.md has no line"),
        ("CHANGELOG.md", changelog, &dated, &["v999.0.0"], "the tag is v999.0.0"),
        ("CHANGELOG.md", changelog, &dated, &[VERSION], "it must be v"),
    ] {
        let said = says(file, from, to, tag).expect_err(&format!("{file} with {to:?} is fine"));
        assert!(said.contains(expected), "{file} with {to:?}: {said}");
    }
    says("CHANGELOG.md", changelog, &dated, &[&tag]).expect("a dated section and its tag are fine");
}

#[test]
fn notes_are_the_changelogs_with_links_that_work_elsewhere() {
    let script = path("release/notes.sh");
    let notes = run(&script, &["Unreleased"], &[]).unwrap();
    assert!(notes.contains("CopyratorRule"), "{notes}");
    assert!(!notes.contains("## ["), "another section is in it: {notes}");
    let relative = Regex::new(r"\]\([^h#)][^)]*\)").unwrap();
    assert_eq!(relative.find(&notes).map(|found| found.as_str()), None);
    let linked = Regex::new(r"/blob/main/([^)#]+)").unwrap();
    let files: Vec<String> = linked.captures_iter(&notes).map(|found| found[1].to_owned()).collect();
    assert!(files.len() > 5 && files.iter().all(|file| path(file).is_file()), "{files:?}");
    assert!(run(&script, &["999.0.0"], &[]).is_err());
}

/// The rules of krew's own validation: it cannot be had as a Go module.
fn krew_findings(manifest: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let mut holds = |is_so: bool, what: &str| {
        if !is_so {
            findings.push(what.to_owned());
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &manifest["spec"];
    holds(manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion");
    holds(manifest["kind"] == "Plugin", "kind");
    // The file's name, too.
    holds(manifest["metadata"]["name"] == "copyrator", "metadata.name");
    holds(text(&spec["version"]) == format!("v{VERSION}"), "spec.version");
    let short = text(&spec["shortDescription"]);
    // What krew's index asks for: lists show no more.
    holds(!short.is_empty() && !short.contains('\n') && short.len() <= 50, "spec.shortDescription");
    holds(
        !text(&spec["description"]).is_empty() && text(&spec["homepage"]).starts_with("https://"),
        "homepage",
    );
    let platforms = spec["platforms"].as_array().cloned().unwrap_or_default();
    holds(!platforms.is_empty(), "spec.platforms");
    let sum = Regex::new("^[a-f0-9]{64}$").unwrap();
    for platform in &platforms {
        holds(sum.is_match(&text(&platform["sha256"])), "sha256");
        holds(text(&platform["uri"]).starts_with("https://"), "uri");
        holds(!text(&platform["bin"]).is_empty(), "bin");
        let labels = platform["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let only = labels.keys().all(|key| key == "os" || key == "arch");
        holds(!labels.is_empty() && only, "selector");
        holds(
            platform.get("files").is_none_or(|files| files.as_array().is_some_and(|all| !all.is_empty())),
            "files",
        );
    }
    findings
}

#[test]
fn the_plugins_manifest_is_one_that_krew_takes() {
    let folder = tempfile::tempdir().unwrap();
    let script = path("release/krew.sh");
    let environment = [("DIST", folder.path())];
    let refused = run(&script, &[], &environment).expect_err("there is no archive");
    assert!(refused.contains("run release/build.sh"), "{refused}");

    for arch in ["amd64", "arm64"] {
        let name = format!("kubectl-copyrator_{VERSION}_linux_{arch}.tar.gz");
        fs::write(folder.path().join(name), arch).unwrap();
    }
    let written = run(&script, &[], &environment).unwrap();
    let written = Path::new(written.trim());
    assert_eq!(written, folder.path().join("copyrator.yaml"));
    let manifest = documents("copyrator.yaml", &fs::read_to_string(written).unwrap()).remove(0);
    assert_eq!(krew_findings(&manifest), [""; 0]);
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2);
    for (platform, arch) in platforms.iter().zip(["amd64", "arm64"]) {
        let name = format!("kubectl-copyrator_{VERSION}_linux_{arch}.tar.gz");
        let uri = format!("{}/releases/download/v{VERSION}/{name}", env!("CARGO_PKG_REPOSITORY"));
        assert_eq!(platform["uri"], uri);
        assert_eq!(platform["selector"]["matchLabels"]["arch"], arch);
        let sum = ring::digest::digest(&ring::digest::SHA256, arch.as_bytes());
        let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(platform["sha256"], sum.as_str());
    }

    for (pointer, wrong) in [
        ("/kind", "Plugins"),
        ("/spec/version", VERSION),
        ("/spec/shortDescription", "two\nlines"),
        ("/spec/platforms/1/sha256", "none"),
        ("/spec/platforms/0/bin", ""),
    ] {
        let mut manifest = manifest.clone();
        *manifest.pointer_mut(pointer).unwrap() = wrong.into();
        assert_eq!(krew_findings(&manifest).len(), 1, "{pointer}");
    }
}

#[test]
fn checksums_are_of_every_file_and_verify() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("b.tar.gz", "b"),
        ("a.tar.gz", "a"),
        ("image.tar.digest", "for the scripts"),
        ("sha256sums.txt", "old"),
        ("sha256sums.txt.sigstore.json", "of the old ones"),
    ];
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    run(&path("release/checksums.sh"), &[], &[("DIST", folder.path())]).unwrap();
    let sums = fs::read_to_string(folder.path().join("sha256sums.txt")).unwrap();
    let names: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    assert_eq!(names, ["a.tar.gz", "b.tar.gz"]);
    assert!(sums.starts_with("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  "), "{sums}");
}

/// The page is a draft until all files are there, and is never begun with files that are not those of the checksums, or
/// whose checksums nobody has signed.
#[test]
fn a_page_is_announced_when_it_is_whole() {
    let dated = format!("## [Unreleased]\n\n## [{VERSION}] - 2030-01-31\n");
    let top =
        checkout(&["release/announce.sh", "release/notes.sh"], "CHANGELOG.md", "## [Unreleased]\n", &dated);
    let dist = top.path().join("dist");
    fs::create_dir(&dist).unwrap();
    for name in ["a.tar.gz", "image.oci.tar", "image.oci.tar.digest"] {
        fs::write(dist.join(name), name).unwrap();
    }
    run(&path("release/checksums.sh"), &[], &[("DIST", &dist)]).unwrap();
    // Instead of the forge's command line: it writes down what it is told.
    let called = top.path().join("called");
    let gh = top.path().join("gh");
    program(&gh, &format!("#!/bin/sh\necho \"$@\" >>{}\n", called.display()));
    let path_of_programs = std::env::var_os("PATH").unwrap();
    let folders = [top.path().to_owned()].into_iter().chain(std::env::split_paths(&path_of_programs));
    let programs = std::env::join_paths(folders).unwrap();
    let announce = top.path().join("release/announce.sh");
    let environment = [("DIST", dist.as_path()), ("PATH", Path::new(&programs))];
    let tag = format!("v{VERSION}");

    let unsigned = run(&announce, &[&tag], &environment).expect_err("nobody has signed");
    assert!(unsigned.contains("is not signed: run release/sign.sh") && !called.exists(), "{unsigned}");
    fs::write(dist.join("sha256sums.txt.sigstore.json"), "signed").unwrap();
    run(&announce, &[&tag], &environment).unwrap();
    let calls = fs::read_to_string(&called).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    let [create, upload, edit] = calls[..] else { panic!("{calls:?}") };
    assert!(create.starts_with(&format!("release create {tag} --draft --verify-tag ")), "{create}");
    let files: Vec<&str> = upload.split(' ').skip(3).filter_map(|file| file.rsplit('/').next()).collect();
    assert_eq!(files.len(), 4, "{upload}");
    let expected = ["a.tar.gz", "image.oci.tar", "sha256sums.txt", "sha256sums.txt.sigstore.json"];
    assert!(expected.iter().all(|file| files.contains(file)), "{upload}");
    assert_eq!(edit, format!("release edit {tag} --draft=false"));

    fs::remove_file(&called).unwrap();
    fs::write(dist.join("a.tar.gz"), "another one").unwrap();
    assert!(run(&announce, &[&tag], &environment).is_err());
    assert!(run(&announce, &["v999.0.0"], &environment).is_err());
    assert!(!called.exists(), "{}", fs::read_to_string(&called).unwrap());
}

/// Who builds with Docker gets the same program, made by the same script, with the same labels.
#[test]
fn the_dockerfile_makes_what_the_scripts_make() {
    let (dockerfile, script) = (text("Dockerfile"), text("image/build.sh"));
    let label = Regex::new(r"org\.opencontainers\.image\.([a-z]+)=").unwrap();
    let labels =
        |text: &str| -> Vec<String> { label.captures_iter(text).map(|found| found[1].to_owned()).collect() };
    assert_eq!(labels(&dockerfile), labels(&script));
    for (label, value) in [
        ("description", env!("CARGO_PKG_DESCRIPTION")),
        ("source", env!("CARGO_PKG_REPOSITORY")),
        ("licenses", "Apache-2.0"),
        ("version", "$VERSION"),
        ("revision", "$REVISION"),
        ("created", "$CREATED"),
    ] {
        assert!(dockerfile.contains(&format!("image.{label}=\"{value}\"")), "{label}");
    }
    let toolchain = text("rust-toolchain.toml");
    let channel =
        toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(
        dockerfile.contains(&format!("\nFROM rust:{channel}-slim-bookworm AS build\n")),
        "another compiler"
    );
    assert!(dockerfile.contains(&format!("\nENV RUSTUP_TOOLCHAIN={channel}\n")), "another compiler");
    assert!(dockerfile.contains("image/program.sh)"), "the program is built by other words");
    for (dockers, ours) in [("USER 65532:65532", "--user 65532:65532"), ("--chmod=755", "--chmod 755")] {
        assert!(dockerfile.contains(dockers) && text("image/pack.sh").contains(ours), "{dockers} and {ours}");
    }
}

/// One place names the versions of what images are made with.
#[test]
fn programs_for_images_are_pinned_in_one_place() {
    let named = Regex::new(r"cargo-(auditable|cyclonedx)@[0-9]").unwrap();
    for file in
        [".ci/run", "Dockerfile", "Makefile", "release/prepare.sh", "CONTRIBUTING.md", "docs/image.md"]
    {
        assert!(!named.is_match(&text(file)), "{file} names a version: leave that to image/tools.sh");
    }
    for file in ["Dockerfile", "Makefile", "release/prepare.sh"] {
        assert!(text(file).contains("image/tools.sh"), "{file} does not use image/tools.sh");
    }
}
