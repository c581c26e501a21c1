//! Assembly of drafts into rules that can be applied. The assembly joins requests for the same copy, gives
//! each rule its own name, and leaves out rules that the validator or the schema would refuse.

use std::collections::BTreeSet;

use super::finding::{Finding, Level, Origin, Tool, differs, none};
use super::imported::{Imported, Made, Proposal};
use super::monitors::{self, MonitorDraft};
use super::targets::{MOST, listed, matches, without_system};
use super::templates::{self, TemplateDraft};
use crate::{
    api::{ConflictPolicy, CopyShape, CopyratorRule, CopyratorRuleSpec, SourceSpec, TargetTerm},
    names::{Kind, NameKind},
    unique_names::Names,
    validate::CompiledRule,
};

/// The request of one object, before it is joined with requests for the same copy.
pub(super) struct Draft {
    pub(super) origin: Origin,
    pub(super) findings: Vec<Finding>,
    pub(super) rule: Option<DraftRule>,
}

/// A rule before it is named and validated.
pub(super) struct DraftRule {
    /// The namespace that the rule will be in.
    pub(super) namespace: String,
    /// The name of the rule, if the input gives a name.
    pub(super) name: Option<String>,
    pub(super) spec: CopyratorRuleSpec,
    /// Whether the target requests the copy, not the source.
    pub(super) pull: bool,
}

impl DraftRule {
    /// Returns a suspended rule that copies one object from its own namespace and adopts equal copies.
    pub(super) fn of(kind: Kind, namespace: &str, name: &str, targets: Vec<TargetTerm>) -> Self {
        let source = SourceSpec {
            kind: kind.to_string(),
            names: Some(vec![name.to_owned()]),
            ..SourceSpec::default()
        };
        let spec = CopyratorRuleSpec {
            source,
            targets,
            conflict_policy: ConflictPolicy::Adopt,
            suspend: true,
            ..CopyratorRuleSpec::default()
        };
        Self { namespace: namespace.into(), name: None, spec, pull: false }
    }

    pub(super) fn shape(&mut self) -> &mut CopyShape {
        self.spec.copy.get_or_insert_default()
    }

    /// Names the copies, if their name differs from the source's.
    pub(super) fn copied_as(&mut self, name: &str) {
        if self.spec.source.names.as_ref().is_none_or(|names| names.iter().all(|one| one != name)) {
            self.shape().name = Some(name.into());
        }
    }

    fn copy_name(&self) -> Option<&str> {
        self.spec.copy.as_ref()?.name.as_deref()
    }

    /// Whether both drafts copy the same object under the same name.
    fn is_like(&self, other: &Self) -> bool {
        self.namespace == other.namespace
            && self.spec.source == other.spec.source
            && self.copy_name() == other.copy_name()
    }
}

/// Joins, names and validates the drafts.
pub(super) fn assemble(
    drafts: Vec<Draft>,
    templates: Vec<TemplateDraft>,
    monitors: Vec<MonitorDraft>,
    others: Vec<(Origin, Finding)>,
) -> Imported {
    let mut proposals = rules(drafts);
    proposals.extend(templates::proposals(templates));
    proposals.extend(monitors::proposals(monitors));
    proposals.extend(others.into_iter().map(|(origin, finding)| Proposal {
        origins: vec![origin],
        findings: vec![finding],
        made: None,
    }));
    proposals.sort_by_cached_key(|one| {
        let place = one.made.as_ref().map(|made| {
            let (namespace, name) = made.place();
            let sort = match made {
                Made::Rule(_) => 0,
                Made::Template(_) => 1,
                Made::Monitor(_) => 2,
            };
            (sort, namespace.to_owned(), name.to_owned())
        });
        (one.made.is_none(), place, one.origins.clone())
    });
    Imported { proposals }
}

fn rules(mut drafts: Vec<Draft>) -> Vec<Proposal> {
    // Sources come first, so that their targets' requests join them.
    let place = |draft: &Draft| draft.rule.as_ref().map(|rule| (rule.pull, rule.namespace.clone()));
    drafts.sort_by_cached_key(|draft| (draft.rule.is_none(), place(draft), draft.origin.clone()));
    let mut joined: Vec<Joined> = Vec::new();
    for draft in drafts {
        let Draft { origin, findings, rule } = draft;
        let known = rule.as_ref().filter(|rule| rule.pull).and_then(|rule| {
            let mut with_rule = joined.iter_mut().filter(|one| one.origins[0].tool == origin.tool);
            with_rule.find(|one| one.rule.as_ref().is_some_and(|known| known.is_like(rule)))
        });
        match (known, rule) {
            (Some(known), Some(rule)) => known.join(origin, findings, rule),
            (_, rule) => joined.push(Joined { origins: vec![origin], findings, rule }),
        }
    }
    let mut names = Names::default();
    joined.into_iter().map(|one| one.finish(&mut names)).collect()
}

/// The requests that become one rule.
struct Joined {
    origins: Vec<Origin>,
    findings: Vec<Finding>,
    rule: Option<DraftRule>,
}

impl Joined {
    /// Adds a target's request. If the source also requests copies, the source's request determines the
    /// content of the copies.
    fn join(&mut self, origin: Origin, findings: Vec<Finding>, rule: DraftRule) {
        self.origins.push(origin);
        let Some(known) = &mut self.rule else { return };
        if known.pull {
            self.findings.extend(findings);
        } else {
            let told = "a target that names this source is in this rule too, and its copy is as the others are: labels and \
                deletionPolicy are the rule's";
            self.findings.push(differs("targets", told));
        }
        for term in rule.spec.targets {
            let listed = known.spec.targets.iter_mut().find(|one| one.namespace_selector.is_none());
            match (listed.and_then(|one| one.names.as_mut()), term.names) {
                (Some(listed), Some(names)) => {
                    let new = names.into_iter().filter(|name| !listed.contains(name)).collect::<Vec<_>>();
                    listed.extend(new);
                }
                (_, names) => known.spec.targets.push(TargetTerm { names, ..term }),
            }
        }
    }

