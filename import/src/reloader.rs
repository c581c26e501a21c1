//! Import from Reloader: annotations on a workload, or else on its pod template. `auto` watches all objects
//! that the pods refer to (also for one kind only); `reload` lists patterns, which count even if the pods do
//! not refer to the objects; `search` watches referenced objects with the annotation `match`. Objects that
//! `exclude` lists, or that have the annotation `ignore`, are left out.

use super::{
    finding::{Finding, Origin, Tool, differs, none},
    monitors::{DraftMonitor, MonitorDraft, Watched, behaviour},
    read::{AnnotatedObject, ImportInput},
    targets::matches,
    texts::Texts,
    workload::AnnotatedWorkload,
};
use crate::{
    api::{Span, WorkloadKind},
    names::{Kind, NameKind},
    validate::{Anchoring, can_match, globs},
};

const AUTO: &str = "reloader.stakater.com/auto";
const SEARCH: &str = "reloader.stakater.com/search";
const MATCH: &str = "reloader.stakater.com/match";
const IGNORE: &str = "reloader.stakater.com/ignore";
const PAUSE: &str = "deployment.reloader.stakater.com/pause-period";
const PAUSED_AT: &str = "deployment.reloader.stakater.com/paused-at";
const STRATEGY: &str = "reloader.stakater.com/rollout-strategy";
const LAST: &str = "reloader.stakater.com/last-reloaded-from";
const CSI: &str = "secretproviderclass.reloader.stakater.com/";

/// The names of the annotations about one kind of object.
struct About {
    kind: Kind,
    auto: &'static str,
    reload: &'static str,
    exclude: &'static str,
}

const KINDS: [About; 2] = [
    About {
        kind: Kind::ConfigMap,
        auto: "configmap.reloader.stakater.com/auto",
        reload: "configmap.reloader.stakater.com/reload",
        exclude: "configmaps.exclude.reloader.stakater.com/reload",
    },
    About {
        kind: Kind::Secret,
        auto: "secret.reloader.stakater.com/auto",
        reload: "secret.reloader.stakater.com/reload",
        exclude: "secrets.exclude.reloader.stakater.com/reload",
    },
];

/// Converts a workload with annotations of Reloader to a draft.
pub(super) fn draft(found: &ImportInput, workload: &AnnotatedWorkload) -> Option<MonitorDraft> {
    if !workload.speaks_to(Tool::Reloader) {
        return None;
    }
    let origin = Origin::new(Tool::Reloader, workload.kind.to_string(), &workload.namespace, &workload.name);
    let mut asked =
        WatchList { found, workload, watched: Watched::default(), findings: left_behind(workload) };
    for about in &KINDS {
        asked.of_kind(about);
    }
    asked.of_secret_stores();
    let WatchList { watched, mut findings, .. } = asked;
    let watch = watched.terms();
    if watch.is_empty() {
        let told = "the monitor would watch no object, so import makes no monitor";
        findings.push(differs("watch", told));
        return Some(MonitorDraft::nothing(origin, findings));
    }
    findings.extend(behaviour(Tool::Reloader));
    findings.push(differs(
        "flags",
        "import does not see Reloader's flags: with --auto-reload-all or --reload-on-create Reloader restarts more workloads, with \
         ignored namespaces or labels fewer; other flags rename its annotations",
    ));
    let mut monitor = DraftMonitor::of(workload, watch);
    monitor.spec.pace.min_interval = pause(workload, &mut findings);
    Some(MonitorDraft { origin, findings, monitor: Some(monitor) })
}

struct WatchList<'a> {
    found: &'a ImportInput,
    workload: &'a AnnotatedWorkload,
    watched: Watched,
    findings: Vec<Finding>,
}

