//! Compiles the spec of a `CopyratorTemplate`, and renders its objects.

mod literal;
mod manifest;
mod node;
mod object;
mod order;
mod references;
mod relabelled;
mod render;
mod select;
mod served;
#[cfg(test)]
mod tests;
mod text;
mod visible;
mod written;

use std::{collections::BTreeSet, fmt::Display, time::Duration};

use copyrator_cel::{Environment, Type};
pub use object::{CompiledObject, keeps_data, own_deletion};
pub use relabelled::{LabelChange, Relabelled};
pub use render::{Instance, RenderBudget, RenderFault, Rendered, Rendering};
use serde_json::Value;
pub use served::{declared_kind, unserved, written_kind};
pub use visible::visible;
pub use written::WrittenField;

use self::{
    literal::FieldContext,
    node::{Compiler, Node},
    object::pods_of,
};
use super::{CompiledTarget, Globs, Selector, check_name, invalid, template_kinds};
use crate::{
    api::{ConflictPolicy, CopyratorTemplateSpec, DeletionPolicy, InstanceSpec, Problem, Span},
    names::{InstanceKind, NameKind},
};

/// The maximum number of objects in a template.
const MOST_OBJECTS: usize = 32;
/// The maximum size of a spec, in bytes of JSON. The compiled spec is several times as large in memory.
const MOST_BYTES: usize = 256 << 10;
/// The maximum number of problems that are reported.
const MOST_PROBLEMS: usize = 20;
/// The shortest interval at which a template is rendered again without a change.
const SHORTEST_RESYNC: Duration = Duration::from_secs(10);

/// The compiled spec of a `CopyratorTemplate`.
#[derive(Debug)]
pub struct CompiledTemplate {
    /// The namespaces or objects that the template is rendered for.
    pub instances: Instances,
    /// The objects, each after the objects that it reads.
    pub objects: Vec<CompiledObject>,
    /// The policy for an object that has the name of a rendered object and that Copyrator does not own.
    pub conflict: ConflictPolicy,
    /// What happens to an object that is no longer wanted.
    pub deletion: DeletionPolicy,
    /// How long an object that is no longer wanted is kept; `None`: the operator's default.
    pub grace: Option<Duration>,
    /// How often to render again; `None`: only after a change.
    pub resync: Option<Duration>,
    /// The ServiceAccount to act with; `None`: the author.
    pub service_account: Option<String>,
    /// Whether the template is suspended: Copyrator writes and deletes no object for the template.
    pub suspend: bool,
    /// Whether an expression reads the annotations of the namespace.
    pub reads_annotations: bool,
    /// Whether an expression reads more of the namespace than its name.
    pub reads_namespace: bool,
    /// The paths that expressions read of the instance.
    reads_object: BTreeSet<Vec<String>>,
    /// The variables that expressions read: ids of objects and names of [`pods_of`] among them.
    ///
    /// [`pods_of`]: object::pods_of
    read_variables: BTreeSet<String>,
    status: Option<Node>,
    environment: Environment,
}

/// The namespaces or objects that a template is rendered for.
#[derive(Debug)]
pub enum Instances {
    /// Each namespace that a term selects, except the excluded namespaces.
    Namespaces {
        /// The terms, of which one must match.
        terms: Vec<CompiledTarget>,
        /// Namespaces that are left out.
        exclude: Globs,
    },
    /// Each object of a kind.
    Objects {
        /// The kind of the objects.
        kind: InstanceKind,
        /// The terms for the objects' namespaces, of which one must match; empty: the template's own
        /// namespace.
        namespaces: Vec<CompiledTarget>,
        /// Names and globs; `None`: any.
        names: Option<Globs>,
        /// A selector of the objects' labels; `None`: any.
        selector: Option<Selector>,
    },
}

