//! Import of ClusterSecrets. A ClusterSecret chooses namespaces by regular expressions that match the
//! beginning of a name (Python's `re.match`), and has either its own data or a Secret to copy from. `read`
//! drops the values.

use super::{
    assemble::{Draft, DraftRule},
    finding::{Origin, Tool, differs, none},
    options::Options,
    read::ClusterSecret,
    targets::{named, patterns},
};
use crate::{
    api::{KeyShape, MetaShape},
    marks::never_carried,
    names::{Kind, NameKind},
    validate::Anchoring,
};

/// Converts a ClusterSecret to a draft.
pub(super) fn draft(secret: &ClusterSecret, options: &Options) -> Draft {
    let origin = Origin::new(Tool::ClusterSecret, "ClusterSecret", "", &secret.name);
    let mut findings = Vec::new();
    for field in &secret.unknown {
        let told =
            format!("import does not know the field {field}, so it makes no rule: write the rule by hand");
        findings.push(none(field, told));
    }
    let everything = vec![".*".to_owned()];
    let matched = secret.matched.as_ref().unwrap_or(&everything);
    let open = |pattern: &&String| !pattern.ends_with('$') && !pattern.ends_with(".*");
    let loose = matched.iter().chain(&secret.avoided).find(open);
    let targets =
        patterns("matchNamespace", matched.iter().map(String::as_str), Anchoring::Start, &mut findings);
    let mut lost = Vec::new();
    let avoided = secret.avoided.iter().map(String::as_str);
    let exclude = patterns("avoidNamespaces", avoided, Anchoring::Start, &mut lost);
    let can_exclude = lost.is_empty() && secret.unknown.is_empty();
    findings.extend(lost);
    if !can_exclude {
        let told = "import makes no rule: it cannot convert avoidNamespaces, and a rule without them would copy to more namespaces than \
         today";
        if secret.unknown.is_empty() {
            findings.push(none("avoidNamespaces", told));
        }
        return Draft { origin, findings, rule: None };
    }
    if let Some(pattern) = loose {
        findings.push(differs("matchNamespace", format!("ClusterSecret anchors a pattern only at its beginning, so {pattern:?} matches \
         every namespace whose name begins with it. The globs of this rule do the same: check that you mean all of them")));
    }
    let Some(mut rule) = source(secret, options, &mut findings) else {
        return Draft { origin, findings, rule: None };
    };
    rule.spec.targets = named(targets).into_iter().collect();
    rule.spec.exclude_targets = exclude;
    rule.copied_as(&secret.name);
    let mut labels = secret.labels.clone();
    labels.retain(|key, _| !never_carried(key));
    if !labels.is_empty() {
        rule.shape().labels = Some(MetaShape { set: labels, ..MetaShape::default() });
    }
    findings.extend([
        differs("type", format!("a copy has its source's type; ClusterSecret writes {:?}. If the types differ, Copyrator reports existing \
         Secrets as conflicts: give the source Secret the type that you need", secret.type_.as_deref().unwrap_or("Opaque"))),
        differs("conflictPolicy", "ClusterSecret with REPLACE_EXISTING overwrites every Secret of the name; this rule takes over Secrets \
         with the same content, and reports the others as conflicts"),
        differs("source", "Copyrator updates the copies when the source changes, and restores an edited or deleted copy; ClusterSecret \
         watches neither. When the source is deleted, Copyrator deletes its copies after 5 minutes (deletionGrace; deletionPolicy: Retain \
         keeps them)"),
        differs("uninstall", "when you delete a ClusterSecret, its operator deletes its Secrets by name, also those that Copyrator has \
         taken over: stop the operator, remove the finalizers from the ClusterSecret, then delete it"),
        differs("authority", "the user who applies the rule must be allowed to read the source and to write in the target namespaces; for \
         ClusterSecret, the right to write ClusterSecrets is enough"),
    ]);
    Draft { origin, findings, rule: Some(rule) }
}

/// Returns the rule without its targets; `None` if the namespace of the source is not known.
fn source(
    secret: &ClusterSecret,
    options: &Options,
    findings: &mut Vec<super::Finding>,
) -> Option<DraftRule> {
    if let Some((namespace, name, keys)) = &secret.from {
        let mut rule = DraftRule::of(Kind::Secret, namespace, name, Vec::new());
        if let Some(keys) = keys {
            rule.shape().keys = Some(KeyShape { include: Some(keys.clone()), ..KeyShape::default() });
        }
        return Some(rule);
    }
    let home = options.source_namespace.as_deref();
    // Users paste this command into a shell, so it contains only valid names.
    let name = &secret.name;
    let shell_name = if NameKind::Object.is_name(name) { name.as_str() } else { "NAME" };
    let place = home.filter(|home| NameKind::Object.is_name(home)).unwrap_or("SOURCE-NAMESPACE");
    let type_ = secret.type_.as_deref().unwrap_or("Opaque");
    let also = match home {
        Some(_) => "the rule below copies this Secret",
        None => "then import again with --source-namespace",
    };
    findings.push(none(
        "data",
        format!(
            "contains the values (keys: {}), but a rule copies from a Secret: first create the Secret {place}/{name} of type {type_}; \
             {also}. To create the Secret from one of its copies: kubectl get secret {shell_name} -n NAMESPACE-OF-A-COPY -o json | jq \
             '{{apiVersion, kind, type, data, metadata: {{name: .metadata.name, namespace: \"{place}\"}}}}' | kubectl create -f -. If the \
             ClusterSecret also writes to {place}, the Secret there becomes the source: remove {place} from matchNamespace",
            if secret.keys.is_empty() { "none".into() } else { secret.keys.join(", ") },
        ),
    ));
    home.map(|namespace| DraftRule::of(Kind::Secret, namespace, name, Vec::new()))
}
