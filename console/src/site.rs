//! The address of a console, and how its callers authenticate, for pages, cookies and the OpenAPI document.
//! This module is pure.

use std::{str::FromStr, time::Duration};

/// The base path of the console, as an Ingress sends it, without a slash at its end. An empty text means no
/// base path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BasePath(String);

impl FromStr for BasePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(is_plain) && !part.bytes().all(|byte| byte == b'.')
        };
        match path.strip_prefix('/') {
            Some(parts) if parts.split('/').all(is_part) => Ok(Self(path.to_owned())),
            None if path.is_empty() => Ok(Self::default()),
            _ => Err("write a path such as /copyrator or /tools/copyrator, with letters, digits, - _ . ~"
                .to_owned()),
        }
    }
}

impl BasePath {
    /// The address of a path, below the base path.
    pub(super) fn at(&self, path: &str) -> String {
        match path {
            "/" if !self.0.is_empty() => self.0.clone(),
            path => format!("{}{path}", self.0),
        }
    }

    /// The base path as text.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// How callers authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// With the secrets that a run on the caller's machine has printed.
    Run,
    /// With the caller's own token of the cluster, or with a cookie that seals the token.
    Token,
}

impl Session {
    /// The name of the cookie, which distinguishes the cookie from cookies of other programs on the same
    /// host. Browsers accept a name with `__Host-` from this host alone, over TLS or on the machine that they
    /// run on.
    pub(super) fn cookie(self) -> &'static str {
        match self {
            Self::Run => "copyrator-console",
            Self::Token => "__Host-copyrator-console",
        }
    }

    /// A `Set-Cookie` with this value and lifetime; `None`: until the browser closes. `__Host-` demands
    /// `Path=/`, also below a base path.
    pub(super) fn set_cookie(self, value: &str, life: Option<Duration>) -> String {
        let life = life.map(|life| format!("; Max-Age={}", life.as_secs())).unwrap_or_default();
        let secure = if self == Self::Token { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{life}", self.cookie())
    }

    /// The message for a caller without credentials.
    pub(super) fn stranger(self, is_write: bool) -> &'static str {
        match (self, is_write) {
            (Self::Run, true) => {
                "to write, send Authorization: Bearer with the token that copyrator console printed"
            }
            (Self::Run, false) => {
                "log in, or send Authorization: Bearer with the token that copyrator console printed"
            }
            (Self::Token, true) => "to write, send Authorization: Bearer with your token of this cluster",
            (Self::Token, false) => "log in, or send Authorization: Bearer with your token of this cluster",
        }
    }

    /// The description of the bearer token.
    pub(super) fn bearer(self) -> &'static str {
        match self {
            Self::Run => "The token that copyrator console prints",
            Self::Token => "Your token for the cluster, as from kubectl create token",
        }
    }
}

/// The session of a caller who has logged in: the value of the cookie, and its lifetime; `None`: until the
/// run ends.
#[derive(PartialEq, Eq)]
pub(super) struct Pass {
    pub value: String,
    pub life: Option<Duration>,
}

/// The address of a console, and how its callers authenticate.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub base: BasePath,
    pub session: Session,
}

impl Site {
    /// The site of a console run, without a base path.
    pub(super) fn of_run() -> Self {
        Self { base: BasePath::default(), session: Session::Run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_plain_and_stands_before_every_path() {
        for (text, home, login) in [
            ("", "/", "/login"),
            ("/", "/", "/login"),
            ("/copyrator", "/copyrator", "/copyrator/login"),
            ("/tools/copyrator/", "/tools/copyrator", "/tools/copyrator/login"),
        ] {
            let base: BasePath = text.parse().unwrap();
            assert_eq!((base.at("/").as_str(), base.at("/login").as_str()), (home, login), "{text:?}");
        }
        for wrong in
            ["copyrator", "//evil.example", "/a//b", "/..", "/a/./b", "/{a}", "/a b", "/a?b", "/a%2f"]
        {
            assert!(wrong.parse::<BasePath>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_cookie_of_a_token_is_for_this_host_alone() {
        let cookie = Session::Token.set_cookie("x", Some(Duration::from_secs(60)));
        let expected = "__Host-copyrator-console=x; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=60";
        assert_eq!(cookie, expected);
        assert_eq!(
            Session::Run.set_cookie("x", None),
            "copyrator-console=x; Path=/; HttpOnly; SameSite=Strict"
        );
    }
}