impl WatchList<'_> {
    fn of_kind(&mut self, about: &About) {
        let workload = self.workload;
        // The pod template's annotations count if the workload has none about this kind.
        let says = |key: &&str| workload.annotations.contains_key(*key);
        let on_itself = [about.reload, SEARCH, AUTO, about.auto].iter().any(says);
        let from: &Texts = if on_itself { &workload.annotations } else { &workload.template };
        let text = |key: &str| from.get(key).map(String::as_str);
        let excluded: Vec<&str> =
            workload.annotation(about.exclude).unwrap_or_default().split(',').map(str::trim).collect();
        let auto: Vec<&str> =
            [AUTO, about.auto].into_iter().filter(|key| text(key).is_some_and(is_true)).collect();
        let searches = text(SEARCH) == Some("true");
        if let Some(list) = text(about.reload) {
            for pattern in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
                self.listed(about, pattern, &excluded);
            }
        }
        if auto.is_empty() && !searches {
            for key in [AUTO, about.auto].into_iter().filter(|key| text(key).is_some()) {
                self.findings.push(differs(
                    key,
                    "is not \"true\", so Copyrator does not restart this workload; Copyrator has no --auto-reload-all",
                ));
            }
            return;
        }
        let Some(references) = &workload.references else {
            let told = "import cannot read the pod template: list the objects that the template uses in spec.watch by hand";
            self.findings.push(none(auto.first().unwrap_or(&SEARCH), told));
            return;
        };
        let referred =
            references.iter().filter(|one| one.kind == about.kind && !excluded.contains(&&*one.name));
        for one in referred {
            let known = self.known(about.kind, &one.name);
            let says = |key: &str| known.is_some_and(|known| known.annotation(key) == Some("true"));
            if says(IGNORE) {
                continue;
            }
            if !auto.is_empty() || says(MATCH) {
                self.watched.keys(one.kind, &one.name, one.keys.as_deref());
            } else if known.is_none() {
                self.findings.push(none(
                    SEARCH,
                    format!(
                        "{} {} not found, so import cannot check whether the object has {MATCH}: pass its manifest too, or read the \
                         object from the cluster",
                        one.kind, one.name
                    ),
                ));
            }
        }
        for key in auto.iter().chain(searches.then_some(&SEARCH)) {
            self.findings.push(differs(
                key,
                "the monitor lists the objects and keys that the pod template uses now. It does not follow later changes of the pod \
                 template: annotate the workload with copyrator.dev/restart=true instead to follow them",
            ));
        }
    }

    /// Adds one entry of a list. If the entry would match an excluded object, adds a finding instead: a glob
    /// cannot express an exception.
    fn listed(&mut self, about: &About, pattern: &str, excluded: &[&str]) {
        let front = if pattern.starts_with('^') { "" } else { "^" };
        let back = if pattern.ends_with('$') { "" } else { "$" };
        let globs = match globs(&format!("{front}{pattern}{back}"), Anchoring::Nowhere) {
            Ok(globs) => globs,
            Err(why) => {
                let told = format!(
                    "the pattern {pattern:?} {why}, so import cannot convert it: write the names or globs into spec.watch"
                );
                self.findings.push(none(about.reload, told));
                return;
            }
        };
        for glob in globs.into_iter().filter(|glob| can_match(glob, NameKind::Object)) {
            let ignored = self.found.objects.iter().filter(|one| {
                one.kind == about.kind
                    && one.namespace == self.workload.namespace
                    && one.annotation(IGNORE) == Some("true")
            });
            let unwanted = excluded.iter().copied().chain(ignored.map(|one| one.name.as_str()));
            match unwanted.filter(|name| matches(&glob, name)).collect::<Vec<_>>().as_slice() {
                [] => self.watched.all(about.kind, &glob),
                [only] if *only == glob => {}
                unwanted => self.findings.push(none(
                    about.reload,
                    format!(
                        "{pattern:?} also matches {}, which are excluded or ignored, and a glob cannot exclude names: list the names in \
                         spec.watch",
                        unwanted.join(", ")
                    ),
                )),
            }
        }
    }

    fn known(&self, kind: Kind, name: &str) -> Option<&AnnotatedObject> {
        let namespace = &self.workload.namespace;
        self.found
            .objects
            .iter()
            .find(|one| one.kind == kind && one.namespace == *namespace && one.name == name)
    }

    fn of_secret_stores(&mut self) {
        let workload = self.workload;
        let of_csi =
            workload.annotations.keys().chain(workload.template.keys()).find(|key| key.starts_with(CSI));
        let is_auto = [&workload.annotations, &workload.template]
            .iter()
            .any(|texts| texts.get(AUTO).is_some_and(|it| is_true(it)));
        let about = of_csi.map(String::as_str).or((is_auto && workload.uses_csi).then_some(AUTO));
        if let Some(about) = about {
            self.findings.push(none(
                about,
                "a monitor cannot watch a SecretProviderClass: let the driver sync it into a Secret (secretObjects), and add that Secret \
                 to spec.watch",
            ));
        }
    }
}

/// Whether Go's `strconv.ParseBool` reads the text as true.
fn is_true(text: &str) -> bool {
    ["1", "t", "T", "true", "TRUE", "True"].contains(&text)
}

/// Returns how long Reloader pauses a Deployment after a restart, as the monitor's minimum interval.
fn pause(workload: &AnnotatedWorkload, findings: &mut Vec<Finding>) -> Option<Span> {
    let text = workload.annotation(PAUSE).filter(|_| workload.kind == WorkloadKind::Deployment)?;
    let span = Span::new(text);
    if span.get().is_err() {
        findings.push(none(
            PAUSE,
            format!("{text:?} is not a duration: write pace.minInterval by hand, as in 5m or 1h30m"),
        ));
        return None;
    }
    findings.push(differs(
        PAUSE,
        format!(
            "becomes the minimum time between two restarts (pace.minInterval: {text}). Copyrator does not pause the Deployment: other \
             changes to the Deployment roll out at once"
        ),
    ));
    Some(span)
}

/// Returns findings about Reloader's own marks on the workload, and what happens to them once Reloader is
/// removed.
fn left_behind(workload: &AnnotatedWorkload) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut left = workload.stakater.clone();
    left.extend(workload.template.contains_key(LAST).then(|| LAST.to_owned()));
    if !left.is_empty() {
        findings.push(differs(
            "spec.template",
            format!(
                "{} stays on the pod template and has no effect; removing it changes the pod template and causes one rollout",
                left.join(", ")
            ),
        ));
    }
    if workload.annotations.contains_key(PAUSED_AT) {
        findings.push(differs(
            PAUSED_AT,
            "Reloader has paused this Deployment: after you stop Reloader, resume the Deployment with kubectl rollout resume",
        ));
    }
    if workload.annotations.contains_key(STRATEGY) {
        findings.push(differs(STRATEGY, "is for Argo Rollouts and has no effect on this workload"));
    }
    findings
}

/// Returns a finding about an object for which Reloader restarts no workload.
pub(super) fn ignored(object: &AnnotatedObject) -> Option<MonitorDraft> {
    object.annotation(IGNORE).filter(|text| *text == "true")?;
    let told = format!(
        "the monitors of this import leave this object out; to exclude it everywhere: kubectl annotate {} {} -n {} \
         copyrator.dev/restart=false",
        object.kind.resource().singular(),
        object.name,
        object.namespace
    );
    let origin = Origin::object(Tool::Reloader, object.kind, &object.namespace, &object.name);
    Some(MonitorDraft::nothing(origin, vec![differs(IGNORE, told)]))
}
