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
        let told = format!("{field} is not understood, so no rule is made: write one by hand");
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
        let told = "no rule is made: avoidNamespaces cannot be converted, and without it the rule would select more namespaces than today";
        if secret.unknown.is_empty() {
            findings.push(none("avoidNamespaces", told));
        }
        return Draft { origin, findings, rule: None };
    }
    if let Some(pattern) = loose {
        findings.push(differs("matchNamespace", format!("ClusterSecret anchors a pattern at its beginning only, so that \
            {pattern:?} matches whatever begins so: the globs here say the same, which may be more than was meant")));
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
        differs("type", format!("a copy has its source's type; ClusterSecret gives {:?}. Where they differ, the Secrets that \
            are there are reported as conflicts: make the source of the type that is wanted", secret.type_.as_deref().unwrap_or("Opaque"))),
        differs("conflictPolicy", "ClusterSecret with REPLACE_EXISTING writes over whatever has the name; this takes over what \
            has the same content, and reports the rest"),
        differs("source", "a change of the source reaches the copies at once, and an edited or deleted copy is put right; \
            ClusterSecret watches neither. When the source goes, its copies go after 5 minutes (deletionGrace, \
            deletionPolicy: Retain to keep them)"),
        differs("uninstall", "ClusterSecret removes its Secrets by name when the ClusterSecret is deleted, also what \
            Copyrator has taken over: stop its operator, take the finalizers off the ClusterSecret, then delete it"),
        differs("authority", "the user who applies the rule must be allowed to read the source and to write in the targets; \
            ClusterSecret only needs the right to write ClusterSecrets"),
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
        Some(_) => "the rule below copies it",
        None => "then say --source-namespace, and a rule is made",
    };
    findings.push(none(
        "data",
        format!(
            "holds its values itself (keys: {}), and a rule copies from a Secret: make the Secret {place}/{name} of type \
             {type_} first; {also}. From one of its copies: kubectl get secret {shell_name} -n NAMESPACE-OF-A-COPY -o json | jq \
             '{{apiVersion, kind, type, data, metadata: {{name: .metadata.name, namespace: \"{place}\"}}}}' | kubectl create \
             -f -. If {place} is itself among its namespaces, the copy there is the source; take {place} out of matchNamespace",
            if secret.keys.is_empty() { "none".into() } else { secret.keys.join(", ") },
        ),
    ));
    home.map(|namespace| DraftRule::of(Kind::Secret, namespace, name, Vec::new()))
}
