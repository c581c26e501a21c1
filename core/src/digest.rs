//! Keyed digests of content and of marks. Without the key, a user cannot guess a value and compare its
//! digest.

use std::{collections::BTreeMap, fmt, sync::Arc};

use ring::hmac;

use crate::names::{Declarer, ObjectKey};

/// The digests of an object's content, for comparisons without the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The object's UID, which distinguishes it from a new object of the same name.
    pub uid: Box<str>,
    /// The version of the object that the content was read from.
    pub resource_version: Box<str>,
    /// The Secret's `type`; `None` for a ConfigMap.
    pub type_: Option<String>,
    /// Whether the object is immutable.
    pub immutable: bool,
    /// Digest and size in bytes of each key; for kinds without `data`, of each leaf, by path
    /// ([`crate::paths`]).
    pub keys: BTreeMap<String, KeyPrint>,
    /// The object's annotations, except those that are never copied.
    pub annotations: BTreeMap<String, String>,
    /// The ClusterRole that a RoleBinding names; `None` for a RoleBinding that names a Role, and for other
    /// kinds.
    pub role: Option<Box<str>>,
    /// Who manages the object according to its metadata, such as a Helm release.
    pub keeper: Option<Box<str>>,
}

impl Fingerprint {
    /// Bytes of all keys and values together.
    pub fn size(&self) -> u64 {
        self.keys.iter().map(|(key, print)| key.len() as u64 + print.size).sum()
    }
}

/// Digest and size of one key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrint {
    /// Keyed digest of the value.
    pub digest: [u8; 16],
    /// Bytes of the value.
    pub size: u64,
    /// Whether the value is in `binaryData`.
    pub binary: bool,
}

/// The key of every digest and mark, kept in a Secret of ours.
#[derive(Clone)]
pub struct DigestKey {
    id: String,
    key: hmac::Key,
    /// The bytes of the key, with which the reconciler can recreate a deleted Secret.
    bytes: Arc<[u8]>,
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DigestKey({})", self.id)
    }
}

impl DigestKey {
    /// How many random bytes make a key.
    pub const LENGTH: usize = 32;

    /// Makes the key from the bytes of the key Secret.
    pub fn new(bytes: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let id = hex(&hmac::sign(&key, b"copyrator key id").as_ref()[..4]);
        Self { id, key, bytes: bytes.into() }
    }

    /// The bytes that the key was made from; only for writing the key Secret.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    /// The key's name in digests and marks. The name distinguishes a digest by another key from a wrong
    /// digest.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether a digest, or a record that begins with a digest, names this key. The name is no proof, since
    /// any user can read it.
    pub fn is_named_in(&self, digest: &str) -> bool {
        digest.split_once('.').is_some_and(|(id, _)| id == self.id)
    }

    /// Digest of one value.
    pub fn value(&self, bytes: &[u8]) -> [u8; 16] {
        self.sign(&[b"value", bytes])
    }

