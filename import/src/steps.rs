//! The user's next steps after an import, for the tools that were found.

use super::{Imported, Made, Proposal, Tool, chart};

/// Placeholders in the steps: the printed objects, and their kinds.
const THESE: &str = "{these}";
const KINDS: &str = "{kinds}";

/// The steps for replacing a tool that copies, in order, with the reasons.
const APPLY: [&str; 2] = [
    "Apply these {these}. They are suspended: nothing is written until you say so.",
    "Look at what they would do: copyrator plan. Correct what is marked NO EQUIVALENT by hand.",
];
const STOP: &str = "Stop the other tool (kubectl scale deployment --replicas=0). Do not delete its annotations or objects while it runs: \
     it would delete its copies.";
/// The step that replaces `STOP` for Kyverno, which does more than generate, and whose webhooks fail closed.
const LET_GO: &str = "Have Kyverno let go, rule by rule: synchronize: false, and when it has taken that up, take the generate rule out of its \
     policy. Do not scale Kyverno down: its webhooks would refuse what others write.";
const UNSUSPEND: [&str; 2] = [
    "Unsuspend: kubectl patch {kinds} NAME -n NAMESPACE --type=merge -p '{\"spec\":{\"suspend\":false}}'. With \
     conflictPolicy Adopt, copies that are there and hold the same content are taken over as they are, so that nothing \
     restarts and nothing is absent for a moment; what holds something else is left alone and reported.",
    "Look at the result: copyrator status. Where a conflict is reported, make the contents equal, or say conflictPolicy: \
     Overwrite.",
];
const UNINSTALL: &str = "Take the other tool's annotations off the sources, and uninstall it. Then say conflictPolicy: Refuse, if nothing else \
     is to be taken over.";

/// The steps for replacing a tool that restarts. The other tool is removed last. If the other tool were
/// removed first, a change before Copyrator's start would restart no workload; if both tools see a change,
/// Copyrator finds pods younger than the change.
const RESTARTING: [&str; 5] = [
    "Apply these monitors. They are suspended: no workload restarts for them.",
    "Look at what they reach: copyrator plan. Correct what is marked NO EQUIVALENT by hand.",
    "Unsuspend them while the other tool still runs: kubectl patch configmonitor NAME -n NAMESPACE --type=merge -p \
     '{\"spec\":{\"suspend\":false}}'. Each workload is marked with the content that it runs with, and nobody restarts. For what \
     the other tool restarts meanwhile, Copyrator does not restart it again.",
    "When copyrator status shows them all as up to date, stop the other tool (kubectl scale deployment --replicas=0). A \
     change before that is the other tool's, a change after it is Copyrator's: none is lost.",
    "Take the other tool's annotations off the workloads, not off their pod templates, and uninstall it. What it left on pod \
     templates does nothing, and taking it off is a rollout: leave that to the next release.",
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