impl CompiledTemplate {
    /// Compiles a spec.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile(spec: &CopyratorTemplateSpec) -> Result<Self, Vec<Problem>> {
        Self::compile_in(spec, manifest_in_spec)
    }

    /// Like [`Self::compile`]. `manifest_at` gives the path of an object's manifest by the object's index.
    fn compile_in(
        spec: &CopyratorTemplateSpec,
        manifest_at: impl Fn(usize) -> String,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if spec.objects.len() > MOST_OBJECTS {
            let what = format!("has {} entries, more than the maximum of {MOST_OBJECTS}", spec.objects.len());
            return Err(vec![invalid("spec.objects", what)]);
        }
        let bytes = serde_json::to_string(spec).map_or(0, |text| text.len());
        if bytes > MOST_BYTES {
            let what = format!(
                "has {} KiB, more than the maximum of {}: split the template",
                bytes >> 10,
                MOST_BYTES >> 10
            );
            return Err(vec![invalid("spec", what)]);
        }
        let instances = instances(spec, &mut problems);
        let environment = Environment::new(variables(spec));
        let mut compiler = Compiler::new(&environment, &mut problems);
        if spec.objects.is_empty() {
            compiler.problems.push(invalid("spec.objects", "needs at least one entry"));
        }
        let for_objects = spec.for_each.objects.is_some();
        let objects = spec.objects.iter().enumerate();
        let mut objects: Vec<CompiledObject> = objects
            .map(|(index, one)| {
                let at = format!("spec.objects[{index}]");
                CompiledObject::compile(&at, &manifest_at(index), one, for_objects, &mut compiler)
            })
            .collect();
        let status = status(spec, &environment, &mut problems);
        references::ids(&objects, &mut problems);
        let all = objects.iter().flat_map(CompiledObject::formulas);
        references::pods(&objects, all.chain(status.iter().flat_map(Node::formulas)), &mut problems);
        references::sort(&mut objects, &mut problems);
        references::feedback(spec, &objects, status.as_ref(), &mut problems);
        references::takeovers(spec, &objects, &mut problems);
        if let Some(account) = &spec.service_account_name {
            check_name("spec.serviceAccountName", account, NameKind::Object, &mut problems);
        }
        let grace = span("spec.deletionGrace", spec.deletion_grace.as_ref(), &mut problems);
        let resync = span("spec.resync", spec.resync.as_ref(), &mut problems);
        if resync.is_some_and(|resync| resync < SHORTEST_RESYNC) {
            let what = format!(
                "is less than {SHORTEST_RESYNC:?}: a change of what expressions read is seen at once"
            );
            problems.push(invalid("spec.resync", what));
        }
        if !problems.is_empty() {
            problems.truncate(MOST_PROBLEMS);
            return Err(problems);
        }
        let all = objects.iter().flat_map(CompiledObject::formulas);
        let all = all.chain(status.iter().flat_map(Node::formulas));
        let (mut reads_annotations, mut reads_namespace) = (false, false);
        let (mut reads_object, mut read_variables) = (BTreeSet::new(), BTreeSet::new());
        for formula in all {
            reads_annotations |= formula.reads_annotations();
            reads_namespace |= formula.reads_namespace();
            reads_object.extend(formula.reads_object());
            read_variables.extend(formula.expression.paths().iter().map(|path| path.variable.clone()));
        }
        Ok(Self {
            instances,
            objects,
            reads_annotations,
            reads_namespace,
            reads_object,
            read_variables,
            conflict: spec.conflict_policy,
            deletion: spec.deletion_policy,
            grace,
            resync,
            service_account: spec.service_account_name.clone(),
            suspend: spec.suspend,
            status,
            environment,
        })
    }
}

/// The path of an object's manifest, by its index or id.
fn manifest_in_spec(object: impl Display) -> String {
    format!("spec.objects[{object}].template")
}

/// Returns the variables of expressions: the namespace, the instance, the other objects, and their pods.
fn variables(spec: &CopyratorTemplateSpec) -> Vec<(String, Type)> {
    let mut variables = vec![("namespaceObject".to_owned(), Type::Map)];
    if spec.for_each.objects.is_some() {
        variables.push(("object".to_owned(), Type::Map));
    }
    let ids: BTreeSet<&String> = spec.objects.iter().map(|object| &object.id).collect();
    for id in ids {
        variables.extend([(id.clone(), Type::Map), (pods_of(id), Type::Any)]);
    }
    variables
}

fn instances(spec: &CopyratorTemplateSpec, problems: &mut Vec<Problem>) -> Instances {
    let for_each = &spec.for_each;
    match (&for_each.namespaces, &for_each.objects) {
        (None, Some(objects)) => {
            if !for_each.exclude_namespaces.is_empty() {
                problems
                    .push(invalid("spec.forEach.excludeNamespaces", "is taken with forEach.namespaces only"));
            }
            of_kind(objects, problems)
        }
        (terms, objects) => {
            if terms.is_some() == objects.is_some() {
                problems.push(invalid("spec.forEach", "needs either namespaces or objects"));
            }
            if terms.as_ref().is_some_and(Vec::is_empty) {
                problems.push(invalid("spec.forEach.namespaces", "needs at least one entry"));
            }
            let terms = terms.as_deref().unwrap_or_default();
            Instances::Namespaces {
                terms: CompiledTarget::compile("spec.forEach.namespaces", terms, problems),
                exclude: Globs::compile(
                    "spec.forEach.excludeNamespaces",
                    &for_each.exclude_namespaces,
                    NameKind::Namespace,
                    problems,
                ),
            }
        }
    }
}

fn of_kind(spec: &InstanceSpec, problems: &mut Vec<Problem>) -> Instances {
    let at = "spec.forEach.objects";
    let InstanceSpec { api_version, kind, namespaces, names, object_selector } = spec;
    let is_refused =
        template_kinds::never_instances(api_version, kind).or_else(|| manifest::kind_fault(kind));
    problems.extend(is_refused.map(|why| invalid(&format!("{at}.kind"), why)));
    problems
        .extend(manifest::version_fault(api_version).map(|why| invalid(&format!("{at}.apiVersion"), why)));
    Instances::Objects {
        kind: InstanceKind::new(api_version.as_str(), kind.as_str()),
        namespaces: CompiledTarget::compile(&format!("{at}.namespaces"), namespaces, problems),
        names: names
            .as_ref()
            .map(|names| Globs::compile(&format!("{at}.names"), names, NameKind::Object, problems)),
        selector: object_selector
            .as_ref()
            .map(|selector| Selector::compile(&format!("{at}.objectSelector"), selector, problems)),
    }
}

fn status(
    spec: &CopyratorTemplateSpec,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<Node> {
    let fields = spec.write_status.as_ref()?;
    if spec.for_each.objects.is_none() {
        problems.push(invalid("spec.writeStatus", "is taken with forEach.objects only"));
    }
    let fields: Value = fields.clone().into_iter().collect();
    // A status grants no rights, so expressions may set the whole status.
    Some(Compiler::new(environment, problems).node("spec.writeStatus", &fields, FieldContext::Free))
}

fn span(at: &str, span: Option<&Span>, problems: &mut Vec<Problem>) -> Option<Duration> {
    span?.get().map_err(|error| problems.push(invalid(at, error))).ok()
}
