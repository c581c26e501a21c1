//! Compiles the spec of a `CopyratorRule`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    CompiledTarget, CopyName, Globs, Selector, check_name, invalid, never_copied, selector::is_label_value,
    source_kind::source_kind,
};
use crate::{
    api::{
        ConflictPolicy, CopyShape, CopyratorRuleSpec, DeletionPolicy, KeyShape, MetaShape, Prefer, Problem,
    },
    names::{Kind, NameKind, ObjectKey, TemplateKind},
};

/// The compiled spec of a `CopyratorRule`.
#[derive(Clone, Debug)]
pub struct CompiledRule {
    /// The kind of the sources.
    pub kind: Kind,
    /// Names and globs of the sources; `None`: any.
    pub names: Option<Globs>,
    /// A selector of the sources' labels; `None`: any.
    pub object_selector: Option<Selector>,
    /// The namespaces of the sources, in order and each once; empty: the rule's own namespace.
    pub source_namespaces: Vec<String>,
    /// Which source is copied if the copies of several sources get the same name; `None`: the source that was
    /// copied first.
    pub prefer: Option<Prefer>,
    /// The terms of `spec.targets`, of which one must match.
    pub targets: Vec<CompiledTarget>,
    /// Namespaces that never get a copy.
    pub exclude: Globs,
    /// How a copy differs from its source.
    pub shape: CompiledShape,
    /// The policy for an object that has the copy's name and that Copyrator does not own.
    pub conflict: ConflictPolicy,
    /// What happens to an orphaned copy.
    pub deletion: DeletionPolicy,
    /// How long an orphaned copy is kept; `None`: the operator's default.
    pub grace: Option<Duration>,
    /// The ServiceAccount to act with; `None`: the author.
    pub service_account: Option<String>,
    /// Whether the rule is suspended: Copyrator writes and deletes no object for the rule.
    pub suspend: bool,
}

impl CompiledRule {
    /// Whether the rule names this namespace literally, as a source's or a target; a glob or selector is not
    /// a literal name.
    pub fn names_namespace(&self, namespace: &str) -> bool {
        let targets = self.targets.iter().filter_map(|term| term.names.as_ref());
        let targets = targets.flat_map(|names| names.names());
        self.source_namespaces.iter().chain(targets).any(|name| name == namespace)
    }
}

/// The compiled `spec.copy`: how a copy differs from its source.
#[derive(Clone, Debug)]
pub struct CompiledShape {
    /// The template of the copy's name.
    pub name: CopyName,
    /// The kind of the copy.
    pub kind: Kind,
    /// Which keys are copied, and under which names.
    pub keys: CompiledKeys,
    /// Which labels the copy gets.
    pub labels: CompiledMeta,
    /// Which annotations the copy gets.
    pub annotations: CompiledMeta,
}

/// Which keys of the source are copied.
#[derive(Clone, Debug, Default)]
pub struct CompiledKeys {
    /// The keys to copy; `None`: all.
    pub include: Option<Globs>,
    /// The keys not to copy, even if included.
    pub exclude: Globs,
    /// The new names of keys, by their old names.
    pub rename: BTreeMap<String, String>,
}

/// Which labels or annotations a copy gets.
#[derive(Clone, Debug, Default)]
pub struct CompiledMeta {
    /// Entries that every copy gets.
    pub set: BTreeMap<String, String>,
    /// The entries to copy from the source.
    pub keep: Globs,
}

