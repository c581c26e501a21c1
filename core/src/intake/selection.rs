//! Selects the objects of a kind that one watch shows: all objects, only copies, or only objects whose
//! annotations declare copies or restarts.

use std::{fmt::Debug, sync::Arc};

use crate::{
    api::DataKind,
    marks,
    model::{DataWatch, OurLabel, SeenBy, UnreadObject, World},
};

/// A selection of the objects of a kind, as a type.
pub trait Selection: Clone + Debug + Send + 'static {
    /// The watch, or the single read, that shows the objects.
    const SEEN_BY: SeenBy;
    /// The label selector of the watch; `None`: all objects.
    const LABELS: Option<&'static str>;
    /// The watch of ConfigMaps or Secrets, in one namespace or in all; `None` if no watch brings the objects.
    fn watch(kind: DataKind, place: Option<&Arc<str>>) -> Option<DataWatch>;

    /// Whether the absence of an object in this selection shows that an unreadable object is gone. A watch by a
    /// label does not show objects of which another watch has noted that they cannot be read.
    fn clears_unreadable(object: &UnreadObject, world: &World) -> bool {
        match (Self::LABELS, object) {
            (Some(_), UnreadObject::Object(key)) => !world.knows(key.kind, &key.namespace),
            _ => true,
        }
    }
}

/// All objects in one namespace; of kinds without a watch for each namespace, all objects.
#[derive(Clone, Debug)]
pub enum Whole {}

impl Selection for Whole {
    const SEEN_BY: SeenBy = SeenBy::Whole;
    const LABELS: Option<&'static str> = None;

    fn watch(kind: DataKind, place: Option<&Arc<str>>) -> Option<DataWatch> {
        Some(place.map_or(DataWatch::All(kind), |place| DataWatch::Namespace(kind, place.clone())))
    }
}

/// All ConfigMaps or all Secrets.
#[derive(Clone, Debug)]
pub enum Everywhere {}

impl Selection for Everywhere {
    const SEEN_BY: SeenBy = SeenBy::Everywhere;
    const LABELS: Option<&'static str> = None;

    fn watch(kind: DataKind, _place: Option<&Arc<str>>) -> Option<DataWatch> {
        Some(DataWatch::All(kind))
    }
}

/// Objects with the labels of copies, and of objects that templates declare.
#[derive(Clone, Debug)]
pub enum OfCopies {}

impl Selection for OfCopies {
    const SEEN_BY: SeenBy = SeenBy::Copies;
    const LABELS: Option<&'static str> = Some(marks::OF_COPIES);

    fn watch(kind: DataKind, _place: Option<&Arc<str>>) -> Option<DataWatch> {
        Some(DataWatch::Labelled(kind, OurLabel::Copy))
    }
}

/// Objects with the label that enables annotations. The watch selects any value of the label, since a wrong
/// value must be reported.
#[derive(Clone, Debug)]
pub enum OfDeclaring {}

impl Selection for OfDeclaring {
    const SEEN_BY: SeenBy = SeenBy::Declaring;
    const LABELS: Option<&'static str> = Some(marks::DECLARES);

    fn watch(kind: DataKind, _place: Option<&Arc<str>>) -> Option<DataWatch> {
        Some(DataWatch::Labelled(kind, OurLabel::Declares))
    }
}

/// One object in the way of a copy, which the reconciler has read once.
#[derive(Clone, Debug)]
pub enum Asked {}

impl Selection for Asked {
    const SEEN_BY: SeenBy = SeenBy::Asked;
    const LABELS: Option<&'static str> = None;

    fn watch(_kind: DataKind, _place: Option<&Arc<str>>) -> Option<DataWatch> {
        None
    }
}
