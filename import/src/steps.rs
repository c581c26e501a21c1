//! The user's next steps after an import, for the tools that were found.

use super::{Imported, Made, Proposal, Tool, chart};

/// Placeholders in the steps: the printed objects, and their kinds.
const THESE: &str = "{these}";
const KINDS: &str = "{kinds}";

/// The steps for replacing a tool that copies, in order, with the reasons.
const APPLY: [&str; 2] = [
    "Apply these {these}. They are suspended: Copyrator writes nothing until you unsuspend them.",
    "See what they would do: copyrator plan. Correct by hand the entries that are marked NO EQUIVALENT.",
];
const STOP: &str = "Stop the other tool (kubectl scale deployment --replicas=0). Do not delete its annotations or objects while it runs: \
     the tool would delete its copies.";
/// The step that replaces `STOP` for Kyverno, which does more than generate, and whose webhooks fail closed.
const LET_GO: &str = "Remove the generate rules from Kyverno one by one: set synchronize: false, wait until Kyverno has applied it, then \
 delete the generate rule from its policy. Do not scale Kyverno down: its webhooks would refuse other users' writes.";
const UNSUSPEND: [&str; 2] = [
    "Unsuspend: kubectl patch {kinds} NAME -n NAMESPACE --type=merge -p '{\"spec\":{\"suspend\":false}}'. With conflictPolicy: Adopt, \
     Copyrator takes over existing copies that have the same content without changing them, so no workload restarts and no object \
     disappears. Copyrator reports copies with other content and leaves them alone.",
    "Check the result: copyrator status. Resolve a conflict by making the contents equal, or set conflictPolicy: Overwrite.",
];
const UNINSTALL: &str = "Remove the other tool's annotations from the sources, and uninstall the tool. Then set conflictPolicy: Refuse, \
 unless Copyrator should take over more objects.";

/// The steps for replacing a tool that restarts. The other tool is removed last. If the other tool were
/// removed first, a change before Copyrator's start would restart no workload; if both tools see a change,
/// Copyrator finds pods younger than the change.
const RESTARTING: [&str; 5] = [
    "Apply these monitors. They are suspended: they restart no workload.",
    "See which workloads they select: copyrator plan. Correct by hand the entries that are marked NO EQUIVALENT.",
    "Unsuspend them while the other tool still runs: kubectl patch configmonitor NAME -n NAMESPACE --type=merge -p \
     '{\"spec\":{\"suspend\":false}}'. Copyrator records the content that each workload runs with, and restarts no workload. If the other tool restarts a workload meanwhile, Copyrator does not restart it again.",
    "When copyrator status shows all workloads as up to date, stop the other tool (kubectl scale deployment --replicas=0). The other tool \
     handles changes before the stop, Copyrator handles changes after it: no change is lost.",
    "Remove the other tool's annotations from the workloads, but not from their pod templates, and uninstall the tool. Annotations that \
     it left on pod templates have no effect, and removing them causes a rollout: remove them with the next release.",
];

/// Returns the steps that fit this import.
pub(super) fn next(imported: &Imported) -> Vec<String> {
    let has = |wanted: fn(Tool) -> bool| {
        let is_of = |one: &Proposal| one.origins.iter().any(|origin| wanted(origin.tool));
        imported.proposals.iter().any(is_of)
    };
    let mut steps: Vec<String> = Vec::new();
    if has(|tool| !tool.restarts()) {
        steps.extend(chart::values(imported));
        let (these, kinds) = match (imported.rules(), imported.templates()) {
            (_, 0) => ("rules", "copyratorrule"),
            (0, _) => ("templates", "copyratortemplate"),
            _ => ("rules and templates", "copyratorrule (or copyratortemplate)"),
        };
        let is_stopped = has(|tool| !tool.restarts() && tool != Tool::Kyverno);
        let others = [has(|tool| tool == Tool::Kyverno).then_some(LET_GO), is_stopped.then_some(STOP)];
        let all = APPLY.into_iter().chain(others.into_iter().flatten()).chain(UNSUSPEND);
        let all = all.chain(is_stopped.then_some(UNINSTALL));
        steps.extend(all.map(|step| step.replace(THESE, these).replace(KINDS, kinds)));
    }
    if has(Tool::restarts) {
        steps.extend(RESTARTING.map(str::to_owned));
    }
    steps
}

impl Made {
    /// The object's kind in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Rule(_) => "rule",
            Self::Template(_) => "template",
            Self::Monitor(_) => "monitor",
        }
    }
}
