//! Holds the text of a template against the schemas that the API server publishes: what it would refuse for every instance is told
//! once. Nothing is a fault that it might take: what is not understood of a schema is not judged, and of an expression only
//! what it gives each time.

use std::collections::{BTreeMap, BTreeSet};

use copyrator_cel::Always;
use serde_json::Value;

use super::{
    CompiledObject, CompiledTemplate, MOST_PROBLEMS,
    node::Node,
    published::{Level, Published, Room, Takes},
};
use crate::{
    api::Problem,
    names::InstanceKind,
    validate::{SpecFault, did_you_mean, printable},
};

/// How much of a name or value a message quotes, in bytes.
const QUOTED: usize = 64;
/// The longest path of a field in a message, in bytes.
const LONGEST_PATH: usize = 512;
/// How many values or fields a message names.
const MOST_NAMED: usize = 8;
/// With how many fields a misspelt one is compared.
const MOST_COMPARED: usize = 1_000;

/// What holding a template against published schemas has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// What the API server would refuse, whatever the template is rendered for.
    pub faults: Vec<Problem>,
    /// The kinds whose schemas are not known.
    pub unjudged: BTreeSet<InstanceKind>,
}

impl CompiledTemplate {
    /// The kinds whose schemas say what the template may hold: those of its objects, and where it writes a status that of what it is
    /// rendered for.
    pub fn typed_kinds(&self) -> BTreeSet<InstanceKind> {
        self.typed().into_iter().map(|(kind, ..)| kind).collect()
    }

    fn typed(&self) -> Vec<(InstanceKind, Part<'_>)> {
        // One that is included nowhere may hold what this API server does not know.
        let objects = self.objects.iter().filter(|object| object.include.is_none()).map(|object| {
            let kind = InstanceKind::new(object.api_version.as_str(), object.kind.as_str());
            (kind, Part::Object(object))
        });
        let status = self.instance_kind().cloned().zip(self.status.as_ref().map(Part::Status));
        objects.chain(status).collect()
    }

    /// Holds the template against the schemas of these groups and versions, each the text of `components` of such a document. It
    /// can take half a second.
    pub fn held_against(&self, components: &BTreeMap<String, impl AsRef<str>>) -> Typed {
        let (mut typed, mut room) = (Typed::default(), Room::default());
        let published = components.iter().map(|(of, text)| (of.as_str(), Published::read(text.as_ref())));
        let published: BTreeMap<&str, Option<Published<'_>>> = published.collect();
        for (kind, part) in self.typed() {
            let known = published.get(&*kind.api_version).and_then(Option::as_ref);
            let Some((published, schema)) = known.and_then(|it| Some((it, it.of(&kind)?))) else {
                typed.unjudged.insert(kind);
                continue;
            };
            let whole = published.level(&[schema], &mut room);
            // What the whole object keeps, its parts may keep as well.
            let names = !whole.is_open;
            let mut judge =
                Judge { kind: &kind, published, room: &mut room, faults: &mut typed.faults, names };
            judge.part(part, whole);
        }
        typed.faults.truncate(MOST_PROBLEMS);
        typed
    }
}

