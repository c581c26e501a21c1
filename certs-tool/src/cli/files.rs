//! Files with certificates and keys: never half written, keys never readable by others.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file that clients trust.
pub const BUNDLE: &str = "ca-bundle.crt";
/// Name of the server's chain.
pub const LEAF_CERT: &str = "tls.crt";
/// Name of the server's key.
pub const LEAF_KEY: &str = "tls.key";

/// A failed operation, and the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read `{path}`: {source}", path = .path.display())]
    Read {
        /// The path of the file, as the user gave it.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Writing failed; the previous content is untouched.
    #[error("cannot write `{path}`: {source}", path = .path.display())]
    Write {
        /// The path of the file, as the user gave it.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file exists, and the user did not pass `--force`.
    #[error("`{path}` exists; give another --out-dir, or --force", path = .path.display())]
    Exists {
        /// The path of the file, as the user gave it.
        path: PathBuf,
    },
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })
}

/// Reads the authority from the files of a directory, which are named like the keys of its Secret.
pub fn read_authority(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>, FileError> {
    let mut data = BTreeMap::new();
    for name in ["ca.crt", "ca.key", "ca-next.crt", "ca-next.key", "ca-old.crt"] {
        let path = dir.join(name);
        match fs::read(&path) {
            Ok(content) => data.extend([(name.to_owned(), content)]),
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(FileError::Read { path, source }),
        }
    }
    Ok(data)
}

/// Replaces a file whole: a reader sees the old or the new content. Keys (`*.key`) get mode 0600 from
/// the first byte on, everything else 0644.
pub fn replace(dir: &Path, name: &str, content: &[u8]) -> Result<(), FileError> {
    let path = dir.join(name);
    let beside = dir.join(format!(".{name}.{}", std::process::id()));
    let written = write_new(&beside, name, content).and_then(|()| fs::rename(&beside, &path));
    written.map_err(|source| {
        // The write error matters more than a leftover temporary file.
        let _ = fs::remove_file(&beside);
        FileError::Write { path, source }
    })
}

/// Removes a file that a rotation no longer needs. Returns whether the file existed.
pub fn remove(dir: &Path, name: &str) -> Result<bool, FileError> {
    let path = dir.join(name);
    match fs::remove_file(&path) {
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(FileError::Write { path, source }),
        Ok(()) => Ok(true),
    }
}

fn write_new(path: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
