//! The images of the test: ours, exactly as the chart calls it, and those of the application and of a pod's network.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::options::{PROFILE, output, top};

/// An image, and the archive that it comes in.
#[derive(Debug)]
pub(crate) struct Image {
    /// Repository and tag.
    pub(crate) name: String,
    pub(crate) archive: PathBuf,
}

/// What holds each pod's network namespace.
pub(crate) const PAUSE: &str = "copyrator.test/pause:1";
const GREETER: &str = "copyrator.test/greeter:1";

/// The three, as [`build`] leaves them.
pub(crate) fn all() -> [Image; 3] {
    let ours = format!("ghcr.io/copyrator/copyrator:{}", env!("CARGO_PKG_VERSION"));
    let image =
        |name: &str, archive| Image { name: name.to_owned(), archive: output().join("images").join(archive) };
    [
        // Not where `make image` leaves what may be for others.
        image(&ours, "copyrator.tar"),
        image(GREETER, "greeter.tar"),
        image(PAUSE, "pause.tar"),
    ]
}

/// Builds them: with `PROFILE=release` the product as it is shipped, with `PROFILE=dev` by the same script, else of what the
/// tests were built with.
pub(crate) fn build() -> Result<(), Failure> {
    let programs = match is_compiled() {
        true => {
            println!("building the images (some five minutes the first time)");
            script("image/program.sh", &["copyrator", "greeter"], None)?
        }
        false => script("tests/real_node/static.sh", &[], None)?,
    };
    let mut programs = programs.lines();
    let (copyrator, greeter) = (programs.next().unwrap_or_default(), programs.next().unwrap_or_default());
    let [_, plain, pause] = all();
    println!("{}", script("image/build.sh", &[], Some(copyrator))?.trim_end());
    let pack = |image: &Image, more: &[&str]| {
        let archive = image.archive.display().to_string();
        script("image/pack.sh", &[&[greeter, &image.name, &archive], more].concat(), None)
    };
    pack(&plain, &[])?;
    pack(&pause, &["--cmd", "pause"])?;
    check()
}

/// Whether they are there.
pub(crate) fn check() -> Result<(), Failure> {
    match all().iter().find(|image| !image.archive.is_file()) {
        None => Ok(()),
        Some(image) => Err(Failure::new(format!("{} is missing, {}", image.name, image.archive.display()))),
    }
}

/// Whether the programs are compiled for the images (`image/program.sh`) rather than linked of what is there.
pub(crate) fn is_compiled() -> bool {
    std::env::var_os(PROFILE).is_some_and(|profile| !profile.is_empty())
}

/// Runs a script of the repository to its end, for an image of this `program`: what it wrote. buildah keeps to a storage of its own.
fn script(path: &str, arguments: &[&str], program: Option<&str>) -> Result<String, Failure> {
    let mut command = Command::new(top().join(path));
    command.args(arguments).current_dir(top()).env("STORAGE", output().join("images/storage"));
    command.envs(program.map(|program| ("PROGRAM", program)));
    if path == "image/pack.sh" {
        command.env("SOURCE_DATE_EPOCH", "1700000000");
    }
    // What cargo told this program about itself would be another environment for what it builds, and all would be built anew.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"CARGO_MANIFEST")
            || name.as_encoded_bytes().starts_with(b"CARGO_PKG")
        {
            command.env_remove(name);
        }
    }
    let [ours, ..] = all();
    command.env_remove("IMAGE").env("ARCHIVE", ours.archive).stderr(Stdio::inherit());
    let answer = command.output().map_err(Failure::at("run", &top().join(path)))?;
    match answer.status.success() {
        true => Ok(String::from_utf8_lossy(&answer.stdout).into_owned()),
        false => Err(Failure::new(format!("{path} {} failed", arguments.join(" ")))),
    }
}
