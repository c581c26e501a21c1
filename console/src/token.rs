//! The token that a caller brings. The token is sent only to the API server and in a sealed cookie.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

/// The longest token that is accepted. Tokens of a cluster have some 1,000 bytes, tokens of other issuers
/// several thousand.
const LONGEST: usize = 16 << 10;

/// A bearer token. `Debug` does not show the token.
#[derive(Clone, Debug)]
pub(super) struct Token(SecretString);

/// The digest that identifies a token, so that the token itself need not be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenId([u8; 32]);

impl Token {
    /// Parses a text that can be a token.
    pub(super) fn read(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_plain && !text.is_empty() && text.len() <= LONGEST).then(|| Self(text.into()))
    }

    /// The token, for clients of the API server.
    pub(super) fn secret(&self) -> &SecretString {
        &self.0
    }

    /// The token's digest.
    pub(super) fn id(&self) -> TokenId {
        let mut id = TokenId([0; 32]);
        id.0.copy_from_slice(digest(&SHA256, self.0.expose_secret().as_bytes()).as_ref());
        id
    }

    /// The expiry of the token, from the claim `exp` if it is a JSON Web Token. Only the API server decides
    /// whether the token is valid.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        #[derive(Deserialize)]
        struct Claims {
            exp: f64,
        }
        let mut parts = self.0.expose_secret().split('.');
        let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let since = Duration::try_from_secs_f64(claims.exp).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_when_it_ends_and_no_formatter_shows_it() {
        let jwt = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        for (text, ends) in [
            (jwt(r#"{"exp": 1800000000, "sub": "alice"}"#), at(1_800_000_000)),
            (jwt(r#"{"sub": "alice"}"#), None),
            (jwt(r#"{"exp": -5}"#), None),
            (jwt(r#"{"exp": 1e300}"#), None),
            (jwt("hunter2"), None),
            ("opaque".to_owned(), None),
            ("a.b".to_owned(), None),
        ] {
            let token = Token::read(&text).unwrap();
            assert_eq!(token.ends(), ends, "{text}");
            assert!(!format!("{token:?}").contains(&text));
        }
        for wrong in ["", "a b", "a\r\nImpersonate-User: admin", "ü", &"a".repeat(LONGEST + 1)] {
            assert!(Token::read(wrong).is_none());
        }
        let (one, other) = (Token::read("one").unwrap(), Token::read("other").unwrap());
        assert!(one.id() == Token::read("one").unwrap().id() && one.id() != other.id());
    }
}
