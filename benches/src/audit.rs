//! The API server's audit log: the one clock and counter for every writer, ours or the bare client.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

use crate::Outcome;

/// One finished request, by the API server's clock, which is this machine's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) received: Timestamp,
    pub(crate) finished: Timestamp,
    pub(crate) user: String,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u16,
    pub(crate) dry: bool,
}

impl Request {
    /// Whether it was to store something and did.
    pub(crate) fn is_done_write(&self) -> bool {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        writes.contains(&self.verb.as_str()) && !self.dry && (200..300).contains(&self.code)
    }
}

/// Follows the log, also when it is rotated.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    file: BufReader<File>,
    inode: u64,
    /// The beginning of a line whose end is not written yet.
    line: String,
}

impl AuditLog {
    /// Begins at the log's present end.
    pub(crate) fn follow(path: &Path) -> Outcome<AuditLog> {
        let (mut file, inode) = open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(AuditLog { path: path.to_owned(), file, inode, line: String::new() })
    }

    /// What has finished since this was last called. A request may show up a moment after its answer.
    pub(crate) fn news(&mut self) -> Outcome<Vec<Request>> {
        let mut found = Vec::new();
        self.read_on(&mut found)?;
        // In the middle of a rotation there is none.
        if let Ok((file, inode)) = open(&self.path)
            && inode != self.inode
        {
            // What was written between the last look and the rotation.
            self.read_on(&mut found)?;
            (self.file, self.inode) = (file, inode);
            self.read_on(&mut found)?;
        }
        Ok(found)
    }

    fn read_on(&mut self, found: &mut Vec<Request>) -> Outcome<()> {
        while self.file.read_line(&mut self.line)? > 0 {
            if self.line.ends_with('\n') {
                found.extend(parse(&self.line));
                self.line.clear();
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Outcome<(BufReader<File>, u64)> {
    let file =
        File::open(path).map_err(|error| format!("cannot open the audit log {}: {error}", path.display()))?;
    let inode = file.metadata()?.ino();
    Ok((BufReader::new(file), inode))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    verb: String,
    #[serde(rename = "requestURI", borrow)]
    uri: Cow<'a, str>,
    user: User,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    resource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// A finished request; none for the other stages of a long one, and for what is no audit line.
fn parse(line: &str) -> Option<Request> {
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    (line.stage == "ResponseComplete").then(|| Request {
        received: line.request_received_timestamp,
        finished: line.stage_timestamp,
        user: line.user.username,
        verb: line.verb,
        resource: line.object_ref.resource,
        namespace: line.object_ref.namespace,
        name: line.object_ref.name,
        code: line.response_status.code,
        dry: line.uri.contains("dryRun="),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    const PATCH: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/team-1/secrets/app?fieldManager=copyrator-copy&force=true","verb":"patch","user":{"username":"system:serviceaccount:copyrator-system:copyrator-reconciler","groups":["x"]},"sourceIPs":["127.0.0.1"],"userAgent":"copyrator/0.1.0","objectRef":{"resource":"secrets","namespace":"team-1","name":"app","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-01-02T03:04:05.000001Z","stageTimestamp":"2026-01-02T03:04:05.002001Z","annotations":{"a":"\"quoted\""}}"#;

    #[test]
    fn a_finished_request_is_read_from_its_line() {
        let request = parse(PATCH).unwrap();
        assert_eq!(
            (&*request.verb, &*request.resource, &*request.namespace, &*request.name, request.code),
            ("patch", "secrets", "team-1", "app", 201)
        );
        assert_eq!(request.finished.duration_since(request.received).as_micros(), 2000);
        assert!(request.is_done_write());
        let with = |from: &str, to: &str| parse(&PATCH.replace(from, to));
        assert!(!with("force=true", "dryRun=All").unwrap().is_done_write());
        assert!(!with("201", "409").unwrap().is_done_write());
        assert!(!with("\"patch\"", "\"get\"").unwrap().is_done_write());
        assert_eq!(with("ResponseComplete", "ResponseStarted"), None);
        assert_eq!(parse("{\"half\": "), None);
    }

    #[test]
    fn the_log_is_followed_through_halves_of_lines_and_rotations() {
        let folder = std::env::temp_dir().join(format!("benches-audit-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.log");
        fs::write(&path, format!("{PATCH}\n")).unwrap();
        let mut log = AuditLog::follow(&path).unwrap();
        assert_eq!(log.news().unwrap(), [], "what was there before is no news");

        let mut file = File::options().append(true).open(&path).unwrap();
        let (head, tail) = PATCH.split_at(100);
        write!(file, "{PATCH}\n{head}").unwrap();
        assert_eq!(log.news().unwrap().len(), 1);
        writeln!(file, "{tail}").unwrap();
        fs::rename(&path, folder.join("audit-old.log")).unwrap();
        writeln!(file, "{PATCH}").unwrap();
        fs::write(&path, format!("{PATCH}\n{PATCH}\n")).unwrap();
        assert_eq!(log.news().unwrap().len(), 4, "two of the old file, two of the new one");
        fs::remove_dir_all(folder).unwrap();
    }
}
