//! The objects of a template that appear and disappear when labels of their namespace change, although the
//! template is rendered for the namespace before and after: `includeWhen` and names may read labels.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{CompiledObject, CompiledTemplate, Instance, RenderBudget, node::Formula};

/// An object of a template that a change of its namespace's labels affects.
#[derive(Debug)]
pub struct Relabelled<'t> {
    /// The object.
    pub object: &'t CompiledObject,
    /// Whether the object appears, maybe under a new name.
    pub comes: bool,
    /// Whether the template no longer declares an object that existed.
    pub goes: bool,
    /// Whether the namespace alone decides that the object appears or disappears. If not, the object may stay
    /// unchanged.
    pub is_sure: bool,
}

/// How many labels a namespace may have for expressions to be evaluated.
const MOST_LABELS: usize = 64;
/// How many objects of templates are evaluated for one change.
const MOST_EVALUATED: usize = 64;

/// A change of a namespace's labels. A review waits for the evaluation, so the cost of the evaluation has a
/// fixed bound, whatever the namespace and the templates contain.
#[derive(Default)]
pub struct LabelChange {
    changed: BTreeSet<String>,
    /// The Namespace before and after the change; `None` for a Namespace with too many labels for expressions
    /// to be evaluated.
    namespaces: Option<[Value; 2]>,
    /// How many objects of templates may still be evaluated.
    evaluations: usize,
    budget: RenderBudget,
}

impl LabelChange {
    /// The change from old labels to new labels; `namespaces` gives the Namespace with the old and the new
    /// labels.
    pub fn of(
        before: &BTreeMap<String, String>,
        after: &BTreeMap<String, String>,
        namespaces: impl FnOnce() -> [Value; 2],
    ) -> Self {
        let is_changed = |key: &&String| before.get(*key) != after.get(*key);
        let changed: BTreeSet<String> =
            before.keys().chain(after.keys()).filter(is_changed).cloned().collect();
        let is_small = !changed.is_empty() && before.len().max(after.len()) <= MOST_LABELS;
        let namespaces = is_small.then(namespaces);
        Self { changed, namespaces, evaluations: MOST_EVALUATED, budget: RenderBudget::default() }
    }

    /// Whether this label changes; `None` means any label.
    fn has(&self, key: Option<&str>) -> bool {
        key.map_or(!self.changed.is_empty(), |key| self.changed.contains(key))
    }
}

/// Whether and under which name a template declares an object, as far as the namespace decides it.
#[derive(PartialEq)]
enum Presence {
    /// The template declares the object under this name.
    Named(String),
    /// `includeWhen` is false.
    Absent,
    /// An expression has no value, so Copyrator does not change the object.
    Faulty,
    /// Expressions read more than the namespace, or cost too much to be evaluated for a warning.
    Unknown,
}

impl CompiledObject {
    /// Returns the expressions that decide whether the object exists, and under which name.
    fn deciding(&self) -> impl Iterator<Item = &Formula> {
        self.include.iter().chain(self.name.formulas())
    }
}

impl CompiledTemplate {
    /// Whether labels of the namespace decide if the object with this id exists, or under which name. `false`
    /// for an object that depends on pods as well.
    pub fn follows_labels(&self, id: &str) -> bool {
        let reads_pods =
            |formula: &Formula| self.objects.iter().any(|object| formula.expression.reads(&object.pods));
        let Some(object) = self.objects.iter().find(|object| object.id == id) else { return false };
        object.deciding().any(|formula| reads_label(formula, |_| true)) && !object.deciding().any(reads_pods)
    }

    /// Returns the ids of the objects that the object with this id reads. If a read object is excluded, the
    /// reading object is excluded, too.
    pub fn read_by(&self, id: &str) -> impl Iterator<Item = &str> {
        let reader = self.objects.iter().find(|object| object.id == id);
        let formulas: Vec<&Formula> = reader.into_iter().flat_map(CompiledObject::formulas).collect();
        let is_read = move |one: &&CompiledObject| formulas.iter().any(|formula| one.is_read_by(formula));
        self.objects.iter().filter(is_read).map(|one| one.id.as_str())
    }

