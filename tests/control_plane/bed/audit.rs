//! Who asked the API server for what.

use std::fs;

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
    /// By which token of his.
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

impl Bed {
    /// Every finished request so far. A request may show up a moment after its answer.
    pub fn requests(&self) -> Vec<Request> {
        let log = self.testbed.cluster().audit_log().expect("the cluster writes an audit log");
        let text = fs::read_to_string(log).expect("the audit log is readable");
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .map(|line: Value| request(&line))
            .collect()
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