/// A part of a template that has the types of a kind.
enum Part<'n> {
    Object(&'n CompiledObject),
    /// The fields of a status.
    Status(&'n Node),
}

/// What stands at a place of a template.
#[derive(Clone, Copy)]
enum Given<'n> {
    Node(&'n Node),
    Value(&'n Value),
}

/// What is known of such a value before anything is rendered.
enum StaticValue<'n> {
    Literal(&'n Value),
    /// A text with expressions in it.
    Composed,
    /// What one expression gives each time.
    Gives(Always),
    Map(Vec<(&'n str, Given<'n>)>),
    List(Vec<Given<'n>>),
    /// Nothing is known, or it is null, which stands for many things.
    Unknown,
}

impl<'n> Given<'n> {
    /// Whether it is there each time. What is null or an empty optional leaves its field out.
    fn is_certain(self) -> bool {
        match self {
            Self::Value(value) => !value.is_null(),
            Self::Node(Node::Literal(value)) => !value.is_null(),
            Self::Node(Node::Whole(formula, _)) => {
                !["?", "optional", "null"].iter().any(|word| formula.source.contains(word))
            }
            Self::Node(Node::Text(_) | Node::Fields(_) | Node::Items(_)) => true,
        }
    }

    fn static_value(self) -> StaticValue<'n> {
        match self {
            Self::Value(Value::Null) => StaticValue::Unknown,
            Self::Value(Value::Object(fields)) => StaticValue::Map(
                fields.iter().map(|(name, value)| (name.as_str(), Self::Value(value))).collect(),
            ),
            Self::Value(Value::Array(items)) => StaticValue::List(items.iter().map(Self::Value).collect()),
            Self::Value(value) => StaticValue::Literal(value),
            Self::Node(Node::Literal(value)) => Self::Value(value).static_value(),
            Self::Node(Node::Whole(formula, _)) => {
                formula.expression.always().map_or(StaticValue::Unknown, StaticValue::Gives)
            }
            Self::Node(Node::Text(_)) => StaticValue::Composed,
            Self::Node(Node::Fields(fields)) => StaticValue::Map(
                fields.iter().map(|(name, node)| (name.as_str(), Self::Node(node))).collect(),
            ),
            Self::Node(Node::Items(items)) => StaticValue::List(items.iter().map(Self::Node).collect()),
        }
    }
}

struct Judge<'j, 'd> {
    kind: &'j InstanceKind,
    published: &'j Published<'d>,
    room: &'j mut Room,
    faults: &'j mut Vec<Problem>,
    /// Whether names of fields are judged.
    names: bool,
}

impl<'d> Judge<'_, 'd> {
    /// Judges a part of the template; `whole` is what is said of objects of the kind.
    fn part(&mut self, part: Part<'_>, mut whole: Level<'d>) {
        match part {
            Part::Status(node) => {
                let status = whole.fields.remove("status").unwrap_or_default();
                let level = self.published.level(&status, self.room);
                self.judge("spec.writeStatus", Given::Node(node), &level);
            }
            Part::Object(object) => {
                let StaticValue::Map(fields) = Given::Node(&object.body).static_value() else { return };
                // The validator has judged these.
                let is_judged = |name: &str| ["apiVersion", "kind", "metadata"].contains(&name);
                let others = fields.into_iter().filter(|(name, _)| !is_judged(name)).collect();
                self.fields(&format!("spec.objects[{}].template", object.id), others, &whole);
            }
        }
    }

    fn judge(&mut self, at: &str, given: Given<'_>, level: &Level<'d>) {
        if self.faults.len() >= MOST_PROBLEMS {
            return;
        }
        let known = given.static_value();
        if let Some(takes) = level.takes.filter(|takes| !takes.may_be(&known)) {
            let (what, way_out) = (described(&known), way_out(&known, takes));
            return self
                .say(at, &format!("is {what}, and {} takes {} here{way_out}", self.kind, takes.said()));
        }
        match known {
            StaticValue::Map(fields) => self.fields(at, fields, level),
            StaticValue::List(items) => {
                let of_item = self.published.level(&level.items, self.room);
                for (index, item) in items.into_iter().enumerate() {
                    self.judge(&format!("{at}[{index}]"), item, &of_item);
                }
            }
            StaticValue::Literal(value) => self.value(at, value, level),
            StaticValue::Composed | StaticValue::Gives(_) | StaticValue::Unknown => {}
        }
    }

    fn fields(&mut self, at: &str, fields: Vec<(&str, Given<'_>)>, level: &Level<'d>) {
        for (name, given) in fields {
            if self.faults.len() >= MOST_PROBLEMS {
                return;
            }
            let at = format!("{at}.{}", printable(name, QUOTED));
            match level.fields.get(name) {
                Some(schemas) => {
                    let of_field = self.published.level(schemas, self.room);
                    self.judge(&at, given, &of_field);
                }
                None if !level.others.is_empty() => {
                    let of_others = self.published.level(&level.others, self.room);
                    self.judge(&at, given, &of_others);
                }
                None if self.names && !level.is_open && given.is_certain() => {
                    let known = level.fields.keys().map(String::as_str);
                    let meant =
                        did_you_mean(name, known.clone().take(MOST_COMPARED).filter(|it| it.len() <= QUOTED));
                    let meant = if meant.is_empty() { format!("; it has {}", listed(known)) } else { meant };
                    self.say(&at, &format!("is no field that {} has there{meant}", self.kind));
                }
                None => {}
            }
        }
    }

    fn value(&mut self, at: &str, value: &Value, level: &Level<'d>) {
        let Some(values) = level.values.as_ref().filter(|values| !values.contains(value)) else { return };
        // An empty text may stand for a default.
        if *value != Value::String(String::new()) {
            let named: Vec<String> = values.iter().map(quoted).collect();
            let named = listed(named.iter().map(String::as_str));
            self.say(at, &format!("is {}, and {} takes one of {named} here", quoted(value), self.kind));
        }
    }

    fn say(&mut self, at: &str, what: &str) {
        self.faults.push(SpecFault::TypeError.problem(format!("{}: {what}", printable(at, LONGEST_PATH))));
    }
}

impl Takes {
    /// Whether it may take what stands there.
    fn may_be(self, value: &StaticValue<'_>) -> bool {
        let is_whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
        match (self, value) {
            (_, StaticValue::Unknown) => true,
            (Self::Truth, StaticValue::Literal(value)) => value.is_boolean(),
            (Self::Truth, StaticValue::Gives(gives)) => *gives == Always::Truth,
            (Self::WholeNumber, StaticValue::Literal(value)) => is_whole(value),
            (Self::WholeNumberOrText, StaticValue::Literal(value)) => value.is_string() || is_whole(value),
            (Self::Number, StaticValue::Literal(value)) => value.is_number(),
            (Self::Number | Self::WholeNumber, StaticValue::Gives(gives)) => *gives == Always::Number,
            (Self::WholeNumberOrText, StaticValue::Gives(gives)) => {
                [Always::Number, Always::Text].contains(gives)
            }
            (Self::Text, StaticValue::Literal(value)) => value.is_string(),
            (Self::Text, StaticValue::Gives(gives)) => *gives == Always::Text,
            (Self::Text | Self::WholeNumberOrText, StaticValue::Composed) => true,
            (Self::List, StaticValue::List(_)) | (Self::Map, StaticValue::Map(_)) => true,
            (Self::List, StaticValue::Gives(gives)) => *gives == Always::List,
            (Self::Map, StaticValue::Gives(gives)) => *gives == Always::Map,
            _ => false,
        }
    }
}

/// What stands there, for people.
fn described(value: &StaticValue<'_>) -> String {
    match value {
        StaticValue::Literal(value) if value.is_string() => format!("the text {}", quoted(value)),
        StaticValue::Literal(value) => quoted(value),
        StaticValue::Composed => "a text with an expression in it".into(),
        StaticValue::Gives(gives) => format!(
            "an expression that gives {}",
            match gives {
                Always::Truth => "true or false",
                Always::Number => "a number",
                Always::Text => "a text",
                Always::List => "a list",
                Always::Map => "a map",
            }
        ),
        StaticValue::Map(_) => "a map".into(),
        StaticValue::List(_) => "a list".into(),
        StaticValue::Unknown => "not known".into(),
    }
}

/// What to write instead, where that is plain.
fn way_out(value: &StaticValue<'_>, takes: Takes) -> String {
    match (value, takes) {
        (StaticValue::Literal(Value::String(text)), Takes::WholeNumber | Takes::Number)
            if text.parse::<i64>().is_ok() =>
        {
            ": write it without quotes".into()
        }
        (StaticValue::Literal(Value::String(text)), Takes::Truth)
            if ["true", "false"].contains(&text.as_str()) =>
        {
            ": write it without quotes".into()
        }
        (StaticValue::Literal(value), Takes::Text) => {
            format!(": write it in quotes, \"{}\"", printable(value.to_string(), QUOTED))
        }
        (StaticValue::Composed, Takes::WholeNumber | Takes::Number | Takes::Truth) => {
            ": a value that is one expression and nothing else, ${…}, keeps its type".into()
        }
        (StaticValue::Gives(Always::Text), Takes::WholeNumber | Takes::Number) => {
            ": leave out string(…), or use int(…)".into()
        }
        (StaticValue::Gives(Always::Number | Always::Truth), Takes::Text) => {
            ": write string(…) around it".into()
        }
        _ => String::new(),
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", printable(text.as_str(), QUOTED)),
        other => printable(other.to_string(), QUOTED),
    }
}

/// Some of these words.
fn listed<'w>(words: impl Iterator<Item = &'w str> + Clone) -> String {
    let more = words.clone().count().saturating_sub(MOST_NAMED);
    let named: Vec<String> = words.take(MOST_NAMED).map(|word| printable(word, QUOTED)).collect();
    let named = named.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

#[cfg(test)]
mod tests;