impl CompiledRule {
    /// Compiles a spec. Rules can also copy the `granted` custom resources.
    ///
    /// # Errors
    /// All problems, at least one; each names its field and the fix.
    pub fn compile(spec: &CopyratorRuleSpec, granted: &BTreeSet<TemplateKind>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let source = &spec.source;
        if source.names.is_none() && source.object_selector.is_none() {
            problems.push(invalid("spec.source", "needs names, objectSelector or both"));
        }
        if spec.targets.is_empty() {
            problems.push(invalid("spec.targets", "needs at least one entry"));
        }
        // Compilation continues after an error, to report all problems.
        let kind = source_kind(source, granted).map_err(|problem| problems.push(problem));
        let kind = kind.unwrap_or(Kind::ConfigMap);
        let names = source.names.as_ref();
        let names =
            names.map(|names| Globs::compile("spec.source.names", names, NameKind::of(kind), &mut problems));
        never_copied::check(
            "spec.source.names",
            kind,
            source.names.as_deref().unwrap_or_default(),
            &mut problems,
        );
        let object_selector = source
            .object_selector
            .as_ref()
            .map(|selector| Selector::compile("spec.source.objectSelector", selector, &mut problems));
        for (index, namespace) in source.namespaces.iter().enumerate() {
            let at = format!("spec.source.namespaces[{index}]");
            check_name(&at, namespace, NameKind::Namespace, &mut problems);
        }
        let targets = CompiledTarget::compile("spec.targets", &spec.targets, &mut problems);
        let exclude =
            Globs::compile("spec.excludeTargets", &spec.exclude_targets, NameKind::Namespace, &mut problems);
        let shape = compile_shape(kind, spec.copy.as_ref(), &mut problems);
        if let Some(account) = &spec.service_account_name {
            check_name("spec.serviceAccountName", account, NameKind::Object, &mut problems);
        }
        let grace = spec.deletion_grace.as_ref().and_then(|span| {
            span.get().map_err(|error| problems.push(invalid("spec.deletionGrace", error))).ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            kind,
            names,
            object_selector,
            source_namespaces: BTreeSet::from_iter(source.namespaces.clone()).into_iter().collect(),
            prefer: source.prefer,
            targets,
            exclude,
            shape,
            conflict: spec.conflict_policy,
            deletion: spec.deletion_policy,
            grace,
            service_account: spec.service_account_name.clone(),
            suspend: spec.suspend,
        })
    }
}

fn compile_shape(kind: Kind, shape: Option<&CopyShape>, problems: &mut Vec<Problem>) -> CompiledShape {
    let none = CopyShape::default();
    let shape = shape.unwrap_or(&none);
    let name = shape.name.clone().unwrap_or_else(|| "{name}".into());
    let sample = name.replace("{name}", "a").replace("{namespace}", "a");
    if !NameKind::of(kind).is_name(&sample) {
        problems.push(invalid(
            "spec.copy.name",
            format!("{name:?} does not produce a valid object name; the placeholders are {{name}} and {{namespace}}"),
        ));
    }
    let copy_kind = shape.kind.map_or(kind, Kind::from);
    let keys = compile_keys(shape.keys.as_ref(), problems);
    if kind.data().is_none() {
        let set = [("kind", shape.kind.is_some()), ("keys", shape.keys.is_some())];
        problems.extend(set.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| {
            let what = format!(
                "applies only to ConfigMaps and Secrets; Copyrator copies a whole {kind}: remove the field"
            );
            invalid(&format!("spec.copy.{field}"), what)
        }));
    }
    match (kind, copy_kind) {
        (Kind::ConfigMap, Kind::Secret) => problems.push(invalid(
            "spec.copy.kind",
            "Copyrator does not copy a ConfigMap to a Secret: make the source a Secret",
        )),
        (Kind::Secret, Kind::ConfigMap)
            if keys.include.as_ref().and_then(Globs::literals).is_none_or(<[String]>::is_empty) =>
        {
            problems.push(invalid(
                "spec.copy.kind",
                "Copyrator copies a Secret to a ConfigMap only with literal keys.include: name each key that may become public",
            ));
        }
        _ => {}
    }
    CompiledShape {
        name: CopyName::new(&name),
        kind: copy_kind,
        keys,
        labels: compile_meta("spec.copy.labels", shape.labels.as_ref(), true, problems),
        annotations: compile_meta("spec.copy.annotations", shape.annotations.as_ref(), false, problems),
    }
}

fn compile_keys(keys: Option<&KeyShape>, problems: &mut Vec<Problem>) -> CompiledKeys {
    let Some(keys) = keys else { return CompiledKeys::default() };
    let mut seen = BTreeMap::new();
    for (old, new) in &keys.rename {
        for key in [old, new] {
            check_name(&format!("spec.copy.keys.rename[{old}]"), key, NameKind::DataKey, problems);
        }
        if let Some(other) = seen.insert(new, old) {
            problems.push(invalid(
                "spec.copy.keys.rename",
                format!("{other:?} and {old:?} would both be copied as {new:?}"),
            ));
        }
    }
    CompiledKeys {
        include: keys
            .include
            .as_ref()
            .map(|list| Globs::compile("spec.copy.keys.include", list, NameKind::DataKey, problems)),
        exclude: Globs::compile("spec.copy.keys.exclude", &keys.exclude, NameKind::DataKey, problems),
        rename: keys.rename.clone(),
    }
}

