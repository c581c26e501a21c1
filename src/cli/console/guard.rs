//! What a request must look like before anybody looks at who sent it. Pure.
//!
//! A page of another site can make a browser send requests here, and a name that resolves to loopback (DNS
//! rebinding) can make them look as if they came from their own site. So the Host must be the one that was
//! printed, and a browser must say that the request came from our own page, or from the address bar.

use http::{HeaderMap, Method, Uri, header, request::Parts};

/// The request is not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("this console answers to {host} only, the address that it printed (--listen)")]
    Host { host: String },
    #[error("this console takes requests of its own pages only, not of another origin")]
    Origin,
    #[error("this console takes requests of its own pages and of the address bar only, not of another site")]
    Site,
}

/// The address of this run.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Host and port, as browsers and curl send them.
    host: String,
}

impl Guard {
    pub(super) fn new(host: String) -> Self {
        Self { host }
    }

    /// The address of this run, without a path.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Checks Host, Origin and `Sec-Fetch-Site`.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Refused> {
        if !self.is_ours(&head.headers, &head.uri) {
            return Err(Refused::Host { host: self.host.clone() });
        }
        let site = one(&head.headers, "sec-fetch-site");
        // Browsers without `Sec-Fetch-Site` (before 2023) send an Origin with what is not a plain visit.
        match site {
            Ok(None | Some("same-origin")) => {}
            // The address bar and bookmarks read.
            Ok(Some("none")) if !is_write(&head.method) => {}
            // The file of --open, and a link in a terminal or mail, lead to a page that says nothing.
            Ok(Some(_)) if head.method == Method::GET && is_open(head.uri.path()) => {}
            _ => return Err(Refused::Site),
        }
        match one(&head.headers, header::ORIGIN.as_str()) {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if origin == self.origin() => Ok(()),
            // A form of ours: with `Referrer-Policy: no-referrer` browsers keep the Origin to themselves.
            Ok(Some("null")) if site == Ok(Some("same-origin")) => Ok(()),
            _ => Err(Refused::Origin),
        }
    }

    fn is_ours(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let named = one(headers, header::HOST.as_str()) == Ok(Some(&self.host));
        // A request may name the host in its first line, too, as proxies send it.
        named && uri.authority().is_none_or(|authority| *authority == *self.host)
    }
}

/// The paths that need no session: they say nothing about the cluster.
pub(super) fn is_open(path: &str) -> bool {
    path == "/login" || path.starts_with("/assets/")
}

/// Whether the method is one of those that change the cluster. What is posted is judged only.
pub(super) fn is_write(method: &Method) -> bool {
    !method.is_safe() && method != "POST"
}

/// The value of a header that is there at most once.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ()> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().map_err(drop)).transpose()?;
    if all.next().is_some() { Err(()) } else { Ok(first) }
}

/// Whether a body for this path may have this type: forms of our pages are urlencoded, programs send JSON or YAML.
pub(super) fn is_type_taken(headers: &HeaderMap, path: &str) -> bool {
    let Ok(Some(kind)) = one(headers, header::CONTENT_TYPE.as_str()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match path.starts_with("/api/") {
        true => ["application/json", "application/yaml"].contains(&kind.as_str()),
        false => kind == "application/x-www-form-urlencoded",
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    const HOST: &str = "127.0.0.1:4711";

    fn checked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Refused> {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        Guard::new(HOST.to_owned()).check(&head)
    }

    #[test]
    fn a_request_names_the_printed_address_and_comes_from_it() {
        let host = ("host", HOST);
        let refused = || Err(Refused::Host { host: HOST.to_owned() });
        for (method, path, headers, expected) in [
            ("GET", "/", &[host][..], Ok(())),
            ("GET", "/", &[], refused()),
            ("GET", "/", &[("host", "127.0.0.1")], refused()),
            ("GET", "/", &[("host", "evil.example:4711")], refused()),
            ("GET", "/", &[host, ("host", "evil.example")], refused()),
            ("GET", "http://evil.example/", &[host], refused()),
            ("GET", "/", &[host, ("origin", "http://127.0.0.1:4711")], Ok(())),
            ("GET", "/", &[host, ("origin", "http://127.0.0.1:4712")], Err(Refused::Origin)),
            ("GET", "/", &[host, ("origin", "https://127.0.0.1:4711")], Err(Refused::Origin)),
            ("GET", "/", &[host, ("origin", "null")], Err(Refused::Origin)),
            ("GET", "/", &[host, ("origin", "null"), ("sec-fetch-site", "same-origin")], Ok(())),
            ("GET", "/", &[host, ("sec-fetch-site", "none")], Ok(())),
            ("GET", "/", &[host, ("sec-fetch-site", "same-site")], Err(Refused::Site)),
            ("GET", "/api/v1/nodes", &[host, ("sec-fetch-site", "cross-site")], Err(Refused::Site)),
            ("GET", "/login", &[host, ("sec-fetch-site", "cross-site")], Ok(())),
            ("POST", "/login", &[host, ("sec-fetch-site", "cross-site")], Err(Refused::Site)),
            ("PUT", "/api/v1/x", &[host], Ok(())),
            ("PUT", "/api/v1/x", &[host, ("sec-fetch-site", "same-origin")], Ok(())),
            ("PUT", "/api/v1/x", &[host, ("sec-fetch-site", "none")], Err(Refused::Site)),
            ("DELETE", "/api/v1/x", &[host, ("sec-fetch-site", "same-site")], Err(Refused::Site)),
            ("DELETE", "/login", &[host, ("sec-fetch-site", "cross-site")], Err(Refused::Site)),
            ("DELETE", "/api/v1/x", &[host, ("origin", "http://evil.example")], Err(Refused::Origin)),
            ("PUT", "/api/v1/x", &[("host", "evil.example:4711")], refused()),
        ] {
            assert_eq!(checked(method, path, headers), expected, "{method} {path} {headers:?}");
        }
    }

    #[test]
    fn bodies_are_json_or_yaml_and_forms_are_our_pages() {
        for (path, kind, is_taken) in [
            ("/api/v1/plan", Some("application/json"), true),
            ("/api/v1/plan", Some("application/yaml; charset=utf-8"), true),
            ("/api/v1/plan", Some("text/plain"), false),
            ("/api/v1/plan", Some("application/x-www-form-urlencoded"), false),
            ("/api/v1/plan", None, false),
            ("/login", Some("application/x-www-form-urlencoded"), true),
            ("/login", Some("multipart/form-data"), false),
        ] {
            let mut headers = HeaderMap::new();
            kind.and_then(|kind| headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind)));
            assert_eq!(is_type_taken(&headers, path), is_taken, "{path} {kind:?}");
        }
    }
}
