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
        "import ignores a PolicyException that it did not read together with the policy: add its resources to exclude",
    )];
    findings.push(match &rule.namespace {
        None => differs(
            "resourceFilters",
            "import excludes the namespace kyverno, as Kyverno's default does; it does not read the other resourceFilters and webhooks in \
             Kyverno's ConfigMap: exclude these resources in the rule or template",
        ),
        Some(_) => differs(
            "resourceFilters",
            "import does not read the resourceFilters and webhooks in Kyverno's ConfigMap: exclude these resources in the template",
        ),
    });
    if !rule.existing {
        findings.push(match trigger {
            Trigger::Namespace => differs(
                "generateExisting",
                "existing namespaces get the object, too; Kyverno makes the object only in namespaces that are created or changed after \
                 the policy. Check `copyrator plan` before you unsuspend: a default-deny NetworkPolicy, for example, blocks the traffic \
                 of every existing namespace",
            ),
            Trigger::Objects(_) => differs(
                "generateExisting",
                format!(
                    "existing {several} get the object, too; Kyverno makes the object only for {several} that are created or changed \
                     after the policy. Check `copyrator plan` before you unsuspend"
                ),
            ),
        });
    }
    let is_synchronized = generate["synchronize"] == true;
    let is_orphaned = is_synchronized && generate["orphanDownstreamOnPolicyDelete"] == true;
    if !is_synchronized {
        let stays = match (trigger, is_owned) {
            (Trigger::Objects(_), true) => format!(
                "Like Kyverno, Copyrator deletes the object with its {one}. Copyrator also deletes the object 5 minutes after the {one} \
                 is no longer selected; Kyverno keeps the object then"
            ),
            (Trigger::Objects(_), false) => format!(
                "Like Kyverno, Copyrator keeps the object when the {one} is deleted or no longer selected (deletionPolicy: Retain)"
            ),
            _ => format!(
                "Like Kyverno, Copyrator keeps the object when the {one} is no longer selected (deletionPolicy: Retain)"
            ),
        };
        findings.push(differs(
            "synchronize",
            format!(
                "Kyverno makes the object once and then leaves it alone; Copyrator restores the object after edits and deletion, and \
                 updates it when the source or template changes. Copyrator reports an object that people have changed, and does not \
                 overwrite it. {stays}"
            ),
        ));
    }
    if is_orphaned {
        let chosen = match trigger {
            Trigger::Namespace => "when the namespace is no longer selected".into(),
            Trigger::Objects(_) => format!("when the {one} is deleted or no longer selected"),
        };
        findings.push(differs(
            "orphanDownstreamOnPolicyDelete",
            format!(
                "deletionPolicy: Retain keeps the object when the template is deleted, like Kyverno. It also keeps the object {chosen}; \
                 Kyverno deletes it then"
            ),
        ));
    } else if is_synchronized && is_clone {
        findings.push(differs(
            "deletionPolicy",
            "Copyrator deletes a copy 5 minutes after its source, its namespace's label or the rule is removed; Kyverno deletes it at \
             once with the source or the label, and keeps it when the policy is deleted (deletionPolicy: Retain always keeps it)",
        ));
    } else if is_synchronized {
        let told = match trigger {
            Trigger::Namespace => {
                "Copyrator deletes an object that no template declares for its namespace any more after 5 minutes, not at once \
                 (deletionGrace: 0s)"
                    .into()
            }
            Trigger::Objects(_) => format!(
                "Kubernetes deletes the object with its owner, the {one}. Copyrator deletes an object that no template declares any more \
                 after 5 minutes, not at once (deletionGrace: 0s)"
            ),
        };
        findings.push(differs("deletionGrace", told));
    }
    if let Trigger::Objects(kind) = trigger {
        findings.push(differs(
            "forEach.objects",
            format!(
                "the template ignores objects that Copyrator makes, so templates form no chains. It also ignores objects of which \
                 expressions could read more than 64 KiB, and objects of a kind {one} in another group than {kind}"
            ),
        ));
    }
    if is_clone {
        findings.extend([
            differs("copy.labels", "Copyrator copies all labels except the tracking labels of other tools (Argo CD, Flux, Helm, …)"),
            differs("copy.annotations", "Copyrator copies no annotations: list those that you need in copy.annotations.keep"),
            differs(
                "conflictPolicy",
                "Copyrator takes over an existing object with the same content, and reports any other as a conflict; Kyverno overwrites it",
            ),
            differs(
                "authority",
                "the user who applies the rule must be allowed to read the source and to write in the target namespaces; Kyverno uses the \
                 rights of its own ServiceAccount",
            ),
        ]);
    }
    findings.push(differs(
        "uninstall",
        "set synchronize: false before you delete the rule from its policy, so that Kyverno keeps its objects; its labels stay and have \
         no effect. Kyverno's versions differ in what they delete with a policy: try it on one namespace",
    ));
    findings
}
