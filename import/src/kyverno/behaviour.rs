//! Differences in behaviour between a Kyverno rule and the objects that replace it.

use super::{read::GenerateRule, trigger::Trigger};
use crate::finding::{Finding, differs};

/// Returns the differences of an imported rule. `is_owned` is whether the trigger owns the objects that the
/// rule makes.
pub(super) fn behaviour(
    rule: &GenerateRule,
    trigger: &Trigger,
    is_clone: bool,
    is_owned: bool,
) -> Vec<Finding> {
    let generate = &rule.body["generate"];
    let (one, several) = (trigger.one(), trigger.several());
    let mut findings = vec![differs(
        "PolicyException",
        "an exception that was not read with the policy does not count here: exclude what it means",
    )];
    findings.push(match &rule.namespace {
        None => differs(
            "resourceFilters",
            "the namespace kyverno is left out, as by Kyverno's default; what else the resourceFilters and webhooks of Kyverno's ConfigMap \
             leave out is not read: exclude it here, too",
        ),
        Some(_) => differs(
            "resourceFilters",
            "what the resourceFilters and webhooks of Kyverno's ConfigMap leave out is not read: exclude it here, too",
        ),
    });
    if !rule.existing {
        findings.push(match trigger {
            Trigger::Namespace => differs(
                "generateExisting",
                "namespaces that are there get it, too; Kyverno makes it where a namespace is created or changed after the policy. Look at \
                 copyrator plan before you unsuspend: a default-deny NetworkPolicy, say, closes each of them",
            ),
            Trigger::Objects(_) => differs(
                "generateExisting",
                format!(
                    "{several} that are there get it, too; Kyverno makes it where one is created or changed after the policy. Look at \
                     copyrator plan before you unsuspend"
                ),
            ),
        });
    }
    let is_synchronized = generate["synchronize"] == true;
    let is_orphaned = is_synchronized && generate["orphanDownstreamOnPolicyDelete"] == true;
    if !is_synchronized {
        let stays = match (trigger, is_owned) {
            (Trigger::Objects(_), true) => format!(
                "It goes with its {one}, as there, and 5 minutes after the {one} is no longer chosen, where Kyverno keeps it"
            ),
            (Trigger::Objects(_), false) => format!(
                "It stays when the {one} goes or is no longer chosen, as there (deletionPolicy: Retain)"
            ),
            _ => format!("It stays when the {one} is no longer chosen, as there (deletionPolicy: Retain)"),
        };
        findings.push(differs(
            "synchronize",
            format!(
                "Kyverno makes it once, and people own it afterwards; here it is kept: what is edited or deleted comes back, and a change of \
                 the source or text arrives. What people have changed by now is reported, not written over. {stays}"
            ),
        ));
    }
    if is_orphaned {
        let chosen = match trigger {
            Trigger::Namespace => "when the namespace is no longer chosen".into(),
            Trigger::Objects(_) => format!("when the {one} goes or is no longer chosen"),
        };
        findings.push(differs(
            "orphanDownstreamOnPolicyDelete",
            format!(
                "deletionPolicy: Retain keeps it when the template goes, as there, and also {chosen}, where \
                 Kyverno deletes it"
            ),
        ));
    } else if is_synchronized && is_clone {
        findings.push(differs(
            "deletionPolicy",
            "a copy goes 5 minutes after its source, its namespace's label or the rule; Kyverno deletes it at once with the first two, and \
             keeps it when the policy goes (deletionPolicy: Retain keeps it always)",
        ));
    } else if is_synchronized {
        let told = match trigger {
            Trigger::Namespace => {
                "what a namespace is to have no longer, or no template declares, goes after 5 minutes, not at once (deletionGrace: 0s)"
                    .into()
            }
            Trigger::Objects(_) => format!(
                "what is made goes at once with its {one}, which owns it; what it is to have no longer, or no template declares, goes \
                 after 5 minutes, not at once (deletionGrace: 0s)"
            ),
        };
        findings.push(differs("deletionGrace", told));
    }
    if let Trigger::Objects(kind) = trigger {
        findings.push(differs(
            "forEach.objects",
            format!(
                "what Copyrator itself makes is not chosen, so that templates make no chains, nor is an object of which expressions can read more \
                 than 64 KiB; objects of {kind} alone are chosen, and not those of a kind {one} in another group"
            ),
        ));
    }
    if is_clone {
        findings.extend([
            differs("copy.labels", "labels are carried over, but for the tracking marks of other tools (Argo CD, Flux, Helm, …)"),
            differs("copy.annotations", "annotations are not carried over: name those that are needed in copy.annotations.keep"),
            differs(
                "conflictPolicy",
                "what has the same content is taken over, the rest is reported and stays; Kyverno writes over it",
            ),
            differs(
                "authority",
                "the user who applies the rule must be allowed to read the source and to write in the targets; Kyverno uses the rights of its \
                 own account",
            ),
        ]);
    }
    findings.push(differs(
        "uninstall",
        "set synchronize: false before the rule is taken out of its policy, so that Kyverno leaves what it has made; its labels stay and do \
         nothing. What goes with a policy differs between Kyverno's versions: try it on one namespace",
    ));
    findings
}
