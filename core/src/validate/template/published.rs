//! The schemas that an API server publishes for a group and version (OpenAPI v3), read level by level where a template asks for them.
//! A user who may create a CustomResourceDefinition writes such a schema: none is unfolded, and the bytes that are read are bounded.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::names::InstanceKind;

/// How many bytes of schemas one template may have read, again and again.
const MOST_READ: usize = 64 << 20;
/// The longest schema of one place that is read.
const LONGEST: usize = 1 << 20;
/// What a schema counts at least, so that circles of references come to an end.
const AT_LEAST: usize = 256;
/// How many references and parts one place may have.
const MOST_PARTS: usize = 64;

/// The schemas of one group and version.
#[derive(Deserialize)]
pub(super) struct Published<'d> {
    #[serde(borrow)]
    schemas: BTreeMap<String, &'d RawValue>,
}

/// How much more may be read.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MOST_READ)
    }
}

/// What the schemas of one place say together: each of them holds.
#[derive(Default)]
pub(super) struct Level<'d> {
    /// Whether other fields may be there than `fields`, or that is not known.
    pub(super) is_open: bool,
    /// What the place takes; `None` where that is not said, or not understood.
    pub(super) takes: Option<Takes>,
    /// The fields of a map that have names.
    pub(super) fields: BTreeMap<String, Vec<&'d RawValue>>,
    /// What all other fields are.
    pub(super) others: Vec<&'d RawValue>,
    /// What each item of a list is.
    pub(super) items: Vec<&'d RawValue>,
    /// The only values that are taken.
    pub(super) values: Option<Vec<Value>>,
}

/// What a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Truth,
    WholeNumber,
    Number,
    Text,
    WholeNumberOrText,
    List,
    Map,
}

impl Takes {
    /// As a message says it.
    pub(super) fn said(self) -> &'static str {
        match self {
            Self::Truth => "true or false",
            Self::WholeNumber => "a whole number",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::WholeNumberOrText => "a whole number or a text",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

/// One schema, with the words of it that are understood. All others narrow what is taken, and are the API server's to judge.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Schema<'d> {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "type")]
    type_: Option<Value>,
    format: Option<Value>,
    #[serde(borrow)]
    properties: BTreeMap<String, &'d RawValue>,
    #[serde(borrow)]
    additional_properties: Option<&'d RawValue>,
    #[serde(borrow)]
    items: Option<&'d RawValue>,
    #[serde(borrow)]
    all_of: Vec<&'d RawValue>,
    #[serde(borrow)]
    one_of: Option<&'d RawValue>,
    #[serde(borrow)]
    any_of: Option<&'d RawValue>,
    #[serde(borrow)]
    not: Option<&'d RawValue>,
    #[serde(rename = "enum")]
    values: Option<Vec<Value>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    keeps_unknown: Option<Value>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    is_embedded: Option<Value>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    is_int_or_string: Option<Value>,
}

/// A definition, as far as it says for which kinds it is.
#[derive(Deserialize)]
struct Named {
    #[serde(rename = "x-kubernetes-group-version-kind", default)]
    kinds: Vec<Gvk>,
}

#[derive(Deserialize)]
struct Gvk {
    group: String,
    version: String,
    kind: String,
}

impl<'d> Published<'d> {
    /// Reads the text of `components` of such a document; `None` where it is none.
    pub(super) fn read(components: &'d str) -> Option<Self> {
        serde_json::from_str(components).ok()
    }

    /// The schema of a kind.
    pub(super) fn of(&self, kind: &InstanceKind) -> Option<&'d RawValue> {
        let is_it = |schema: &&&RawValue| {
            // Most are of no kind, or of others; that is found sooner than read.
            if !schema.get().contains(&*kind.kind) {
                return false;
            }
            let named = serde_json::from_str::<Named>(schema.get()).ok();
            named.into_iter().flat_map(|named| named.kinds).any(|one| {
                one.group == kind.group() && one.version == kind.version() && *one.kind == *kind.kind
            })
        };
        self.schemas.values().find(is_it).copied()
    }

    /// What these schemas say together; everything is open where they are too large, go on too far, or are not understood.
    pub(super) fn level(&self, schemas: &[&'d RawValue], room: &mut Room) -> Level<'d> {
        self.read_all(schemas, room).unwrap_or_else(Level::open)
    }

    fn read_all(&self, schemas: &[&'d RawValue], room: &mut Room) -> Option<Level<'d>> {
        let (mut level, mut left) = (Level::default(), schemas.to_vec());
        level.is_open = schemas.is_empty();
        let (mut parts, mut has_fields) = (0, false);
        while let Some(schema) = left.pop() {
            parts += 1;
            let bytes = schema.get().len();
            room.0 = room.0.checked_sub(bytes.max(AT_LEAST))?;
            if parts > MOST_PARTS || bytes > LONGEST {
                return None;
            }
            let schema: Schema<'d> = serde_json::from_str(schema.get()).ok()?;
            if let Some(reference) = &schema.reference {
                left.push(self.schemas.get(reference.strip_prefix("#/components/schemas/")?)?);
            }
            left.extend(&schema.all_of);
            has_fields |= !schema.properties.is_empty() || schema.additional_properties.is_some();
            level.take(schema);
        }
        if !has_fields {
            // An object of which nothing is said may hold anything, and some are no object then: a RawExtension.
            level.is_open = true;
            level.takes = level.takes.filter(|takes| *takes != Takes::Map);
        }
        Some(level)
    }
}

impl<'d> Level<'d> {
    fn open() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    fn take(&mut self, schema: Schema<'d>) {
        let is_true =
            |value: &Option<Value>| value.as_ref().is_some_and(|value| *value != Value::Bool(false));
        let has_choice = schema.one_of.is_some() || schema.any_of.is_some() || schema.not.is_some();
        self.is_open |= has_choice || is_true(&schema.keeps_unknown) || is_true(&schema.is_embedded);
        let format = schema.format.as_ref().and_then(Value::as_str);
        let takes = match schema.type_.as_ref().and_then(Value::as_str) {
            _ if is_true(&schema.is_int_or_string) || format == Some("int-or-string") => {
                Some(Takes::WholeNumberOrText)
            }
            Some("array") => Some(Takes::List),
            Some("object") => Some(Takes::Map),
            // Which of them holds is not looked at.
            _ if has_choice => None,
            Some("boolean") => Some(Takes::Truth),
            Some("integer") => Some(Takes::WholeNumber),
            Some("number") => Some(Takes::Number),
            Some("string") => Some(Takes::Text),
            _ => None,
        };
        self.takes = self.takes.or(takes);
        for (name, field) in schema.properties {
            self.fields.entry(name).or_default().push(field);
        }
        match schema.additional_properties.map(RawValue::get) {
            None | Some("false") => {}
            Some("true") => self.is_open = true,
            Some(_) => self.others.extend(schema.additional_properties),
        }
        self.items.extend(schema.items);
        self.values = self.values.take().or(schema.values);
    }
}
