//! Decodes each object of a list or watch by itself, so an object that cannot be decoded breaks neither the
//! list nor the watch.
//!
//! kube fails to decode a whole list if one object fails, and a watch receives the same event again after
//! each retry. The API server accepts objects that our decoders refuse: times after the year 9999, fields
//! nested 200 deep. If an object cannot be decoded, the decoder tries again without the unreadable parts of
//! its `managedFields`, then without any `managedFields`: the object matters more than who wrote which field.
//! If all attempts fail, only the metadata is kept, so that messages can name the object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

/// Maximum length of [`Unreadable::why`], in bytes.
const LONGEST_REASON: usize = 200;

/// An object of kind `T` from a list or watch, decoded or unreadable. Deserializing this type never fails.
#[derive(Clone, Debug)]
pub enum Decoded<T> {
    /// The decoded object.
    Read(T),
    /// The object could not be decoded.
    Unreadable(Box<Unreadable>),
}

/// The metadata of an object that cannot be decoded, and the reason.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    /// The metadata without `managedFields`; if the metadata cannot be decoded either, only its readable
    /// names.
    pub metadata: ObjectMeta,
    /// Why the object cannot be decoded, without any value of the object.
    pub why: String,
}

impl<T> Decoded<T> {
    /// Returns the decoded object.
    ///
    /// # Errors
    /// The object could not be decoded.
    pub fn read(self) -> Result<T, Box<Unreadable>> {
        match self {
            Self::Read(object) => Ok(object),
            Self::Unreadable(left) => Err(left),
        }
    }

    /// Maps a decoded object, and leaves an unreadable object unchanged.
    pub fn map<U>(self, reduce: impl FnOnce(T) -> U) -> Decoded<U> {
        match self {
            Self::Read(object) => Decoded::Read(reduce(object)),
            Self::Unreadable(left) => Decoded::Unreadable(left),
        }
    }

    /// Like [`Self::map`]; `None` if `reduce` drops the object.
    pub fn filter_map<U>(self, reduce: impl FnOnce(T) -> Option<U>) -> Option<Decoded<U>> {
        match self {
            Self::Read(object) => reduce(object).map(Decoded::Read),
            Self::Unreadable(left) => Some(Decoded::Unreadable(left)),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Decoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(decode(Box::<RawValue>::deserialize(deserializer)?.get()))
    }
}

/// The fields of a JSON object as raw text, which may be nested to any depth.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Decodes one object.
fn decode<T: DeserializeOwned>(text: &str) -> Decoded<T> {
    let error = match serde_json::from_str(text) {
        Ok(object) => return Decoded::Read(object),
        Err(error) => error,
    };
    let (metadata, read) = without_managers(text);
    match read {
        Some(object) => Decoded::Read(object),
        None => Decoded::Unreadable(Box::new(Unreadable { metadata, why: said(&error) })),
    }
}

/// Decodes an object with less and less of its `managedFields`. Returns the object's metadata if all attempts
/// fail.
fn without_managers<T: DeserializeOwned>(text: &str) -> (ObjectMeta, Option<T>) {
    let mut object: Fields = serde_json::from_str(text).unwrap_or_default();
    let given = object.remove("metadata");
    let given = given.as_deref().map_or("", RawValue::get);
    let Ok(mut metadata) = serde_json::from_str::<Fields>(given) else {
        return (ObjectMeta::default(), None);
    };
    for time in ["creationTimestamp", "deletionTimestamp"] {
        metadata.get_mut(time).into_iter().for_each(within_range);
    }
    let managers = metadata.remove("managedFields").and_then(|entries| understood(&entries));
    for managers in [managers, None] {
        metadata.extend(managers.map(|entries| ("managedFields".to_owned(), entries)));
        object.extend(raw(&metadata).map(|metadata| ("metadata".to_owned(), metadata)));
        if let Some(read) = raw(&object).and_then(|text| serde_json::from_str(text.get()).ok()) {
            return (ObjectMeta::default(), Some(read));
        }
        metadata.remove("managedFields");
    }
    (
        raw(&metadata)
            .and_then(|text| serde_json::from_str(text.get()).ok())
            .unwrap_or_else(|| names(&metadata)),
        None,
    )
}

/// The entries of `managedFields`, without invalid times and without fields that are nested too deep.
fn understood(entries: &RawValue) -> Option<Box<RawValue>> {
    let mut entries: Vec<Fields> = serde_json::from_str(entries.get()).ok()?;
    for entry in &mut entries {
        entry.retain(|name, value| match name.as_str() {
            "time" => serde_json::from_str::<Timestamp>(value.get()).is_ok(),
            // Parsing keeps one of two duplicate fields.
            "fieldsV1" => serde_json::from_str::<Map<String, Value>>(value.get())
                .ok()
                .and_then(|fields| raw(&fields))
                .map(|fields| *value = fields)
                .is_some(),
            _ => true,
        });
    }
    raw(&entries)
}

/// Replaces a time that cannot be decoded, such as one after the year 9999, by the latest possible time.
fn within_range(time: &mut Box<RawValue>) {
    if serde_json::from_str::<Option<Timestamp>>(time.get()).is_err() {
        raw(&Timestamp::MAX).into_iter().for_each(|latest| *time = latest);
    }
}

/// The names among the fields of metadata.
fn names(metadata: &Fields) -> ObjectMeta {
    let text = |name: &str| serde_json::from_str(metadata.get(name)?.get()).ok();
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

/// Why an object was not decoded. The message leaves out the value that was found, since it may be secret.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let mut why = match text.find(", expected ") {
        _ if text.starts_with("recursion limit") => {
            "the object is nested more than 128 levels deep".to_owned()
        }
        Some(at) => {
            format!("a value has the wrong type, expected {}", &text[at + ", expected ".len()..])
        }
        None if text.starts_with("missing field") || text.starts_with("duplicate field") => text,
        None => format!("cannot be decoded at line {} column {}", error.line(), error.column()),
    };
    why.truncate(why.floor_char_boundary(LONGEST_REASON));
    why
}

impl<T: Resource> Resource for Decoded<T> {
    resource_names!(T);

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Read(object) => object.meta(),
            Self::Unreadable(left) => &left.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Read(object) => object.meta_mut(),
            Self::Unreadable(left) => &mut left.metadata,
        }
    }

    fn metadata_api() -> bool {
        T::metadata_api()
    }
}

/// Gives a type that decodes only part of an object the kind, group, version, plural and scope of the whole
/// object. For use inside an `impl Resource`, beside `meta` and `meta_mut`.
#[macro_export]
macro_rules! resource_names {
    ($of:ty) => {
        type DynamicType = <$of as ::kube::Resource>::DynamicType;
        type Scope = <$of as ::kube::Resource>::Scope;

        fn kind(of: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
            <$of as ::kube::Resource>::kind(of)
        }

        fn group(of: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
            <$of as ::kube::Resource>::group(of)
        }

        fn version(of: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
            <$of as ::kube::Resource>::version(of)
        }

        fn plural(of: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
            <$of as ::kube::Resource>::plural(of)
        }
    };
}

pub use resource_names;

#[cfg(test)]
mod tests;