    /// The objects that appear or disappear when labels of a namespace change.
    pub fn relabelled(&self, change: &mut LabelChange) -> Vec<Relabelled<'_>> {
        let mut all: Vec<Relabelled<'_>> = Vec::new();
        // Each object comes after the objects that it reads.
        for object in &self.objects {
            let is_read =
                |one: &&Relabelled<'_>| object.formulas().any(|formula| one.object.is_read_by(formula));
            let read: Vec<&Relabelled<'_>> = all.iter().filter(is_read).collect();
            let (comes, goes, is_sure) = if !read.is_empty() {
                (read.iter().any(|one| one.comes), read.iter().any(|one| one.goes), false)
            } else if object.deciding().any(|formula| reads_label(formula, |key| change.has(key))) {
                let [was, is] = self.presences(object, change);
                turn(&was, &is)
            } else {
                continue;
            };
            if comes || goes {
                all.push(Relabelled { object, comes, goes, is_sure });
            }
        }
        all
    }

    /// The object as the template declares it before and after the change.
    fn presences(&self, object: &CompiledObject, change: &mut LabelChange) -> [Presence; 2] {
        let unknown = [Presence::Unknown, Presence::Unknown];
        let Some(left) = change.evaluations.checked_sub(1) else { return unknown };
        change.evaluations = left;
        let LabelChange { namespaces: Some(namespaces), budget, .. } = change else { return unknown };
        namespaces.each_ref().map(|namespace| self.presence(object, namespace, budget))
    }

    fn presence(&self, object: &CompiledObject, namespace: &Value, budget: &mut RenderBudget) -> Presence {
        let is_decided = |formula: &&Formula| {
            formula.expression.paths().iter().all(|path| path.variable == "namespaceObject")
        };
        let names: Vec<&Formula> = object.name.formulas();
        let of_name = names.iter().any(|formula| reads_label(formula, |_| true));
        let deciding: Vec<&Formula> =
            object.include.iter().chain(names.into_iter().filter(|_| of_name)).collect();
        if !deciding.iter().all(is_decided) {
            return Presence::Unknown;
        }
        let instance = Instance { namespace: Some(namespace), ..Instance::default() };
        let mut renderer = self.renderer(&deciding, &instance, &mut budget.0);
        let included = object.include.as_ref().map_or(Ok(true), |include| renderer.truth(include));
        let name = match included {
            Ok(false) => return Presence::Absent,
            Ok(true) if of_name => renderer.node("metadata.name", &object.name),
            Ok(true) => Ok(Value::Null),
            Err(fault) => Err(fault),
        };
        match name {
            Ok(name) => Presence::Named(name.as_str().unwrap_or_default().to_owned()),
            Err(_) if budget.0.is_exhausted() => Presence::Unknown,
            Err(_) => Presence::Faulty,
        }
    }
}

/// Returns whether the object appears, whether it disappears, and whether that is certain.
fn turn(before: &Presence, after: &Presence) -> (bool, bool, bool) {
    use Presence::{Absent, Faulty, Named, Unknown};
    match (before, after) {
        (_, Faulty) => (false, false, false),
        (Unknown, Unknown) => (true, true, false),
        _ if before == after => (false, false, true),
        // Copyrator has kept the object that it made before the expression lost its value.
        (Faulty, _) => (*after != Absent, *after == Absent, false),
        (Absent | Named(_), Absent | Named(_)) => (*after != Absent, *before != Absent, true),
        (Unknown, _) | (_, Unknown) => (*after != Absent, *before != Absent, false),
    }
}

