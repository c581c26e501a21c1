//! What the API server said when it did not do what was asked.

use kube::core::Status;

/// Its words. A proxy before it may answer in its place, without any: then the code is all there is.
pub(crate) fn words(status: &Status) -> String {
    match status.message.trim() {
        "" => format!("the answer is HTTP {} without a word, maybe a proxy's: try again", status.code),
        said => said.to_owned(),
    }
}
