//! What of a declared object another one does not have: field by field, and item by item wherever the items of a list are. What the API
//! server writes differently is the same, and what it or others add does not count.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    list_order::OwnedPlace,
    same_value::{is_same, scalar},
};

/// Fields of an object's metadata that a write does not decide.
const NOT_DECLARED: [&str; 7] =
    ["name", "namespace", "uid", "resourceVersion", "ownerReferences", "managedFields", "generation"];
/// How much of the name of a field or item a path quotes, in characters.
const QUOTED: usize = 64;
/// Among how many items of a list one without a key is looked for, if it is not in its own place.
const SEARCHED: usize = 64;

/// A field that differs.
pub(crate) struct Unlike<'v> {
    /// Such as `spec.template.spec.containers[web].image`. It ends with `(order)` where the items of an atomic list are in another order.
    pub(crate) path: String,
    /// What is declared there.
    pub(crate) declared: &'v Value,
    /// What is there: null if nothing is.
    pub(crate) stored: &'v Value,
}

/// The first `most` fields of `declared` that `stored` does not have with these values. The order of a list counts where the
/// managedFields of `stored` say that the list is atomic.
pub(crate) fn unlike<'v>(declared: &'v Value, stored: &'v Value, most: usize) -> Vec<Unlike<'v>> {
    let mut found = Found { unlike: Vec::new(), most };
    found.compare("", OwnedPlace::of_object(declared, stored), (declared, stored));
    found.unlike
}

struct Found<'v> {
    unlike: Vec<Unlike<'v>>,
    most: usize,
}

impl<'v> Found<'v> {
    fn compare(&mut self, path: &str, owned: OwnedPlace<'_>, values: (&'v Value, &'v Value)) {
        if self.unlike.len() == self.most {
            return;
        }
        match values {
            (Value::Object(declared), Value::Object(stored)) => {
                let is_declared = |field: &str| path != "metadata" || !NOT_DECLARED.contains(&field);
                for (field, value) in declared.iter().filter(|(field, _)| is_declared(field)) {
                    let stored = stored.get(field).unwrap_or(&Value::Null);
                    self.compare(&inside(path, field), owned.field(field), (value, stored));
                }
            }
            (Value::Array(items), Value::Array(others)) => {
                let before = self.unlike.len();
                self.compare_items(path, owned, (items, others));
                if owned.is_ordered() && self.unlike.len() == before && !is_in_order(items, others) {
                    self.tell(format!("{path} (order)"), values);
                }
            }
            (declared, stored) if is_same(declared, stored) => {}
            _ => self.tell(path.to_owned(), values),
        }
    }

    fn tell(&mut self, path: String, (declared, stored): (&'v Value, &'v Value)) {
        self.unlike.push(Unlike { path, declared, stored });
    }

    /// Wherever the items are. There may be more: others add some. Each item is held against one other, so that the work grows with
    /// the size of the object only.
    fn compare_items(
        &mut self,
        path: &str,
        owned: OwnedPlace<'_>,
        (declared, stored): (&'v [Value], &'v [Value]),
    ) {
        let by_key: HashMap<String, &Value> =
            stored.iter().rev().filter_map(|item| Some((key(item)?, item))).collect();
        for (place, item) in declared.iter().enumerate() {
            if self.unlike.len() == self.most {
                return;
            }
            let (own, opposite) = (key(item), stored.get(place));
            let is_opposite = |it: &&Value| is_same(item, it) || own.is_some() && key(it) == own;
            let other = opposite.filter(is_opposite).or_else(|| match &own {
                Some(own) => by_key.get(own).copied(),
                None => stored.iter().take(SEARCHED).find(|it| *it == item).or(opposite),
            });
            let other = other.unwrap_or(&Value::Null);
            self.compare(&of_item(path, item, place), owned.item(other), (item, other));
        }
    }
}

/// The path of an item. Paths quote names and ports, and no other value.
pub(crate) fn of_item(path: &str, item: &Value, place: usize) -> String {
    let name = item.as_object().and_then(name).unwrap_or_else(|| place.to_string());
    format!("{path}[{}]", quoted(&name))
}

/// Whether the items come one after the other, with others between them or not. Lists within them are not asked for their order here,
/// so that lists in lists do not take longer with each level.
fn is_in_order(declared: &[Value], stored: &[Value]) -> bool {
    let mut left = stored.iter();
    declared.iter().all(|item| {
        left.any(|it| {
            let mut found = Found { unlike: Vec::new(), most: 1 };
            found.compare("[]", OwnedPlace::Unknown, (item, it));
            found.unlike.is_empty()
        })
    })
}

/// The path of a field.
pub(crate) fn inside(path: &str, field: &str) -> String {
    let field = quoted(field);
    if path.is_empty() { field } else { format!("{path}.{field}") }
}

fn quoted(name: &str) -> String {
    name.chars().take(QUOTED).collect()
}

/// What tells an item from others of its list, as in the lists that Kubernetes merges; a scalar does so itself.
fn key(item: &Value) -> Option<String> {
    match item {
        Value::Object(fields) => name(fields).or_else(|| {
            let parts = ["topologyKey", "whenUnsatisfiable", "key", "effect", "value", "ip"];
            let found: Vec<String> = parts.iter().filter_map(|field| scalar(fields.get(*field)?)).collect();
            (!found.is_empty()).then(|| found.join(" "))
        }),
        item => scalar(item),
    }
}

/// The name of an item: where it is mounted, its port with the protocol, or what it calls itself.
fn name(item: &Map<String, Value>) -> Option<String> {
    let field = |name: &str| scalar(item.get(name)?);
    let protocol =
        || field("protocol").filter(|it| it != "TCP").map_or_else(String::new, |it| format!("/{it}"));
    let port = || Some(field("containerPort").or_else(|| field("port"))? + &protocol());
    field("mountPath").or_else(|| field("devicePath")).or_else(port).or_else(|| field("name"))
}
