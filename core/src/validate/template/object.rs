//! One object of a template: what its manifest says, and which expressions it holds.

use super::{
    literal::FieldContext,
    manifest,
    node::{Compiler, Formula, Node},
};
use crate::{
    api::{DeletionPolicy, Recreate, TemplateObject},
    validate::{invalid, template_kinds::group},
};

/// One object of a template.
#[derive(Debug)]
pub struct CompiledObject {
    /// The name by which expressions read it.
    pub id: String,
    /// Its group and version.
    pub api_version: String,
    /// The kind of the object, as the template writes it.
    pub kind: String,
    /// Whether it is made anew where no update can change it.
    pub recreate: Recreate,
    /// The object's own `deletionPolicy`; `None`: the template's.
    pub deletion: Option<DeletionPolicy>,
    /// Its name, as the template writes it.
    written_name: String,
    pub(super) include: Option<Formula>,
    pub(super) name: Node,
    pub(super) body: Node,
    /// The variable with its pods.
    pub(super) pods: String,
}

impl CompiledObject {
    /// Compiles one object. `at` is its path in the spec, for problems, and `manifest_at` that of its manifest; `for_objects`
    /// is whether it is rendered for objects.
    pub(super) fn compile(
        (at, manifest_at): (&str, &str),
        spec: &TemplateObject,
        for_objects: bool,
        compiler: &mut Compiler<'_>,
    ) -> Self {
        manifest::check(manifest_at, &spec.template, for_objects, compiler.problems);
        let include = spec
            .include_when
            .as_ref()
            .and_then(|source| compiler.condition(&format!("{at}.includeWhen"), source));
        let text = |field: &str| spec.template[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if spec.recreate == Recreate::OnImmutable && keeps_data(&kind) {
            let why = format!("OnImmutable is not taken for {kind}: its data would go with it");
            compiler.problems.push(invalid(&format!("{at}.recreate"), why));
        }
        // The name is part of the body, which reports what is wrong with it.
        let reported = compiler.problems.len();
        let name = compiler.node(at, &spec.template["metadata"]["name"], FieldContext::Free);
        compiler.problems.truncate(reported);
        Self {
            id: spec.id.clone(),
            api_version,
            kind,
            recreate: spec.recreate,
            deletion: spec.deletion_policy,
            written_name: spec.template["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            pods: pods_of(&spec.id),
            include,
            name,
            body: compiler.object(manifest_at, &spec.template),
        }
    }

    /// The expressions that decide whether and how it is.
    pub(super) fn formulas(&self) -> impl Iterator<Item = &Formula> {
        self.include.iter().chain(self.body.formulas())
    }

    /// What tells the object from the others of an instance, as the template writes it: group, kind and name.
    pub fn written_key(&self) -> String {
        format!("{} {} {}", group(&self.api_version), self.kind, self.written_name)
    }

    /// The expression of `includeWhen`.
    pub fn condition(&self) -> Option<&str> {
        self.include.as_ref().map(|formula| &*formula.source)
    }

    /// Whether an expression reads this object, or its pods.
    pub(super) fn is_read_by(&self, formula: &Formula) -> bool {
        formula.expression.reads(&self.id) || formula.expression.reads(&self.pods)
    }
}

/// Whether the data of an object of this kind goes with it: such an object is never made anew, and stays when its template no longer
/// declares it.
pub fn keeps_data(kind: &str) -> bool {
    ["PersistentVolumeClaim", "StatefulSet"].contains(&kind)
}

/// The variable with the pods of a workload, which an expression reads by the call `pods(id)`.
pub(super) fn pods_of(id: &str) -> String {
    format!("pods({id})")
}
