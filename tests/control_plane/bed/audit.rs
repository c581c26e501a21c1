//! Who asked the API server for what.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::Bed;

/// One finished request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who.
    pub user: String,
    /// What.
    pub verb: String,
    /// Of which group.
    pub group: String,
    /// On which kind of object, in the plural.
    pub resource: String,
    /// On which part of it, where not on the whole.
    pub subresource: String,
    /// Where.
    pub namespace: String,
    /// On which object.
    pub name: String,
    /// The path and query.
    pub uri: String,
    /// By which token of that user.
    pub credential: String,
    /// How it ended.
    pub code: u64,
    /// When it came, and when it was answered.
    pub at: (String, String),
    /// Whether nothing was to be stored.
    pub dry: bool,
    /// What hooks and policies had to say.
    pub annotations: Value,
}

impl Request {
    /// Whether the API server refused it for want of a right.
    pub fn is_forbidden(&self) -> bool {
        self.annotations["authorization.k8s.io/decision"] == "forbid"
    }
}

/// What has been read of an audit log. It grows to tens of megabytes, so none of it is read twice.
#[derive(Default)]
pub(super) struct Audit(Mutex<(u64, Vec<Request>)>);

impl Bed {
    /// Every finished request so far. A request may show up a moment after its answer.
    pub fn requests(&self) -> Vec<Request> {
        let log = self.testbed.cluster().audit_log().expect("the cluster writes an audit log");
        let mut file = File::open(log).expect("the audit log is readable");
        let mut read = self.audit.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (offset, requests) = &mut *read;
        file.seek(SeekFrom::Start(*offset)).expect("the audit log is a file");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("the audit log is readable");
        // Its last line may be half written.
        bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        *offset += bytes.len() as u64;
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        requests.extend(lines.map(|line: Value| request(&line)));
        requests.clone()
    }

    /// Verb and path of those of them that are in one namespace.
    pub fn our_writes_in(&self, namespace: &str) -> Vec<(String, String)> {
        let here = self.our_writes().into_iter().filter(|it| it.namespace == namespace);
        here.map(|it| (it.verb, it.uri)).collect()
    }

    /// The writes of our ServiceAccounts so far, without dry runs, and without leases, which are written all the
    /// time.
    pub fn our_writes(&self) -> Vec<Request> {
        let is_write =
            |verb: &str| ["create", "update", "patch", "delete", "deletecollection"].contains(&verb);
        let is_question = |resource: &str| ["leases", "subjectaccessreviews"].contains(&resource);
        let ours = format!("system:serviceaccount:{}:", testbed::NAMESPACE);
        let mut requests = self.requests();
        requests.retain(|it| {
            it.user.starts_with(&ours) && is_write(&it.verb) && !it.dry && !is_question(&it.resource)
        });
        requests
    }
}

fn request(line: &Value) -> Request {
    let text = |pointer| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Request {
        user: text("/user/username"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        uri: text("/requestURI"),
        credential: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
        code: line["responseStatus"]["code"].as_u64().unwrap_or_default(),
        at: (text("/requestReceivedTimestamp"), text("/stageTimestamp")),
        dry: text("/requestURI").contains("dryRun="),
        annotations: line["annotations"].clone(),
    }
}