    fn finish(mut self, names: &mut Names) -> Proposal {
        let asked = self.rule.is_some();
        let rule = self.rule.take().and_then(|rule| self.check(rule));
        if asked && rule.is_none() {
            // Without a rule, only the reason for that matters, and not the findings about the rule's
            // behaviour.
            let why = self.findings.iter().map(|finding| finding.level).min();
            self.findings.retain(|finding| Some(finding.level) == why);
        }
        let rule = rule.map(|rule| {
            let source =
                rule.copy_name().or(rule.spec.source.names.iter().flatten().next().map(String::as_str));
            let stem = source.unwrap_or("all");
            let metadata = names.take(&rule.namespace, rule.name.as_deref(), self.origins[0].tool, stem);
            Made::Rule(CopyratorRule { metadata, spec: rule.spec, status: None })
        });
        self.findings.sort();
        self.findings.dedup();
        Proposal { origins: self.origins, findings: self.findings, made: rule }
    }

    /// Returns the rule, if it can be applied and selects something; otherwise adds a finding.
    fn check(&mut self, mut rule: DraftRule) -> Option<DraftRule> {
        let findings = &mut self.findings;
        let is_lost = |origin: &Origin| origin.namespace.is_empty() && !origin.tool.is_cluster_wide();
        if self.origins.iter().any(is_lost) && self.origins[0].tool != Tool::Seed {
            findings.push(none(
                "metadata.namespace",
                "is missing: pass -n NAMESPACE, the namespace of the object",
            ));
            return None;
        }
        let lost = findings.iter().any(|finding| finding.level == Level::NoEquivalent);
        rule.spec.targets = listed(without_system(std::mem::take(&mut rule.spec.targets), findings));
        not_at_home(&mut rule, findings);
        let lost = lost || findings.iter().any(|finding| finding.about == "copy.name");
        if rule.spec.targets.is_empty() {
            let told = "the rule would select no namespace, so import makes no rule";
            findings.push(if lost { none("targets", told) } else { differs("targets", told) });
            return None;
        }
        let wrong = bounds(&rule).err().into_iter().map(str::to_owned);
        let invalid = CompiledRule::compile(&rule.spec, &BTreeSet::new())
            .err()
            .into_iter()
            .flatten()
            .map(|problem| problem.message);
        let wrong: Vec<String> = wrong.chain(invalid).collect();
        if wrong.is_empty() {
            return Some(rule);
        }
        findings.extend(
            wrong.into_iter().map(|message| none("rule", format!("import makes no rule: {message}"))),
        );
        None
    }
}

/// Removes the source's own namespace from the targets: that namespace gets no copy, not even under another
/// name.
fn not_at_home(rule: &mut DraftRule, findings: &mut Vec<Finding>) {
    let Some(name) = rule.copy_name().map(str::to_owned) else { return };
    let home = rule.namespace.clone();
    let reaches = |names: &Option<Vec<String>>| {
        names.as_ref().is_none_or(|names| names.iter().any(|one| matches(one, &home)))
    };
    let excluded = rule.spec.exclude_targets.iter().any(|one| matches(one, &home));
    if excluded || !rule.spec.targets.iter().any(|term| reaches(&term.names)) {
        return;
    }
    findings.push(none(
        "copy.name",
        format!(
            "Copyrator makes no copy in the source's own namespace: if {home}/{name} exists, it stays as it is and no longer follows the \
             source"
        ),
    ));
    for names in rule.spec.targets.iter_mut().filter_map(|term| term.names.as_mut()) {
        names.retain(|one| *one != home);
    }
    rule.spec.targets.retain(|term| term.names.as_ref().is_none_or(|names| !names.is_empty()));
}

/// Refuses rules that the validator accepts, but the schema or the API server refuses. Also refuses names
/// that would be read as globs or placeholders, because a glob or placeholder selects more than the named
/// object.
fn bounds(rule: &DraftRule) -> Result<(), &'static str> {
    let spec = &rule.spec;
    let keys = spec.copy.iter().filter_map(|copy| copy.keys.as_ref()?.include.as_ref()).flatten();
    let globs =
        spec.targets.iter().filter_map(|term| term.names.as_ref()).flatten().chain(&spec.exclude_targets);
    let named = spec
        .source
        .names
        .iter()
        .flatten()
        .map(String::as_str)
        .chain(rule.copy_name())
        .chain(rule.name.as_deref());
    if !NameKind::Namespace.is_name(&rule.namespace) {
        Err("the rule's namespace is not a valid namespace name")
    } else if !named.into_iter().all(|name| NameKind::Object.is_name(name)) {
        Err("a name in the rule is not a valid object name")
    } else if !keys.clone().all(|key| NameKind::DataKey.is_name(key)) || keys.count() > MOST {
        Err("the rule has more than 64 keys, or an invalid key for a ConfigMap or Secret")
    } else if spec.targets.len() > MOST || spec.exclude_targets.len() > MOST {
        Err("the rule has more than 64 targets or exclusions: select the namespaces by label")
    } else if globs.into_iter().any(|glob| glob.len() > 253) {
        Err("a glob in the rule has more than 253 characters")
    } else {
        Ok(())
    }
}
