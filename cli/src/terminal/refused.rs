//! The API server's messages of refusal.

use kube::core::Status;

/// The API server's message. A proxy in front of the API server may answer without a message: in that case
/// only the status code is known.
pub(crate) fn words(status: &Status) -> String {
    match status.message.trim() {
        "" => {
            format!("the answer is HTTP {} without a message, perhaps from a proxy: try again", status.code)
        }
        said => said.to_owned(),
    }
}
