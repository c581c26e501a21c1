//! A program of the node that runs all the time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::failure::Failure;
use crate::options::output;

/// A running program with its log.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it. Its log stays after the test, in `target/real-node/logs`.
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Daemon, Failure> {
        let logs = output().join("logs");
        fs::create_dir_all(&logs).map_err(Failure::at("create", &logs))?;
        let log = logs.join(format!("{name}.log"));
        let file = File::create(&log).map_err(Failure::at("create", &log))?;
        let file_too = file.try_clone().map_err(Failure::at("create", &log))?;
        command.stdin(Stdio::null()).stdout(file).stderr(file_too);
        let child = command.spawn().map_err(Failure::at("run", name.as_ref()))?;
        Ok(Daemon { name, child, log })
    }

    /// An error if it has ended.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(Failure::new(format!(
                "{} ended ({ended:?}); its log is {}",
                self.name,
                self.log.display()
            ))),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
