//! Types of Secrets, and the keys that the API server requires of a Secret of each type.

use super::CompiledKeys;

/// The type of a Secret with arbitrary data.
const OPAQUE: &str = "Opaque";

struct SecretType {
    name: &'static str,
    /// The required keys: all keys, or with `any_will_do` one of the keys.
    required: &'static [&'static str],
    any_will_do: bool,
    /// Other keys that such Secrets often have.
    usual: &'static [&'static str],
}

const TYPES: [SecretType; 5] = [
    SecretType {
        name: "kubernetes.io/tls",
        required: &["tls.crt", "tls.key"],
        any_will_do: false,
        usual: &["ca.crt"],
    },
    SecretType {
        name: "kubernetes.io/dockerconfigjson",
        required: &[".dockerconfigjson"],
        any_will_do: false,
        usual: &[],
    },
    SecretType { name: "kubernetes.io/dockercfg", required: &[".dockercfg"], any_will_do: false, usual: &[] },
    SecretType {
        name: "kubernetes.io/basic-auth",
        required: &["username", "password"],
        any_will_do: true,
        usual: &[],
    },
    SecretType {
        name: "kubernetes.io/ssh-auth",
        required: &["ssh-privatekey"],
        any_will_do: false,
        usual: &[],
    },
];

impl CompiledKeys {
    /// Returns the type of the copy of a Secret of this type: [`OPAQUE`] if the copy lacks required keys of
    /// the type.
    pub fn copied_type<'t>(&self, source: &'t str) -> &'t str {
        let left = TYPES.iter().any(|one| one.name == source && !self.give(one));
        if left { OPAQUE } else { source }
    }

    /// Returns the types of Secrets whose copies become [`OPAQUE`], if the named keys show that the rule is
    /// meant for such Secrets.
    pub fn types_left(&self) -> Vec<&'static str> {
        let named = self.include.iter().chain([&self.exclude]).flat_map(|list| list.names());
        let named: Vec<&String> = named.chain(self.rename.keys()).collect();
        let is_meant = |one: &SecretType| {
            named.iter().any(|name| one.required.iter().chain(one.usual).any(|key| key == name))
        };
        TYPES.iter().filter(|one| !self.give(one) && is_meant(one)).map(|one| one.name).collect()
    }

    /// Whether a copy has the required keys of the type if its source has them.
    fn give(&self, type_: &SecretType) -> bool {
        let renamed =
            |key: &str| self.rename.iter().any(|(old, new)| new == key && self.carried(old).is_some());
        let mut given = type_.required.iter().map(|key| self.carried(key) == Some(*key) || renamed(key));
        if type_.any_will_do { given.any(|is_given| is_given) } else { given.all(|is_given| is_given) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::validate::CompiledRule;

    fn keys(shape: Value) -> CompiledKeys {
        let spec = json!({"source": {"kind": "Secret", "names": ["a"]}, "targets": [{"names": ["shop"]}], "copy": {"keys": shape}});
        CompiledRule::compile(&serde_json::from_value(spec).unwrap(), &BTreeSet::new()).unwrap().shape.keys
    }

    #[test]
    fn a_copy_without_the_keys_of_its_type_is_opaque() {
        let tls = "kubernetes.io/tls";
        for (shape, type_, is_kept, told) in [
            (json!({}), tls, true, &[][..]),
            (json!({"include": ["ca.crt"]}), tls, false, &[tls]),
            (json!({"include": ["tls.*"]}), tls, true, &[]),
            (json!({"exclude": ["tls.key"]}), tls, false, &[tls]),
            (json!({"exclude": ["ca.crt"]}), tls, true, &[]),
            (json!({"rename": {"tls.key": "key.pem"}}), tls, false, &[tls]),
            (json!({"rename": {"tls.key": "old.key", "new.key": "tls.key"}}), tls, true, &[]),
            (json!({"include": ["ca.crt"]}), "example.com/own", true, &[tls]),
            (
                json!({"rename": {".dockerconfigjson": "config.json"}}),
                "kubernetes.io/dockerconfigjson",
                false,
                &["kubernetes.io/dockerconfigjson"],
            ),
            (json!({"exclude": ["username"]}), "kubernetes.io/basic-auth", true, &[]),
            (json!({"include": ["note"]}), "kubernetes.io/basic-auth", false, &[]),
            (json!({"exclude": ["ssh-*"]}), "kubernetes.io/ssh-auth", false, &[]),
        ] {
            let compiled = keys(shape.clone());
            let copied = if is_kept { type_ } else { OPAQUE };
            assert_eq!((compiled.copied_type(type_), &*compiled.types_left()), (copied, told), "{shape}");
        }
    }
}
