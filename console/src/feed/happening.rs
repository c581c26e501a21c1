//! One entry of the feed, from an Event of Copyrator.

use copyrator_cli::arguments::{Named, Sort};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use schemars::JsonSchema;
use serde::Serialize;

use crate::marks::write_time;

/// What Copyrator has done, or could not do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Happening {
    /// The UID of the Event. What has happened again comes again with the same one, and a higher count.
    pub id: String,
    /// When it happened, for the last time.
    pub at: String,
    /// Whether somebody should look.
    pub warning: bool,
    pub reason: String,
    pub message: String,
    pub count: i32,
    /// What it is about.
    pub about: Thing,
    /// What else has a part in it, such as the copy of a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<Thing>,
}

/// An object that an Event names, by kind, namespace and name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thing {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The path of its page in this console, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

impl Happening {
    /// Converts an Event.
    pub(super) fn of(event: &Event) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            id: text(&event.metadata.uid),
            at: at(event).map(write_time).unwrap_or_default(),
            warning: event.type_.as_deref() == Some("Warning"),
            reason: text(&event.reason),
            message: text(&event.message),
            count: event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1),
            about: Thing::of(&event.involved_object),
            related: event.related.as_ref().map(Thing::of),
        }
    }
}

impl Thing {
    fn of(reference: &ObjectReference) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (kind, namespace, name) =
            (part(&reference.kind), part(&reference.namespace), part(&reference.name));
        let has_page = !namespace.is_empty()
            && format!("{kind}/{name}").parse::<Named>().is_ok_and(|named| named.sort != Sort::Further);
        let page = has_page.then(|| format!("/object/{}/{namespace}/{name}", kind.to_lowercase()));
        Self { kind, namespace, name, page }
    }

    /// The object in words, such as `Deployment shop/web`.
    pub(crate) fn said(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// When an Event happened last, as exactly as the Event has it.
pub(super) fn at(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let exact = series.or(event.event_time.as_ref()).map(|time| time.0);
    exact.or(event.last_timestamp.as_ref().map(|time| time.0))
}
