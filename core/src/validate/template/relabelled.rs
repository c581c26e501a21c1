//! Which objects of a template appear and go when labels of their namespace change, although the template is rendered for the namespace
//! before and after: `includeWhen` and names may read labels.

use serde_json::Value;

use super::{CompiledObject, CompiledTemplate, Instance, RenderBudget, node::Formula};

/// An object of a template that new labels of its namespace concern.
#[derive(Debug)]
pub struct Relabelled<'t> {
    /// The object.
    pub object: &'t CompiledObject,
    /// Whether it appears, maybe under another name.
    pub comes: bool,
    /// Whether an object that was there is no longer declared.
    pub goes: bool,
    /// Whether the namespace alone decides this. Otherwise it may stay as it is.
    pub is_sure: bool,
}

/// What a template declares of one of its objects, as far as the namespace decides it.
#[derive(PartialEq)]
enum Presence {
    /// It has this name.
    Named(String),
    /// `includeWhen` is false.
    Absent,
    /// An expression has no value: nothing is changed.
    Faulty,
    /// Expressions read more than the namespace, or cost too much to be evaluated here.
    Unknown,
}

impl CompiledObject {
    /// The expressions that decide if it is there, and under which name.
    fn deciding(&self) -> impl Iterator<Item = &Formula> {
        self.include.iter().chain(self.name.formulas())
    }
}

impl CompiledTemplate {
    /// Whether labels of the namespace decide if the object of this id is there, or under which name. An object that depends on pods as
    /// well does not count.
    pub fn follows_labels(&self, id: &str) -> bool {
        let reads_pods =
            |formula: &Formula| self.objects.iter().any(|object| formula.expression.reads(&object.pods));
        let Some(object) = self.objects.iter().find(|object| object.id == id) else { return false };
        object.deciding().any(|formula| reads_label(formula, |_| true)) && !object.deciding().any(reads_pods)
    }

    /// The ids of the objects that expressions of the object of this id read: where one of them is not wanted, this one is not either.
    pub fn read_by(&self, id: &str) -> impl Iterator<Item = &str> {
        let reader = self.objects.iter().find(|object| object.id == id);
        let formulas: Vec<&Formula> = reader.into_iter().flat_map(CompiledObject::formulas).collect();
        let is_read = move |one: &&CompiledObject| formulas.iter().any(|formula| one.is_read_by(formula));
        self.objects.iter().filter(is_read).map(|one| one.id.as_str())
    }

    /// The objects that appear or go when a Namespace becomes another version of it.
    pub fn relabelled(
        &self,
        before: &Value,
        after: &Value,
        budget: &mut RenderBudget,
    ) -> Vec<Relabelled<'_>> {
        let label = |namespace: &Value, key: &str| namespace["metadata"]["labels"].get(key).cloned();
        let is_changed = |key: Option<&str>| key.is_none_or(|key| label(before, key) != label(after, key));
        let mut all: Vec<Relabelled<'_>> = Vec::new();
        // Each object stands after those that it reads.
        for object in &self.objects {
            let is_read =
                |one: &&Relabelled<'_>| object.formulas().any(|formula| one.object.is_read_by(formula));
            let read: Vec<&Relabelled<'_>> = all.iter().filter(is_read).collect();
            let (comes, goes, is_sure) = if !read.is_empty() {
                (read.iter().any(|one| one.comes), read.iter().any(|one| one.goes), false)
            } else if object.deciding().any(|formula| reads_label(formula, is_changed)) {
                let was = self.presence(object, before, budget);
                change(&was, &self.presence(object, after, budget))
            } else {
                continue;
            };
            if comes || goes {
                all.push(Relabelled { object, comes, goes, is_sure });
            }
        }
        all
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

/// Whether the object appears, whether it goes, and whether that is sure.
fn change(before: &Presence, after: &Presence) -> (bool, bool, bool) {
    use Presence::{Absent, Faulty, Named, Unknown};
    match (before, after) {
        (_, Faulty) => (false, false, false),
        (Unknown, Unknown) => (true, true, false),
        _ if before == after => (false, false, true),
        // What was made before the expression lost its value is kept until then.
        (Faulty, _) => (*after != Absent, *after == Absent, false),
        (Absent | Named(_), Absent | Named(_)) => (*after != Absent, *before != Absent, true),
        (Unknown, _) | (_, Unknown) => (*after != Absent, *before != Absent, false),
    }
}

/// Whether an expression reads such a label of the namespace; `None` stands for all labels.
fn reads_label(formula: &Formula, is_such: impl Fn(Option<&str>) -> bool) -> bool {
    let paths = formula.expression.paths().iter().filter(|path| path.variable == "namespaceObject");
    let of_labels = |steps: &[String]| steps.iter().zip(["metadata", "labels"]).all(|(step, of)| step == of);
    paths.filter(|path| of_labels(&path.steps)).any(|path| is_such(path.steps.get(2).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The objects of a template that these labels concern, each with `+` where it appears, `-` where it goes, and `?` where that is not
    /// sure.
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
        let all = template.relabelled(&namespace(before), &namespace(after), &mut RenderBudget::default());
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
            // An expression without a value changes nothing.
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
            // What reads an object that goes is excluded with it.
            (&[pods, ("b", "b-${a.metadata.uid}", "")], &yes, &none, "a- b-?"),
            (&[("a", "a", "object.spec.size > 1"), ("b", "b", "")], &yes, &none, ""),
        ] {
            assert_eq!(concerned(objects, before, after), expected, "{objects:?}");
        }
        let costly = "namespaceObject.metadata.labels.all(a, namespaceObject.metadata.labels.all(b, a != b || a == b))";
        let many: serde_json::Map<_, _> = (0..4000).map(|at| (format!("l{at}"), json!("x"))).collect();
        assert_eq!(concerned(&[("a", "a", costly)], &json!({}), &many.into()), "a+-?");
    }
}
