//! kubectl and helm as one user: for our own questions to the API server, and for callers.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::folder::Folder;

/// kubectl or helm, which share how they find a server and what they keep.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) program: PathBuf,
}

impl Client {
    /// A command as the user of `kubeconfig`, ending with the cluster, and the same for every user of this machine.
    pub(crate) fn command(&self, folder: &Folder, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", kubeconfig);
        // What a client learns about a server it would keep in the home folder by address and port, where a
        // later cluster on the same port would find it and miss its own types.
        command.env("KUBECACHEDIR", folder.path().join("kubectl-cache"));
        // A user's own defaults and aliases for kubectl.
        command.env("KUBERC", "off");
        // Both end before their garbage matters.
        command.env("GOGC", "400");
        folder.tie(&mut command);
        command
    }

    /// Runs kubectl to its end: what it wrote.
    pub(crate) fn run(
        &self,
        folder: &Folder,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<String, Error> {
        run(self.command(folder, kubeconfig).args(arguments).arg("--request-timeout=5s"), None)
    }

    /// Creates `object`, which may be a list.
    pub(crate) fn create(&self, folder: &Folder, kubeconfig: &Path, object: &Value) -> Result<(), Error> {
        let mut command = self.command(folder, kubeconfig);
        run(command.args(["create", "-f", "-"]), Some(object.to_string())).map(drop)
    }
}

/// Runs a command to its end: what it wrote, or an error with what it complained of.
pub(crate) fn run(command: &mut Command, input: Option<String>) -> Result<String, Error> {
    let program = command.get_program().to_owned();
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::run(&program))?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // A kubectl that ends without reading says why, below.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Error::run(&program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::CommandFailed { command: words(command), message })
}

/// A command as a person would type it, without its environment.
pub(crate) fn words(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = [name].into_iter().chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
