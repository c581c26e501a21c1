//! Builds one module's programs, unless another run or another process already has.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::progress::{self, say};
use super::{Module, stages};
use crate::error::Error;

/// Debug information takes time to make, and the linker drops it.
const COMPILER_FLAGS: &str = "-gcflags=all=-dwarf=false";

/// The folder with the module's programs, built if need be.
pub(crate) fn ensure(module: &'static Module, cache: &Path) -> Result<PathBuf, Error> {
    let home = cache.join(module.hash()?);
    let folder = home.join("bin").join(module.name);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(home.join("bin")).map_err(Error::file("create", &home))?;
    let _lock = lock(module, &home)?;
    if !folder.is_dir() {
        build(module, &home, &folder)?;
    }
    Ok(folder)
}

/// One process, and one thread of it, builds at a time. The kernel lets go of the lock when its holder dies.
fn lock(module: &Module, home: &Path) -> Result<File, Error> {
    let path = home.join("lock");
    let file = File::create(&path).map_err(Error::file("create", &path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            say(&format!("waiting for another process that builds {}…", module.name));
        }
        Err(TryLockError::Error(source)) => return Err(Error::file("lock", &path)(source)),
    }
    file.lock().map_err(Error::file("lock", &path))?;
    Ok(file)
}

/// Builds into a folder beside `folder` and renames it when whole, so that what is there is complete.
fn build(module: &'static Module, home: &Path, folder: &Path) -> Result<(), Error> {
    let partial = home.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(Error::file("remove", &partial))?;
    }
    fs::create_dir_all(&partial).map_err(Error::file("create", &partial))?;
    install(module, home, &partial)?;
    rename_etcd(&partial)?;
    if module.name == super::KWOK.name {
        stages::copy(&stages_source(module)?, &partial)?;
    }
    fs::rename(&partial, folder).map_err(Error::file("put in place", folder))
}

fn install(module: &'static Module, home: &Path, into: &Path) -> Result<(), Error> {
    let log = home.join("build.log");
    let mut command = go(module);
    // -v has Go name each package it compiles, which shows that something moves.
    command.args(["install", "-mod=readonly", "-v", "-trimpath", COMPILER_FLAGS, "-ldflags"]);
    command.arg(module.linker_flags()?).args(module.packages).env("GOBIN", into);
    // The compiler is a Go program, too: a fifth of its time would go into collecting garbage.
    command.env("GOGC", "400");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|source| no_go(module, source))?;
    let what = format!("building {} (once, {} on two cores)", tools(module), module.takes);
    if progress::follow(child, module.name, &what, &log)? {
        return Ok(());
    }
    let last_line = progress::telling_line(&fs::read_to_string(&log).unwrap_or_default());
    Err(Error::BuildFailed { module: module.name, last_line, log })
}

/// etcd's package is named `server`, and so is the program that Go makes of it.
fn rename_etcd(partial: &Path) -> Result<(), Error> {
    let server = partial.join("server");
    if server.exists() {
        fs::rename(&server, partial.join("etcd")).map_err(Error::file("rename", &server))?;
    }
    Ok(())
}

/// Where Go unpacked the module that kwok's stages are in.
fn stages_source(module: &Module) -> Result<PathBuf, Error> {
    let mut command = go(module);
    command.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module.requirement]);
    let output = command.output().map_err(|source| no_go(module, source))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::CommandFailed { command: format!("{command:?}"), message });
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Go in the module's folder, where a workspace file above it has no say.
fn go(module: &Module) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module.source()).env("GOWORK", "off");
    command
}

fn no_go(module: &Module, source: io::Error) -> Error {
    match module.go_version() {
        Ok(version) if source.kind() == io::ErrorKind::NotFound => Error::GoMissing {
            version,
            tools: tools(module),
            takes: module.takes,
            alternative: module.alternative,
        },
        _ => Error::run("go")(source),
    }
}

fn tools(module: &Module) -> String {
    module.tools.join(", ")
}
