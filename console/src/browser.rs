//! Opens the page in the caller's browser, and keeps the token out of process arguments.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use tokio::process::Command;

/// Programs that open a file in the browser. The first program that exists is used.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// A file that redirects to the page. Only the file's owner can read the file, and dropping this value
/// removes the file.
pub(super) struct RedirectFile(PathBuf);

impl RedirectFile {
    /// Writes the file, and opens it in a browser.
    ///
    /// # Errors
    /// The file cannot be written, or no program opens it.
    pub(super) fn open(name: &str, address: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("copyrator-console-{name}.html"));
        let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let file = Self(path);
        write!(written, "<!doctype html><meta http-equiv=refresh content=\"0;url={address}\">")?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for opener in OPENERS {
            match Command::new(opener).arg(&file.0).spawn() {
                Ok(_) => return Ok(file),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        // The file may be gone already; a minute after the start, its token is useless anyway.
        let _ = fs::remove_file(&self.0);
    }
}
