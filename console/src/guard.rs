//! Pure checks of a request's Host and origin, before authentication.
//!
//! A page of a foreign site can make a browser send requests to the console, and a name that resolves to
//! loopback (DNS rebinding) can make such requests look as if they came from their own site. The Host must
//! therefore be a configured host, and a browser must say that the request came from our own page or the
//! address bar.

use std::str::FromStr;

use http::{HeaderMap, Method, Uri, header, request::Parts, uri::Authority};

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("this console answers only requests for {hosts}, {setting}")]
    Host { hosts: String, setting: &'static str },
    #[error("this console accepts requests only from its own pages, not from another origin")]
    Origin,
    #[error(
        "this console accepts requests only from its own pages and the address bar, not from another site"
    )]
    Site,
}

/// A host that requests may name: a name or address, and a port. A host without a port allows any port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowedHost {
    host: String,
    port: Option<u16>,
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Self::parse(text);
        parsed.ok_or_else(|| format!("{text:?} is not HOST or HOST:PORT, as in console.example.com"))
    }
}

impl AllowedHost {
    fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.parse().ok()?;
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port_u16();
        let whole = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        // No user info, and no invalid port.
        (whole == text.to_ascii_lowercase() && !host.is_empty() && !host.contains('*'))
            .then_some(Self { host, port })
    }

    /// Whether a request that names the host `named` is allowed.
    fn allows(&self, named: &Self) -> bool {
        self.host == named.host && (self.port.is_none() || self.port == named.port)
    }

    fn said(&self) -> String {
        self.port.map_or_else(|| self.host.clone(), |port| format!("{}:{port}", self.host))
    }
}

/// The addresses of this console.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Host and port, as browsers and curl send them.
    hosts: Vec<AllowedHost>,
    schemes: &'static [&'static str],
    /// Where the hosts come from, for messages.
    setting: &'static str,
}

impl Guard {
    /// The guard of a run, with the one address that it printed.
    ///
    /// # Errors
    /// `host` is not an address.
    pub(super) fn of_run(host: &str) -> Result<Self, String> {
        let setting = "the address that copyrator console printed (--listen)";
        Ok(Self { hosts: vec![host.parse()?], schemes: &["http"], setting })
    }

    /// The guard of a console with these hosts, behind TLS or not.
    pub(super) fn named(hosts: Vec<AllowedHost>) -> Self {
        Self { hosts, schemes: &["http", "https"], setting: "the hosts of --allowed-hosts" }
    }

    /// Checks Host, Origin and `Sec-Fetch-Site`.
    ///
    /// # Errors
    /// The check that failed.
    pub(super) fn check(&self, head: &Parts) -> Result<(), Refused> {
        let Some(host) = self.named_by(&head.headers, &head.uri) else {
            let hosts: Vec<String> = self.hosts.iter().map(AllowedHost::said).collect();
            return Err(Refused::Host { hosts: hosts.join(", "), setting: self.setting });
        };
        let site = one(&head.headers, "sec-fetch-site");
        // Browsers before 2023 lack `Sec-Fetch-Site`, but send an Origin with everything but a plain visit.
        match site {
            Ok(None | Some("same-origin")) => {}
            // The address bar and bookmarks may only read.
            Ok(Some("none")) if !is_write(&head.method) => {}
            // The file of --open, and links in a terminal or mail, lead to a page that needs no session.
            Ok(Some(_)) if head.method == Method::GET && is_open(head.uri.path()) => {}
            _ => return Err(Refused::Site),
        }
        match one(&head.headers, header::ORIGIN.as_str()) {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if self.is_origin(origin, host) => Ok(()),
            // A form of ours: under `Referrer-Policy: no-referrer`, browsers send `null` as the Origin.
            Ok(Some("null")) if site == Ok(Some("same-origin")) => Ok(()),
            _ => Err(Refused::Origin),
        }
    }

    /// The host that a request names, if the host is one of ours.
    fn named_by<'h>(&self, headers: &'h HeaderMap, uri: &Uri) -> Option<&'h str> {
        let host = one(headers, header::HOST.as_str()).ok().flatten()?;
        let named = AllowedHost::parse(host)?;
        let is_allowed = self.hosts.iter().any(|ours| ours.allows(&named));
        // A request line may name the host, too, as proxies send it: request line and header must agree.
        (is_allowed && uri.authority().is_none_or(|authority| *authority == *host)).then_some(host)
    }

    /// Whether a page of the host that the request names has this origin.
    fn is_origin(&self, origin: &str, host: &str) -> bool {
        let of_ours = origin.split_once("://").filter(|(scheme, _)| self.schemes.contains(scheme));
        of_ours.is_some_and(|(_, named)| named.eq_ignore_ascii_case(host))
    }
}

/// Whether a path needs no session. Pages below such a path show nothing of the cluster.
pub(super) fn is_open(path: &str) -> bool {
    path == "/login" || path == "/logout" || path.starts_with("/assets/")
}

/// Whether the method changes the cluster. A POST only judges manifests.
pub(super) fn is_write(method: &Method) -> bool {
    !method.is_safe() && method != "POST"
}

/// The value of a header; `Err` if the request has the header more than once, or the value is not text.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ()> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().map_err(drop)).transpose()?;
    if all.next().is_some() { Err(()) } else { Ok(first) }
}

/// Whether a body for this path may have this type. Forms of our pages are urlencoded; programs send JSON or
/// YAML.
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

    fn checked(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Refused> {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let (head, ()) = request.body(()).unwrap().into_parts();
        guard.check(&head)
    }

    #[test]
    fn a_request_names_the_printed_address_and_comes_from_it() {
        let host = ("host", HOST);
        let guard = Guard::of_run(HOST).unwrap();
        let setting = guard.setting;
        let refused = || Err(Refused::Host { hosts: HOST.to_owned(), setting });
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
            assert_eq!(checked(&guard, method, path, headers), expected, "{method} {path} {headers:?}");
        }
    }

    #[test]
    fn a_console_with_names_answers_to_these_and_takes_pages_of_the_one_that_is_named() {
        let hosts = ["localhost", "console.example.com", "[::1]", "web:8443"];
        let guard = Guard::named(hosts.map(|host| host.parse().unwrap()).into());
        let is_in = |headers: &[(&str, &str)]| checked(&guard, "GET", "/", headers).is_ok();
        for host in [
            "localhost",
            "localhost:8001",
            "console.example.com",
            "Console.Example.com:443",
            "[::1]:80",
            "web:8443",
        ] {
            assert!(is_in(&[("host", host)]), "{host}");
        }
        for host in [
            "web",
            "web:80",
            "evil.example",
            "console.example.com.evil.example",
            "a@localhost",
            "localhost:",
            "::1",
            "*",
            "",
        ] {
            assert!(!is_in(&[("host", host)]), "{host}");
        }
        let said = checked(&guard, "GET", "/", &[("host", "evil.example")]).unwrap_err().to_string();
        assert!(said.contains("console.example.com") && said.ends_with("--allowed-hosts"), "{said}");
        let named = ("host", "console.example.com");
        for (origin, expected) in [
            ("https://console.example.com", true),
            ("http://console.example.com", true),
            ("https://console.example.com:444", false),
            ("https://localhost", false),
            ("ftp://console.example.com", false),
            ("null", false),
        ] {
            assert_eq!(is_in(&[named, ("origin", origin)]), expected, "{origin}");
        }
        for wrong in ["http://a", "a/b", "*.example.com", "a b", ""] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
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
