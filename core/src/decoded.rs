//! Objects decoded one by one: one that cannot be decoded spoils neither the list nor the watch that brings it.
//!
//! kube decodes a whole list, or nothing of it, and a watch meets the same event again after each try. What a user can write and the
//! API server takes is more than our decoders take: times after the year 9999, fields nested 200 deep. So an item is decoded by
//! itself. If it is not understood, it is tried again without what its `managedFields` have that is not understood, and then without
//! any: who wrote which field matters less than the object. Of the rest its metadata is kept, so that it can be named.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

/// The longest reason that is kept of an object that cannot be read, in bytes.
const LONGEST_REASON: usize = 200;

/// An object as a list or watch brings it, of the kind `T`. Decoding one always succeeds.
#[derive(Clone, Debug)]
pub enum Decoded<T> {
    /// It was decoded.
    Read(T),
    /// It could not be.
    Unreadable(Box<Unreadable>),
}

/// What is left of an object that cannot be decoded.
#[derive(Clone, Debug, Default)]
pub struct Unreadable {
    /// Its metadata without `managedFields`, or as much of the names in it as can be read.
    pub metadata: ObjectMeta,
    /// Why it cannot be decoded. It quotes nothing of the object.
    pub why: String,
}

impl<T> Decoded<T> {
    /// The object, or what is left of it.
    ///
    /// # Errors
    /// It could not be decoded.
    pub fn read(self) -> Result<T, Box<Unreadable>> {
        match self {
            Self::Read(object) => Ok(object),
            Self::Unreadable(left) => Err(left),
        }
    }

    /// The same, reduced to what counts of the object.
    pub fn map<U>(self, reduce: impl FnOnce(T) -> U) -> Decoded<U> {
        match self {
            Self::Read(object) => Decoded::Read(reduce(object)),
            Self::Unreadable(left) => Decoded::Unreadable(left),
        }
    }

    /// The same; `None` where nothing of the object counts.
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

/// The fields of a JSON object, undecoded: nesting has no bound in there.
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

/// Decodes an object with less and less of its `managedFields`. Returns its metadata, too.
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

/// The entries of `managedFields`, without times that are none, and without fields that are nested too deep.
fn understood(entries: &RawValue) -> Option<Box<RawValue>> {
    let mut entries: Vec<Fields> = serde_json::from_str(entries.get()).ok()?;
    for entry in &mut entries {
        entry.retain(|name, value| match name.as_str() {
            "time" => serde_json::from_str::<Timestamp>(value.get()).is_ok(),
            // Of a field that is there twice, one is left.
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

/// Replaces a time that is later than any that we can express.
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

/// Why an object was not decoded. What was found is left out, since it may be a value that nobody else may see.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let mut why = match text.find(", expected ") {
        _ if text.starts_with("recursion limit") => "it is nested more than 128 levels deep".to_owned(),
        Some(at) => {
            format!("it has something else than what is expected: {}", &text[at + ", expected ".len()..])
        }
        None if text.starts_with("missing field") || text.starts_with("duplicate field") => text,
        None => format!("it is not understood at line {} column {}", error.line(), error.column()),
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

/// Gives a type that decodes less of an object the kind, group, version, plural and scope of the whole object. For use inside an `impl
/// Resource`, beside `meta` and `meta_mut`.
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
