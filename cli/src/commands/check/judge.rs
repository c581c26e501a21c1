//! Judges the input of a check.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    ask,
    cluster::Cluster,
    input::{Input, Item},
    instances::Given,
    report::{Finding, Judged, Level, Report, title},
    stored::stored,
};
use crate::{
    api::PolicyKind,
    config::system_namespaces,
    model::World,
    names::{GrantedKinds, InstanceKind, Kind, TemplateKind},
    validate::Candidate,
};

/// Judges all objects of the files.
pub(super) fn judge(scene: Input, given: &Given) -> Report {
    let Input { items, skipped, misspelt, own_namespace } = scene;
    let mut report = Report { notices: left_out(&skipped), skipped, objects: misspelt, rendered: Vec::new() };
    let (ours, others): (Vec<Item>, Vec<Item>) = items.into_iter().partition(|item| item.policed().is_none());
    let mut cluster = Cluster::default();
    let (kinds, mut copied) = (GrantedKinds::default(), BTreeSet::new());
    for item in ours {
        let served = copied_kind(&item, &kinds);
        copied.extend(served.as_ref().map(|served| served.kind.clone()));
        let mut findings = ask::own_kind(&item, served);
        if item.kind == "ConfigPolicy" && is_allowed(&findings) {
            report.notices.extend(cluster.put(&item));
        }
        if item.kind == "CopyratorTemplate" && is_allowed(&findings) {
            findings.extend(given.render(&item, &mut report));
        }
        report.objects.push(judged(item, findings));
    }
    report.notices.extend(copies_unknown(&copied));
    learn_namespaces(&mut cluster, &others);
    let system = system_namespaces(&own_namespace, &BTreeSet::new());
    let mut worlds = BTreeMap::new();
    for (item, kind) in others.into_iter().filter_map(|item| item.policed().map(|kind| (item, kind))) {
        if !item.is_context {
            let findings = findings(&cluster, &mut worlds, &system, &item, kind);
            report.objects.push(judged(item, findings));
        }
    }
    report.objects.sort_by(|one, other| {
        let after = |object: &Judged| (object.line, object.document, object.position);
        one.file.cmp(&other.file).then_with(|| after(one).cmp(&after(other)))
    });
    report
}

fn left_out(skipped: &BTreeMap<String, usize>) -> Vec<String> {
    let kinds: Vec<String> = skipped.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    match kinds.is_empty() {
        true => Vec::new(),
        false => vec![format!("skipped, since the webhook does not judge them: {}", kinds.join(", "))],
    }
}

/// The kind of custom resource that a rule copies, treated as granted, since no file shows the chart's
/// grants. The plural is a guess, which the check does not judge.
fn copied_kind(item: &Item, kinds: &GrantedKinds) -> Option<TemplateKind> {
    let source = item.value.pointer("/spec/source").filter(|_| item.kind == "CopyratorRule")?;
    let (version, kind) = (source["apiVersion"].as_str()?, source["kind"].as_str()?);
    let text = format!("{version}/{kind}/{}s/render+copy", kind.to_lowercase());
    let read = TemplateKind::read(&text, kinds).ok()?;
    matches!(read.rendered, Some(Kind::Granted(_))).then_some(read)
}

fn copies_unknown(kinds: &BTreeSet<InstanceKind>) -> Option<String> {
    let named: Vec<String> = kinds.iter().map(InstanceKind::to_string).collect();
    let named = named.join(", ");
    (!kinds.is_empty()).then(|| {
        format!(
            "whether Copyrator copies {named} is not judged: it does where the chart's value templates.kinds names the kind with \
             use: [render, copy]"
        )
    })
}

/// Reads the labels of namespaces as they would be once written, with the labels that policies add.
fn learn_namespaces(cluster: &mut Cluster, items: &[Item]) {
    let world = cluster.world(None);
    for item in items.iter().filter(|item| item.kind == "Namespace") {
        let object = stored(item, PolicyKind::Namespace);
        let Ok(object) = object.and_then(|object| ask::defaulted(item, object, &world)) else { continue };
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        cluster.learn(&item.name, labels.map(|(key, value)| (key.clone(), text(value))).collect());
    }
}

/// The findings about a ConfigMap, Secret or Namespace.
fn findings(
    cluster: &Cluster,
    worlds: &mut BTreeMap<Option<String>, World>,
    system: &BTreeSet<String>,
    item: &Item,
    kind: PolicyKind,
) -> Vec<Finding> {
    let object = match stored(item, kind) {
        Ok(object) => object,
        Err(faults) => return faults,
    };
    let home = if kind == PolicyKind::Namespace { &item.name } else { &item.namespace };
    if system.contains(home) {
        return Vec::new();
    }
    let mut findings = ask::annotations(item, &object);
    let text = object.to_string();
    if Candidate::decode(kind, &text).is_ok_and(|object| object.is_kubernetes_own()) {
        return findings;
    }
    let is_known = kind == PolicyKind::Namespace || cluster.knows(&item.namespace);
    let unknown = (!is_known).then(|| item.namespace.clone());
    let world = worlds.entry(unknown.clone()).or_insert_with(|| cluster.world(unknown.as_deref()));
    let object = match ask::defaulted(item, object, world) {
        Ok(object) => object,
        Err(faults) => return faults,
    };
    findings.extend(ask::policies(item, &object, world));
    if unknown.is_some() {
        findings.extend(open(cluster, item, kind, &object));
    }
    findings
}

/// Findings for policies that cannot be judged offline, since no file has the namespace labels that they
/// select by.
fn open(cluster: &Cluster, item: &Item, kind: PolicyKind, object: &Value) -> Vec<Finding> {
    let text = object.to_string();
    let Ok(candidate) = Candidate::decode(kind, &text) else { return Vec::new() };
    let (named, namespace) = (title(item.kind, &item.namespace, &item.name), &item.namespace);
    let open = cluster.open(&candidate).map(|policy| {
        let message = format!(
            "policy {policy}: {named}: cannot be judged offline: the policy's namespaceSelector looks at labels of namespace \
             {namespace}, which no file tells; give its Namespace, too, with --policy"
        );
        Finding::unknown(policy, message)
    });
    open.collect()
}

fn is_allowed(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Refused)
}

fn judged(item: Item, findings: Vec<Finding>) -> Judged {
    let generated = item.value.pointer("/metadata/generateName").and_then(Value::as_str).unwrap_or_default();
    let name = if item.name.is_empty() { generated.to_owned() } else { item.name };
    let Item { file, line, document, position, kind, namespace, .. } = item;
    Judged {
        file,
        line,
        document,
        position,
        kind: kind.into(),
        namespace,
        name,
        allowed: is_allowed(&findings),
        findings,
    }
}
