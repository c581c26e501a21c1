//! The webhook's answers to a write of an object of a file. The hooks are asked in the order of the API server.

use serde_json::Value;

use super::{Fault, FileKind, Write, spec};
use crate::{
    admit::{
        Parties, Purpose,
        decide::{Breach, Case, Decision, Verdict},
        respond::patch,
    },
    model::World,
    plan::policy::scan::is_exempt,
    validate::Candidate,
};

/// The answers of all hooks to a write.
pub(crate) struct Admission {
    /// The object with the author's stamp, and with the labels and annotations that policies add.
    pub object: Value,
    /// The decision about the spec, or about Copyrator's annotations. Without a question to the API server, the author's rights are
    /// not checked.
    pub decision: Decision,
    /// The violations of policies; `None` if the hooks of policies do not cover the object.
    pub breaches: Option<Vec<Breach>>,
}

/// Whether the API server calls a webhook: with `--namespaces` there is none.
pub(crate) fn has_webhook(world: &World) -> bool {
    world.namespace_scope().is_none_or(|places| !places.is_all())
}

impl Write<'_> {
    /// Asks all hooks; `of_ours` is the purpose for kinds of Copyrator.
    pub(crate) fn admit(
        mut self,
        of_ours: &Purpose,
        parties: &Parties,
        world: &World,
    ) -> Result<Admission, Fault> {
        let Some(kind) = self.of.kind.policed() else {
            let decision = self.decided(of_ours, parties)?;
            if matches!(&decision, Decision::Now(verdict) if verdict.denial.is_some()) {
                return Ok(Admission { object: self.new, decision, breaches: None });
            }
            // Decoding drops unknown fields, which the decision names.
            if let Some(spec) = spec(self.of.kind, &self.new["spec"]) {
                self.new["spec"] = spec;
            }
            // A policy uses no rights, so it has no author.
            if self.of.kind != FileKind::Policy {
                self.edit(&Purpose::Author, parties, world)?;
            }
            return Ok(Admission { object: self.new, decision, breaches: None });
        };
        self.edit(&Purpose::Author, parties, world)?;
        let is_exempt = is_exempt(world, self.of.place());
        let decision = match world.settings().annotations && has_webhook(world) && !is_exempt {
            true => self.decided(&Purpose::Annotations, parties)?,
            false => Decision::Now(Verdict::allow()),
        };
        let text = self.new.to_string();
        if is_exempt || Candidate::decode(kind, &text).is_ok_and(|object| object.is_kubernetes_own()) {
            return Ok(Admission { object: self.new, decision, breaches: None });
        }
        self.edit(&Purpose::Defaults, parties, world)?;
        let breaches = self.asked(&Purpose::Policies, parties, |case| match case {
            Case::Write(write) => Ok(write.breaches(&write.look(world)?)),
            Case::Settled(_) | Case::Instance(_) => Ok(Vec::new()),
        })?;
        Ok(Admission { object: self.new, decision, breaches: Some(breaches) })
    }

    /// The decision of a hook that needs no facts of the world.
    fn decided(&self, purpose: &Purpose, parties: &Parties) -> Result<Decision, Fault> {
        self.asked(purpose, parties, |case| match case {
            Case::Settled(decision) => Ok(decision),
            Case::Write(_) | Case::Instance(_) => Ok(Decision::Now(Verdict::allow())),
        })
    }

    /// Applies the edits of a mutating hook.
    fn edit(&mut self, purpose: &Purpose, parties: &Parties, world: &World) -> Result<(), Fault> {
        let edits = self.asked(purpose, parties, |case| match case {
            Case::Settled(Decision::Now(verdict)) => Ok(verdict.edits),
            Case::Write(write) => Ok(write.judge(write.look(world)?).edits),
            Case::Settled(Decision::Ask(_)) | Case::Instance(_) => Ok(Vec::new()),
        })?;
        json_patch::patch(&mut self.new, &patch(&edits))
            .map_err(|_| Fault::new("labels and annotations cannot be added; check its metadata"))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{
        authority::Subject,
        files::{FileObject, put},
        marks::{AUTHOR, COPY_TO, DECLARES},
        model::Settings,
        names::NamespacedName,
    };

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn admitted(world: &World, metadata: Value, old: Option<&Value>) -> Admission {
        let name = NamespacedName::new("shop", "app");
        let of = &FileObject { kind: FileKind::ConfigMap, name };
        let writer = &Subject { user: "alice".into(), ..Subject::default() };
        let new = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        let write = Write { of, writer, new, old, now: NOW };
        write.admit(&Purpose::OwnKinds, &Parties::default(), world).unwrap()
    }

    /// Validating hooks see what mutating hooks have added.
    #[test]
    fn defaults_and_stamps_come_before_the_verdict() {
        let mut world = World::new(Settings { annotations: true, ..Settings::default() });
        let policy = json!({
            "metadata": { "name": "owned" },
            "spec": {
                "match": { "kinds": ["ConfigMap"] }, "labels": { "required": ["owner"] },
                "defaults": { "labels": { "owner": "nobody" } },
            },
        });
        put(FileKind::Policy, policy, &mut world, NOW).unwrap();
        let metadata = |annotations: Value| {
            let labels = json!({ DECLARES: "true" });
            json!({ "name": "app", "namespace": "shop", "labels": labels, "annotations": annotations })
        };
        let first = admitted(&world, metadata(json!({ COPY_TO: "web", AUTHOR: "admin" })), None);
        assert!(first.breaches.is_some_and(|breaches| breaches.is_empty()));
        assert!(matches!(first.decision, Decision::Ask(_)));
        assert_eq!(first.object["metadata"]["labels"]["owner"], "nobody");
        assert_eq!(first.object["metadata"]["annotations"][AUTHOR], "alice");
        let old = json!({ "metadata": metadata(json!({ COPY_TO: "web", AUTHOR: "bob" })) });
        let same = admitted(&world, metadata(json!({ COPY_TO: "web" })), Some(&old));
        assert_eq!(same.object["metadata"]["annotations"][AUTHOR], "bob");
        let wrong = admitted(&world, metadata(json!({ COPY_TO: "Not A Name" })), None);
        assert!(matches!(wrong.decision, Decision::Now(verdict) if verdict.denial.is_some()));
    }

    #[test]
    fn a_spec_that_is_no_map_is_refused_for_that() {
        let of = &FileObject { kind: FileKind::Rule, name: NamespacedName::new("shop", "app") };
        let new = json!({
            "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
            "metadata": { "name": "app", "namespace": "shop" }, "spec": [],
        });
        let write = Write { of, writer: &Subject::default(), new, old: None, now: NOW };
        let admission =
            write.admit(&Purpose::OwnKinds, &Parties::default(), &World::new(Settings::default()));
        assert!(matches!(admission.unwrap().decision, Decision::Now(verdict) if verdict.denial.is_some()));
    }

    #[test]
    fn the_hooks_leave_system_namespaces_alone() {
        let world =
            World::new(Settings { annotations: true, own_namespace: "shop".into(), ..Settings::default() });
        let asks = json!({ "name": "app", "labels": { DECLARES: "true" }, "annotations": { COPY_TO: "Not A Name" } });
        let Admission { decision, breaches, .. } = admitted(&world, asks, None);
        assert!(breaches.is_none() && matches!(decision, Decision::Now(verdict) if verdict.denial.is_none()));
    }
}
