//! Kubeconfig files. They are written as JSON, which every reader of YAML reads.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::error::Error;

/// The `cluster` part of a kubeconfig: where, and whose certificate to believe.
pub(crate) fn cluster(server: &str, ca_pem: &str) -> Value {
    json!({ "server": server, "certificate-authority-data": STANDARD.encode(ca_pem) })
}

/// The `user` part of a kubeconfig for a token.
pub(crate) fn token_user(token: &str) -> Value {
    json!({ "token": token })
}

/// Writes `<name>.kubeconfig` into `folder`.
pub(crate) fn write(folder: &Path, name: &str, cluster: &Value, user: &Value) -> Result<PathBuf, Error> {
    let path = folder.join(format!("{}.kubeconfig", file_name(name)));
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "devcluster", "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": { "cluster": "devcluster", "user": name } }],
        "current-context": name,
    });
    write_secret(&path, format!("{document:#}\n").as_bytes())?;
    Ok(path)
}

/// The PEM text behind base64 in a kubeconfig.
pub(crate) fn decode(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}

/// Writes a file that only its owner may read.
pub(crate) fn write_secret(path: &Path, content: &[u8]) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(Error::file("create", path))?;
    file.write_all(content).map_err(Error::file("write", path))
}

/// A name as a file's name. `KUBECONFIG` is a list that colons separate, so they can't stay either.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => safe.push(char::from(byte)),
            other => safe.push_str(&format!("%{other:02x}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_name_stays_readable_and_apart_from_others() {
        assert_eq!(file_name("alice"), "alice");
        assert_eq!(file_name("system:kwok"), "system%3akwok");
        assert_ne!(file_name("a/b"), file_name("a:b"));
    }
}
