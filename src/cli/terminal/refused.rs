//! The API server's messages of refusal.

use kube::core::Status;

/// The API server's message. A proxy before it may answer without any: then the status code is all there is.
pub(crate) fn words(status: &Status) -> String {
    match status.message.trim() {
        "" => format!("the answer is HTTP {} without a word, maybe a proxy's: try again", status.code),
        said => said.to_owned(),
    }
}
