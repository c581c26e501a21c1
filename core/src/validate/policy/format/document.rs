//! Structured text: JSON, YAML and TOML, with bounds on depth, expansion and size. Faults have a position and
//! never quote the text. The parsers' messages are dropped, since the messages may quote the text.

use serde::de::{DeserializeOwned, DeserializeSeed as _};
use serde_json::Value;

use super::{
    toml_text,
    tree::{KEY_OF_PARTS, KEY_TWICE, Room, Tree, TreeSeed, Trees},
    walk::Walked,
};
use crate::{
    api::Format,
    validate::policy::{Position, fault::Fault},
};

/// The formats of values that have a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::validate::policy) enum Document {
    Json,
    Yaml,
    Toml,
}

impl Document {
    /// Returns the structure of a format; `None` for a format whose values are plain text.
    pub(in crate::validate::policy) fn of(format: Format) -> Option<Self> {
        match format {
            Format::Json => Some(Self::Json),
            Format::Yaml => Some(Self::Yaml),
            Format::Toml => Some(Self::Toml),
            Format::Properties
            | Format::Url
            | Format::Integer
            | Format::Boolean
            | Format::Regex
            | Format::PemCertificate
            | Format::PemKey
            | Format::TlsPair
            | Format::Dockerconfigjson => None,
        }
    }
}

/// Accepts a text that is a document in this format.
pub(super) fn check(format: Document, text: &str) -> Result<(), Fault> {
    match format {
        Document::Json => serde_json::from_str::<Walked>(text).map(|_| ()).map_err(json_fault),
        Document::Toml => toml_text::read(text).map(|_| ()),
        Document::Yaml => yaml::<Walked, Nothing>(text, yaml_budget()).map(|_| ()),
    }
}

/// Reads the documents of a text: one document, or in YAML maybe several.
pub(in crate::validate::policy) fn read(format: Document, text: &str) -> Result<Vec<Value>, Fault> {
    let room = Room::default();
    let read = match format {
        Document::Json => {
            let mut reader = serde_json::Deserializer::from_str(text);
            let tree = TreeSeed(&room).deserialize(&mut reader);
            tree.and_then(|value| reader.end().map(|()| vec![value])).map_err(json_fault)
        }
        Document::Toml => toml_text::read(text).and_then(|table| Ok(vec![toml_text::tree(table, &room)?])),
        // An empty text is one document, `null`.
        Document::Yaml => {
            yaml::<Tree, Trees>(text, small_yaml_budget()).and_then(|all| match all.documents.is_empty() {
                _ if all.room.is_exhausted() => Err(Room::fault()),
                true => Ok(vec![Value::Null]),
                false => Ok(all.documents),
            })
        }
    };
    read.map_err(|fault| if room.is_exhausted() { Room::fault() } else { fault })
}

fn json_fault(error: serde_json::Error) -> Fault {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "is incomplete JSON",
        serde_json::error::Category::Data => "has a duplicate key",
        _ => "is not valid JSON, or nests more than 128 levels deep",
    };
    let place = Position { line: error.line() as u64, column: error.column() as u64 };
    Fault { place: Some(place), ..Fault::new(what, "correct the document there") }
}

/// A collection that drops each document after reading it.
#[derive(Default)]
struct Nothing;

impl Extend<Walked> for Nothing {
    fn extend<I: IntoIterator<Item = Walked>>(&mut self, all: I) {
        all.into_iter().for_each(drop);
    }
}

fn yaml<T, All>(text: &str, budget: Option<serde_saphyr::Budget>) -> Result<All, Fault>
where
    T: DeserializeOwned,
    All: Default + Extend<T>,
{
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: budget,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    serde_saphyr::from_str_multiple_with_options::<T, All>(text, options).map_err(|error| Fault {
        place: error.location().map(|at| Position { line: at.line(), column: at.column() }),
        ..Fault::new(yaml_fault(error.without_snippet()), "correct the document there")
    })
}

/// Describes the fault without quoting the text.
fn yaml_fault(error: &serde_saphyr::Error) -> &'static str {
    use serde_saphyr::Error;
    match error {
        Error::DuplicateMappingKey { .. } => "has a duplicate key",
        Error::Message { msg, .. } if msg.contains(KEY_TWICE) => "has a duplicate key",
        Error::Message { msg, .. } if msg.contains(KEY_OF_PARTS) => {
            "has a map or list as a key, for example {{ … }} from an unrendered template"
        }
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => "exceeds the limits of nesting or alias expansion",
        _ => "is not valid YAML",
    }
}

fn yaml_budget() -> Option<serde_saphyr::Budget> {
    serde_saphyr::budget! {
        max_depth: 64,
        max_aliases: 1_000,
        max_anchors: 1_000,
        max_total_scalar_bytes: 16 << 20,
        max_recorded_anchor_bytes: 4 << 20,
        max_recorded_anchor_events: 100_000,
    }
}

/// The budget for documents that are kept in memory.
fn small_yaml_budget() -> Option<serde_saphyr::Budget> {
    serde_saphyr::budget! {
        max_depth: 64,
        max_aliases: 1_000,
        max_anchors: 1_000,
        max_total_scalar_bytes: 16 << 20,
        max_recorded_anchor_bytes: 4 << 20,
        max_recorded_anchor_events: 100_000,
        max_nodes: 150_000,
        max_documents: 64,
    }
}
