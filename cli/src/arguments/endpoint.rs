//! Where the API server finds the webhook, by the flags of a command.

use super::usage::UsageError;
use crate::hooks::Endpoint;

/// Returns a URL if the user names one, else a Service.
pub fn endpoint(url: Option<String>, service_name: &str, namespace: &str) -> Result<Endpoint, UsageError> {
    match url {
        Some(url) if url.starts_with("https://") => Ok(Endpoint::Url(url.trim_end_matches('/').to_owned())),
        Some(url) => {
            let message = format!("{url:?} is not an https:// URL, which the API server requires");
            Err(UsageError::Value { flag: "webhook-url", message })
        }
        None => service(service_name, namespace),
    }
}

pub(crate) fn service(text: &str, namespace: &str) -> Result<Endpoint, UsageError> {
    let parsed = text.split_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    match parsed {
        Some((name, port)) if !name.is_empty() => {
            Ok(Endpoint::Service { name: name.to_owned(), namespace: namespace.to_owned(), port })
        }
        _ => {
            Err(UsageError::Value { flag: "webhook-service", message: format!("{text:?} is not NAME:PORT") })
        }
    }
}
