//! Judges the input of a check, as if an unknown user had just written the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cluster::Cluster,
    input::Input,
    instances::Given,
    report::{Finding, Judged, Level, Report},
};
use crate::{
    admit::{
        Parties, Purpose,
        decide::{Decision, Verdict},
    },
    authority::Subject,
    files::{Admission, Fault, FileKind, Item, Write, stored},
    model::World,
    names::{GrantedKinds, InstanceKind, Kind, TemplateKind},
    validate::Candidate,
};

/// Judges all objects of the files.
pub(super) fn judge(input: Input, given: &Given) -> Report {
    let Input { items, context, skipped, misspelt, own_namespace } = input;
    let mut report = Report { notices: left_out(&skipped), skipped, objects: misspelt, rendered: Vec::new() };
    let (ours, mut others): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| item.of.kind.policed().is_none());
    let (mut cluster, now) = (Cluster::new(&own_namespace), Timestamp::now());
    let (kinds, mut copied) = (GrantedKinds::default(), BTreeSet::new());
    for item in ours {
        let served = copied_kind(&item, &kinds);
        copied.extend(served.as_ref().map(|served| served.kind.clone()));
        let parties = Parties { template_kinds: served.into_iter().collect(), ..Parties::default() };
        let (mut findings, admission) = admitted(&item, &parties, &cluster.world, now);
        match (item.of.kind, admission) {
            (FileKind::Policy, Some(admission)) => {
                report.notices.extend(cluster.enforce(&item, admission.object, now));
            }
            (FileKind::Template, Some(_)) => findings.extend(given.render(&item, &mut report)),
            _ => {}
        }
        report.objects.push(judged(item, findings));
    }
    report.notices.extend(copies_unknown(&copied));
    for item in context {
        found(&mut cluster, &item, now);
    }
    others.sort_by_key(|item| item.of.kind != FileKind::Namespace);
    for item in others {
        let findings = found(&mut cluster, &item, now);
        report.objects.push(judged(item, findings));
    }
    report.objects.sort_by(|one, other| one.place.cmp(&other.place));
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
    let source = item.value.pointer("/spec/source").filter(|_| item.of.kind == FileKind::Rule)?;
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

/// The findings about a ConfigMap, Secret or Namespace. The cluster then has the Namespace.
fn found(cluster: &mut Cluster, item: &Item, now: Timestamp) -> Vec<Finding> {
    let (mut findings, admission) = admitted(item, &Parties::default(), cluster.world_for(&item.of), now);
    let Some(Admission { object, breaches, .. }) = admission else { return findings };
    if let (Some(kind), Some(_), false) =
        (item.of.kind.policed(), breaches, cluster.knows_namespace(&item.of))
    {
        let text = object.to_string();
        let candidate = Candidate::decode(kind, &text).ok();
        findings.extend(candidate.iter().flat_map(|candidate| cluster.open(candidate)).map(|policy| {
            let message = format!(
                "policy {policy}: {}: cannot be judged offline: the policy's namespaceSelector looks at labels of namespace \
                 {}, which no file tells; give its Namespace, too, with --policy",
                item.of, item.of.name.namespace
            );
            Finding::unknown(policy, message)
        }));
    }
    if item.of.kind == FileKind::Namespace {
        cluster.learn(object, now);
    }
    findings
}

/// The findings of the webhook about an object, and its answers, unless the API server would refuse the object before.
/// Rights are not checked, since the author is not known.
fn admitted(
    item: &Item,
    parties: &Parties,
    world: &World,
    now: Timestamp,
) -> (Vec<Finding>, Option<Admission>) {
    let writer = &Subject::default();
    let admission = stored(item, None, now).and_then(|new| {
        let write = Write { of: &item.of, writer, new, old: None, now };
        write.admit(&Purpose::Files, parties, world).map_err(|fault| vec![fault])
    });
    let admission = match admission {
        Ok(admission) => admission,
        Err(faults) => return (faults.into_iter().map(|fault| faulty(item, fault)).collect(), None),
    };
    let rule = if item.of.kind.policed().is_some() { "annotations" } else { "spec" };
    let mut findings = match &admission.decision {
        Decision::Now(verdict) => said(rule, verdict),
        Decision::Ask(inquiry) => said(rule, &inquiry.allow),
    };
    findings.extend(admission.breaches.iter().flatten().cloned().map(Finding::from));
    // Labels of a refused Namespace count for the other files.
    let counts = item.of.kind.policed().is_some() || is_allowed(&findings);
    (findings, counts.then_some(admission))
}

fn said(rule: &str, verdict: &Verdict) -> Vec<Finding> {
    match verdict.denial {
        Some(_) => vec![Finding::refused(rule, None, verdict.message.clone())],
        None => verdict.warnings.iter().map(|warning| Finding::warned(rule, warning.clone())).collect(),
    }
}

fn faulty(item: &Item, fault: Fault) -> Finding {
    let Fault { key, what } = fault;
    let of = key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
    Finding::refused("manifest", key.as_deref(), format!("{}{of}: {what}", item.of))
}

fn is_allowed(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Refused)
}

fn judged(item: Item, findings: Vec<Finding>) -> Judged {
    let Item { of, place, value } = item;
    let generated = value.pointer("/metadata/generateName").and_then(Value::as_str).unwrap_or_default();
    let name = if of.name.name.is_empty() { generated } else { &*of.name.name };
    Judged {
        place,
        kind: of.kind.as_str().into(),
        namespace: of.name.namespace.to_string(),
        name: name.to_owned(),
        allowed: is_allowed(&findings),
        findings,
    }
}
