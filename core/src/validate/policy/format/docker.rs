//! Logins to registries, as the kubelet reads them from a Secret of type `kubernetes.io/dockerconfigjson`.

use std::{borrow::Cow, fmt};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::document::{self, Document};
use crate::validate::policy::fault::Fault;

const SHAPE: &str = r#"write {"auths": {"REGISTRY": {"username": …, "password": …}}}, as kubectl create secret docker-registry does"#;

#[derive(Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    auths: Logins<'a>,
}

/// The values of a map, unparsed. The keys are dropped, since messages must not quote them.
struct Logins<'a>(Vec<&'a RawValue>);

#[derive(Deserialize, Default)]
struct Login<'a> {
    #[serde(borrow, default)]
    auth: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    username: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    password: Option<Cow<'a, str>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Logins<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Logins<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of registries")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Logins<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some((_, login)) = map.next_entry::<IgnoredAny, &RawValue>()? {
                    all.push(login);
                }
                Ok(Logins(all))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Accepts a text with logins to registries, if each login is complete.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    document::check(Document::Json, text)?;
    // The parser's message is dropped, since the message may quote the text.
    let config = serde_json::from_str::<Config<'_>>(text);
    let Config { auths: Logins(logins) } = config.map_err(|_| Fault::new("has no map named auths", SHAPE))?;
    if logins.is_empty() {
        return Err(Fault::new("has no registry in auths", SHAPE));
    }
    for login in logins {
        let offset = login.get().as_ptr().addr() - text.as_ptr().addr();
        login_is_complete(login.get()).map_err(|fault| fault.at(text.as_bytes(), offset))?;
    }
    Ok(())
}

fn login_is_complete(raw: &str) -> Result<(), Fault> {
    let login: Login<'_> = serde_json::from_str(raw).map_err(|_| {
        Fault::new("has a registry entry that is not a map of strings, or has a duplicate field", SHAPE)
    })?;
    let given = |field: &Option<Cow<'_, str>>| field.as_ref().is_some_and(|text| !text.is_empty());
    match login.auth.as_deref().filter(|auth| !auth.is_empty()) {
        Some(auth) => {
            let decoded = STANDARD.decode(auth).or_else(|_| STANDARD_NO_PAD.decode(auth));
            let is_pair = decoded.is_ok_and(|bytes| {
                let parts: Vec<_> = bytes.splitn(2, |byte| *byte == b':').collect();
                matches!(parts.as_slice(), [user, password] if !user.is_empty() && !password.is_empty())
            });
            match is_pair {
                true => Ok(()),
                false => Err(Fault::new(
                    "has a registry entry whose auth is not user:password in base64",
                    "encode auth again, or set username and password",
                )),
            }
        }
        None if given(&login.username) && given(&login.password) => Ok(()),
        None => Err(Fault::new("has a registry entry without auth and without username and password", SHAPE)),
    }
}