/// Whether an expression reads a label of the namespace that `is_such` accepts; `None` means all labels.
fn reads_label(formula: &Formula, is_such: impl Fn(Option<&str>) -> bool) -> bool {
    let paths = formula.expression.paths().iter().filter(|path| path.variable == "namespaceObject");
    let of_labels = |steps: &[String]| steps.iter().zip(["metadata", "labels"]).all(|(step, of)| step == of);
    paths.filter(|path| of_labels(&path.steps)).any(|path| is_such(path.steps.get(2).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the objects of a template that a change of these labels affects: each with `+` if the object
    /// appears, `-` if it disappears, and `?` if the effect is uncertain.
    fn concerned(objects: &[(&str, &str, &str)], before: &Value, after: &Value) -> String {
        let object = |(id, name, when): &(&str, &str, &str)| {
            let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let mut object = json!({"id": id, "template": template});
            if !when.is_empty() {
                object["includeWhen"] = json!(when);
            }
            object
        };
        let objects: Vec<Value> = objects.iter().map(object).collect();
        let each = json!({"objects": {"apiVersion": "a.b/v1", "kind": "WebApp"}});
        let spec = serde_json::from_value(json!({"forEach": each, "objects": objects})).unwrap();
        let template = CompiledTemplate::compile(&spec).unwrap();
        let namespace = |labels: &Value| json!({"metadata": {"name": "shop", "labels": labels}});
        let labels = |labels: &Value| serde_json::from_value(labels.clone()).unwrap();
        let both = || [namespace(before), namespace(after)];
        let mut change = LabelChange::of(&labels(before), &labels(after), both);
        let all = template.relabelled(&mut change);
        let one = |one: &Relabelled<'_>| {
            let mark = |is: bool, mark| if is { mark } else { "" };
            format!(
                "{}{}{}{}",
                one.object.id,
                mark(one.comes, "+"),
                mark(one.goes, "-"),
                mark(!one.is_sure, "?")
            )
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_reads_a_changed_label_appears_or_goes() {
        let pods = ("a", "a", "'pods' in namespaceObject.metadata.labels");
        let has = "has(namespaceObject.metadata.labels.pods)";
        let (none, yes, other) = (json!({}), json!({"pods": "yes"}), json!({"other": "yes"}));
        for (objects, before, after, expected) in [
            (&[pods][..], &none, &yes, "a+"),
            (&[pods], &yes, &none, "a-"),
            (&[pods], &none, &other, ""),
            (&[pods], &yes, &yes, ""),
            // If an expression has no value, Copyrator does not change the object.
            (&[("a", "a", "namespaceObject.metadata.labels.pods == 'yes'")], &yes, &none, ""),
            (&[("a", "a", "namespaceObject.metadata.labels.pods == 'yes'")], &none, &yes, "a+?"),
            (&[("a", "a-${namespaceObject.metadata.labels.?pods.orValue('no')}", "")], &none, &yes, "a+-"),
            (&[("a", "${object.metadata.name}", has)], &none, &yes, "a+"),
            (
                &[("a", "${object.metadata.name}-${namespaceObject.metadata.labels.pods}", "")],
                &none,
                &yes,
                "a+-?",
            ),
            (
                &[("a", "a", "object.spec.size > 1 && 'pods' in namespaceObject.metadata.labels")],
                &none,
                &yes,
                "a+-?",
            ),
            // An object that reads an excluded object is excluded, too.
            (&[pods, ("b", "b-${a.metadata.uid}", "")], &yes, &none, "a- b-?"),
            (&[("a", "a", "object.spec.size > 1"), ("b", "b", "")], &yes, &none, ""),
        ] {
            assert_eq!(concerned(objects, before, after), expected, "{objects:?}");
        }
        // Expressions are not evaluated for a namespace with many labels.
        let many: serde_json::Map<_, _> = (0..65).map(|at| (format!("l{at}"), json!("x"))).collect();
        assert_eq!(
            concerned(&[("a", "a", "'l1' in namespaceObject.metadata.labels")], &json!({}), &many.into()),
            "a+-?"
        );
    }
}