fn compile_meta(
    at: &str,
    meta: Option<&MetaShape>,
    labels: bool,
    problems: &mut Vec<Problem>,
) -> CompiledMeta {
    let Some(meta) = meta else { return CompiledMeta::default() };
    for (key, value) in &meta.set {
        check_name(&format!("{at}.set"), key, NameKind::MetadataKey, problems);
        if crate::marks::never_carried(key) {
            problems.push(invalid(
                &format!("{at}.set"),
                format!("{key:?} is reserved for another tool or for Copyrator"),
            ));
        }
        if labels && !is_label_value(value) {
            problems
                .push(invalid(&format!("{at}.set[{key}]"), format!("{value:?} is not a valid label value")));
        }
    }
    let keep = Globs::compile(&format!("{at}.keep"), &meta.keep, NameKind::MetadataKey, problems);
    CompiledMeta { set: meta.set.clone(), keep }
}

impl CompiledShape {
    /// Returns the name that a source's copy gets.
    pub fn copy_name(&self, source: &ObjectKey) -> String {
        self.name.of(&source.namespace, &source.name)
    }
}

impl CompiledKeys {
    /// Returns the key in the copy for a key of the source; `None` if the key is not copied.
    pub fn carried<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        let wanted =
            self.include.as_ref().is_none_or(|include| include.matches(key)) && !self.exclude.matches(key);
        wanted.then(|| self.rename.get(key).map_or(key, String::as_str))
    }
}

impl CompiledMeta {
    /// Returns the entries of a copy, given the entries of its source.
    pub fn carried<'a>(
        &self,
        source: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<String, String> {
        let kept = source
            .into_iter()
            .filter(|(key, _)| self.keep.matches(key) && !crate::marks::never_carried(key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut all: BTreeMap<String, String> = kept.collect();
        all.extend(self.set.clone());
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(source: Value, copy: Value) -> String {
        let mut spec = json!({"source": source, "targets": [{"names": ["shop"]}], "copy": copy});
        spec["source"]["names"] = json!(["a"]);
        let compiled = CompiledRule::compile(&serde_json::from_value(spec).unwrap(), &BTreeSet::new());
        let messages = |problems: Vec<Problem>| {
            problems.into_iter().map(|one| one.message).collect::<Vec<_>>().join("; ")
        };
        compiled.map_or_else(messages, |_| String::new())
    }

    #[test]
    fn every_list_of_a_rule_is_held_to_what_it_names() {
        let spec = json!({
            "source": {"kind": "Secret", "names": ["^db$"], "namespaces": ["a*"]},
            "targets": [{"names": ["Shop"]}],
            "excludeTargets": ["!b"],
            "serviceAccountName": "ns/a",
            "copy": {
                "name": "x".repeat(64),
                "keys": {"include": ["a b"], "exclude": ["/c/"], "rename": {"d*": "e f"}},
                "labels": {"keep": ["G/h"], "set": {"argocd.argoproj.io/secret-type": "repo-creds", "/i": "a"}},
                "annotations": {"keep": ["“j”"]},
            },
        });
        let problems =
            CompiledRule::compile(&serde_json::from_value(spec).unwrap(), &BTreeSet::new()).unwrap_err();
        let fields: Vec<&str> = problems.iter().filter_map(|one| one.message.split(": ").next()).collect();
        assert_eq!(
            fields,
            [
                "spec.source.names[0]",
                "spec.source.namespaces[0]",
                "spec.targets[0].names[0]",
                "spec.excludeTargets[0]",
                "spec.copy.keys.rename[d*]",
                "spec.copy.keys.rename[d*]",
                "spec.copy.keys.include[0]",
                "spec.copy.keys.exclude[0]",
                "spec.copy.labels.set",
                "spec.copy.labels.keep[0]",
                "spec.copy.annotations.keep[0]",
                "spec.serviceAccountName",
            ]
        );
    }

    #[test]
    fn of_a_kind_without_data_everything_is_copied() {
        for (source, copy, expected) in [
            (json!({"kind": "NetworkPolicy"}), json!({"name": "x", "labels": {"keep": ["*"]}}), ""),
            (json!({"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1"}), json!(null), ""),
            (json!({"kind": "ConfigMap", "apiVersion": "v1"}), json!(null), ""),
            (
                json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1beta1"}),
                json!(null),
                "spec.source.apiVersion: a rule copies PodDisruptionBudget in version policy/v1, not \"policy/v1beta1\": \
                 write policy/v1, or remove apiVersion",
            ),
            (
                json!({"kind": "LimitRange"}),
                json!({"kind": "ConfigMap", "keys": {"include": ["a"]}}),
                "spec.copy.kind: applies only to ConfigMaps and Secrets; Copyrator copies a whole LimitRange: remove the field; \
                 spec.copy.keys: applies only to ConfigMaps and Secrets; Copyrator copies a whole LimitRange: remove the field",
            ),
        ] {
            assert_eq!(problems(source.clone(), copy), expected, "{source}");
        }
    }
}
