//! Reduces an object to digests while it is decoded, one value at a time, so that no second copy of a large
//! object exists.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::decoded::{RawMeta, decode};
use crate::{
    api::DataKind,
    digest::{DigestKey, Fingerprint, KeyPrint},
    marks::never_carried,
    names::Kind,
};

/// Returns the fingerprint of an object in JSON; `None` if the text is no object of the kind.
pub(super) fn fingerprint(kind: Kind, text: &[u8], key: &DigestKey) -> Option<Fingerprint> {
    let Some(kind) = kind.data() else {
        // Objects without `data` are small.
        return Some(decode(kind, std::str::from_utf8(text).ok()?)?.fingerprint(key));
    };
    serde_json::Deserializer::from_slice(text).deserialize_map(Object { kind, key }).ok()
}

struct Object<'k> {
    kind: DataKind,
    key: &'k DigestKey,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Fingerprint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fingerprint, A::Error> {
        let Self { kind, key } = self;
        let (mut metadata, mut type_, mut immutable) = (None::<RawMeta>, None::<String>, false);
        let mut keys = BTreeMap::new();
        while let Some(field) = map.next_key::<Cow<'de, str>>()? {
            let is_data = field == "data";
            match &*field {
                "data" | "binaryData" => {
                    map.next_value_seed(Values { kind, key, is_data, keys: &mut keys })?;
                }
                "metadata" => metadata = Some(map.next_value()?),
                "type" => type_ = map.next_value()?,
                "immutable" => immutable = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let metadata = metadata.ok_or_else(|| A::Error::missing_field("metadata"))?;
        let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
        let (keeper, annotations) = metadata.keeper_and_annotations(never_carried);
        Ok(Fingerprint {
            uid,
            resource_version,
            type_: type_.filter(|_| kind == DataKind::Secret),
            immutable,
            keys,
            annotations,
            role: None,
            keeper,
        })
    }
}

/// The map `data`, `stringData` or `binaryData`.
struct Values<'a> {
    kind: DataKind,
    key: &'a DigestKey,
    is_data: bool,
    keys: &'a mut BTreeMap<String, KeyPrint>,
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let print = map.next_value_seed(OneValue(&self))?;
            self.keys.insert(name, print);
        }
        Ok(())
    }
}

struct OneValue<'a>(&'a Values<'a>);

impl<'de> DeserializeSeed<'de> for OneValue<'_> {
    type Value = KeyPrint;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyPrint, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OneValue<'_> {
    type Value = KeyPrint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<KeyPrint, E> {
        let Values { kind, key, is_data, .. } = *self.0;
        let print = |bytes: &[u8], binary| {
            Ok(KeyPrint { digest: key.value(bytes), size: bytes.len() as u64, binary })
        };
        if is_data && kind == DataKind::ConfigMap {
            return print(text.as_bytes(), false);
        }
        // The decoder's message is dropped: it could quote a value.
        let bytes = STANDARD.decode(text).map_err(|_| E::custom("not in base64"))?;
        print(&bytes, !is_data || std::str::from_utf8(&bytes).is_err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_the_decoded_content() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let meta = r#""metadata":{"name":"a","uid":"u","resourceVersion":"7","annotations":{"a/b":"c",
            "kubectl.kubernetes.io/last-applied-configuration":"{}"},"managedFields":[{}]}"#;
        for (kind, text) in [
            (
                Kind::ConfigMap,
                format!(r#"{{{meta},"data":{{"a":"é\n\"x","b":""}},"binaryData":{{"c":"/w=="}}}}"#),
            ),
            (
                Kind::Secret,
                format!(r#"{{"data":{{"a":"YQ==","b":"/w=="}},"type":"Opaque","immutable":true,{meta}}}"#),
            ),
            (Kind::ConfigMap, format!(r#"{{"kind":"ConfigMap","type":"none",{meta}}}"#)),
            (Kind::NetworkPolicy, format!(r#"{{{meta},"spec":{{"podSelector":{{}},"ingress":[{{}}]}}}}"#)),
        ] {
            let expected = decode(kind, &text).unwrap().fingerprint(&key);
            assert_eq!(fingerprint(kind, text.as_bytes(), &key), Some(expected), "{text}");
        }
        for text in ["", "{}", "[]", &format!(r#"{{{meta},"data":{{"a":"?"}}}}"#)] {
            assert_eq!(fingerprint(Kind::Secret, text.as_bytes(), &key), None, "{text}");
        }
    }
}