    /// Digest of a copy's intended state: type, immutability, keys and values, added labels and annotations.
    pub fn content(
        &self,
        print: &Fingerprint,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> String {
        let sizes = [print.keys.len(), labels.len(), annotations.len()].map(usize::to_be_bytes);
        let mut parts: Vec<&[u8]> = vec![
            b"content",
            print.type_.as_deref().unwrap_or_default().as_bytes(),
            if print.immutable { b"immutable" } else { b"" },
            &sizes[0],
        ];
        for (key, KeyPrint { digest, .. }) in &print.keys {
            parts.extend([key.as_bytes(), digest.as_slice()]);
        }
        for (size, map) in sizes[1..].iter().zip([labels, annotations]) {
            parts.push(size);
            parts.extend(map.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]));
        }
        self.named(&parts)
    }

    /// Digest of all inputs of a workload: kind, namespace and name of each object, and the digests of the
    /// used keys. Without the namespace, a user who sees a workload's label could put guessed values into a
    /// Secret of the same name in another namespace, and compare.
    pub fn inputs<'a>(
        &self,
        inputs: impl IntoIterator<Item = (&'a ObjectKey, Vec<(&'a str, [u8; 16])>)>,
    ) -> String {
        let mut bytes: Vec<Vec<u8>> = vec![b"inputs".to_vec()];
        for (object, keys) in inputs {
            let place = [&*object.kind.to_string(), &object.namespace, &object.name];
            bytes.extend(place.map(|part| part.as_bytes().to_vec()));
            bytes.push(keys.len().to_be_bytes().to_vec());
            for (key, digest) in keys {
                bytes.extend([key.as_bytes().to_vec(), digest.to_vec()]);
            }
        }
        let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        self.named(&parts)
    }

    /// Short digest of a workload's inputs, without the content: if two short digests are equal, their
    /// [`Self::inputs`] differ in content only. A change of the function `inputs` that gives another digest
    /// for the same content must change the short digest too; otherwise every workload would restart.
    pub fn scope(&self, parts: &[String]) -> String {
        let parts = parts.iter().map(String::as_bytes);
        let parts: Vec<&[u8]> = [b"scope 2".as_slice()].into_iter().chain(parts).collect();
        hex(&self.sign(&parts)[..4])
    }

    /// Proof that the marks of a copy are ours. The proof is bound to one object, so YAML that is cloned into
    /// another namespace has no valid proof.
    pub fn mark(&self, slot: &ObjectKey, rule: &Declarer) -> String {
        let (kind, rule) = (slot.kind.mark_name(), rule.named());
        self.named(&[
            b"mark",
            kind.as_bytes(),
            slot.namespace.as_bytes(),
            slot.name.as_bytes(),
            rule.namespace.as_bytes(),
            rule.name.as_bytes(),
        ])
    }

    /// Proof that the API server allowed a spec when we asked. The proof is bound to one object, generation
    /// and identity, so a user cannot gain a grant by writing a status.
    pub fn grant(&self, kind: &str, uid: &str, generation: i64, identity: [&str; 3]) -> String {
        let generation = generation.to_be_bytes();
        let mut parts = vec![b"grant".as_slice(), kind.as_bytes(), uid.as_bytes(), &generation];
        parts.extend(identity.map(str::as_bytes));
        self.named(&parts)
    }

    fn named(&self, parts: &[&[u8]]) -> String {
        format!("{}.{}", self.id, hex(&self.sign(parts)))
    }

    /// HMAC-SHA256, truncated to 128 bits, over the parts with their lengths before them:
    /// no two different lists of parts give the same bytes.
    fn sign(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut short = [0; 16];
        short.copy_from_slice(&tag.as_ref()[..16]);
        short
    }
}

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    fn key() -> DigestKey {
        DigestKey::new(&[7; DigestKey::LENGTH])
    }

    /// Kind, namespace, name, and keys with their values.
    type Object<'a> = (Kind, &'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn inputs(objects: &[Object<'_>]) -> String {
        let objects: Vec<_> = objects
            .iter()
            .map(|(kind, namespace, name, keys)| {
                let keys: Vec<_> =
                    keys.iter().map(|(name, value)| (*name, key().value(value.as_bytes()))).collect();
                (ObjectKey::new(*kind, *namespace, *name), keys)
            })
            .collect();
        key().inputs(objects.iter().map(|(object, keys)| (object, keys.clone())))
    }

    /// Reloader joins `key=value` by `;`, and wave uses bare names: in both tools, different contents can
    /// have the same digest.
    #[test]
    fn no_two_contents_have_one_digest() {
        use Kind::{ConfigMap, Secret};
        let contents: [&[Object<'_>]; 13] = [
            &[],
            &[(ConfigMap, "shop", "a", &[])],
            &[(ConfigMap, "shop", "a", &[("x", "1")])],
            // These inputs differ in kind, namespace, name, key or value.
            &[(Secret, "shop", "a", &[("x", "1")])],
            &[(ConfigMap, "bank", "a", &[("x", "1")])],
            &[(ConfigMap, "shop", "b", &[("x", "1")])],
            &[(ConfigMap, "shop", "a", &[("y", "1")])],
            &[(ConfigMap, "shop", "a", &[("x", "2")])],
            // These inputs have the same text, split at a different place.
            &[(ConfigMap, "shop", "a", &[("x", "1;y=2")])],
            &[(ConfigMap, "shop", "a", &[("x", "1"), ("y", "2")])],
            &[(ConfigMap, "shop", "a", &[("x", "1")]), (ConfigMap, "shop", "b", &[("y", "2")])],
            &[(ConfigMap, "shop", "a", &[]), (ConfigMap, "shop", "b", &[("x", "1"), ("y", "2")])],
            &[(ConfigMap, "sho", "pa", &[("x", "1")])],
        ];
        let digests: std::collections::BTreeSet<_> = contents.iter().map(|one| inputs(one)).collect();
        assert_eq!(digests.len(), contents.len(), "{digests:#?}");
        assert!(digests.iter().all(|digest| digest.starts_with(&format!("{}.", key().id()))));
        assert_eq!(inputs(contents[10]), inputs(contents[10]));
    }

    #[test]
    fn another_key_gives_other_digests_and_says_so() {
        let other = DigestKey::new(&[8; DigestKey::LENGTH]);
        assert_ne!(key().id(), other.id());
        assert_ne!(key().value(b"1"), other.value(b"1"));
        assert_ne!(key().inputs([]).split_once('.').unwrap().1, other.inputs([]).split_once('.').unwrap().1);
        // `Debug` prints only the name of a key.
        assert_eq!(format!("{other:?}"), format!("DigestKey({})", other.id()));
    }

    #[test]
    fn parts_have_their_lengths_before_them() {
        let parts = |parts: &[&str]| parts.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (one, other) in [
            (&["ab", "c"][..], &["a", "bc"][..]),
            (&["a", "", "b"], &["a", "b", ""]),
            (&[], &[""]),
            (&["a"], &["a", ""]),
        ] {
            assert_ne!(key().scope(&parts(one)), key().scope(&parts(other)), "{one:?} {other:?}");
        }
    }
}
