//! One object of a template: its compiled manifest, and the expressions in it.

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
    /// The name by which expressions read the object.
    pub id: String,
    /// The object's group and version.
    pub api_version: String,
    /// The kind of the object, as the template writes it.
    pub kind: String,
    /// Whether Copyrator deletes and recreates the object if no update can change it.
    pub recreate: Recreate,
    /// The object's own `deletionPolicy`; `None`: the template's.
    pub deletion: Option<DeletionPolicy>,
    /// The object's name, as the template writes it.
    written_name: String,
    pub(super) include: Option<Formula>,
    pub(super) name: Node,
    pub(super) body: Node,
    /// The name of the variable with the object's pods.
    pub(super) pods: String,
}

impl CompiledObject {
    /// Compiles one object. Problems name the object's path in the spec, `at`, and the path of its manifest,
    /// `manifest_at`. `for_objects` is whether the template is rendered for objects.
    pub(super) fn compile(
        at: &str,
        manifest_at: &str,
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
            let why = format!(
                "OnImmutable is not accepted for {kind}: deleting the object to recreate it would delete its data"
            );
            compiler.problems.push(invalid(&format!("{at}.recreate"), why));
        }
        // The name is part of the body, whose compilation reports its problems.
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

    /// Returns the expressions of `includeWhen` and of the manifest.
    pub(super) fn formulas(&self) -> impl Iterator<Item = &Formula> {
        self.include.iter().chain(self.body.formulas())
    }

    /// Returns a key that is unique among an instance's objects: group, kind and name, as the template writes
    /// them.
    pub fn written_key(&self) -> String {
        format!("{} {} {}", group(&self.api_version), self.kind, self.written_name)
    }

    /// Returns the expression of `includeWhen`.
    pub fn condition(&self) -> Option<&str> {
        self.include.as_ref().map(|formula| &*formula.source)
    }

    /// Whether an expression reads this object, or its pods.
    pub(super) fn is_read_by(&self, formula: &Formula) -> bool {
        formula.expression.reads(&self.id) || formula.expression.reads(&self.pods)
    }
}

/// Whether deleting an object of this kind loses data. Copyrator never recreates an object that holds data,
/// and by default keeps the object when its template no longer declares it.
pub fn keeps_data(kind: &str) -> bool {
    ["PersistentVolumeClaim", "StatefulSet"].contains(&kind)
}

/// The own removal policy of one object of a template: the policy `written` for the object, or `Retain` if
/// deleting the object loses data; `None` if the template's policy applies.
pub fn own_deletion(kind: &str, written: Option<DeletionPolicy>) -> Option<DeletionPolicy> {
    written.or(keeps_data(kind).then_some(DeletionPolicy::Retain))
}

/// Returns the name of the variable with a workload's pods, which an expression reads by the call `pods(id)`.
pub(super) fn pods_of(id: &str) -> String {
    format!("pods({id})")
}
