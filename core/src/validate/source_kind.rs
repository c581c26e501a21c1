//! Resolves the kind of a rule's sources.

use std::collections::BTreeSet;

use super::{
    SpecFault, invalid,
    template_kinds::{group, never_rendered},
};
use crate::{
    api::{Problem, SourceSpec},
    names::{InstanceKind, Kind, TemplateKind, is_of_kubernetes},
};

const FIELD: &str = "spec.source.kind";

/// Returns the kind of a rule's sources: a built-in [`Kind`], or a custom resource that is `granted` to
/// rules.
///
/// Rules never copy objects of the kind, or do not copy them in this installation. The problem names the
/// alternative.
pub(super) fn source_kind(source: &SourceSpec, granted: &BTreeSet<TemplateKind>) -> Result<Kind, Problem> {
    let (kind, version) = (&*source.kind, source.api_version.as_deref());
    let group = version.map(group);
    let is_it = |known: &Kind| {
        let resource = known.resource();
        resource.kind == kind && group.is_none_or(|group| group == resource.group)
    };
    let declare = |why: &str| Err(invalid(FIELD, format!("a rule cannot copy a {kind}{why}")));
    if let Some(known) = Kind::ALL.into_iter().find(is_it) {
        let served = known.resource().api_version;
        return match version.filter(|version| *version != served) {
            _ if !known.is_copied() => declare(": declare it in a CopyratorTemplate"),
            Some(version) => Err(invalid(
                "spec.source.apiVersion",
                format!(
                    "a rule copies {kind} in version {served}, not {version:?}: write {served}, or remove apiVersion"
                ),
            )),
            None => Ok(known),
        };
    }
    if let Some(why) = never_rendered(version.unwrap_or_default(), kind) {
        return declare(&format!(": {why}"));
    }
    let Some(version) = version else {
        let copied: Vec<&str> = Kind::ALL
            .into_iter()
            .filter(|known| known.is_copied())
            .map(|known| known.resource().kind)
            .collect();
        let message = format!(
            "rules copy these kinds without apiVersion: {}. {kind:?} is not one of them: for a custom resource, set \
             spec.source.apiVersion, too; declare any other object in a CopyratorTemplate",
            copied.join(", ")
        );
        return Err(invalid(FIELD, message));
    };
    let is_it = |one: &&TemplateKind| *one.kind.api_version == *version && *one.kind.kind == *kind;
    match granted.iter().filter(is_it).find_map(|one| one.rendered).filter(|kind| kind.is_copied()) {
        Some(kind) => Ok(kind),
        None if is_of_kubernetes(group.unwrap_or_default()) => declare(": declare it in a CopyratorTemplate"),
        None => {
            let modes = match granted.is_empty() {
                true => {
                    "; a Copyrator with the chart's value namespaces, or with --rule-name, never copies custom resources"
                }
                false => "",
            };
            let plural = InstanceKind::new(version, kind).usual_plural();
            Err(SpecFault::KindNotGranted.problem(format!(
                "{FIELD}: this Copyrator may not copy {kind} of {version}: add {{apiVersion: {version}, kind: {kind}, resource: {plural}, \
                 use: [render, copy]}} to the chart's value templates.kinds (--template-kinds); check the resource with `kubectl \
                 api-resources`{modes}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    #[test]
    fn a_kind_is_found_by_its_name_or_by_its_grant() {
        let kinds = GrantedKinds::default();
        let texts = [
            "cert-manager.io/v1/Issuer/issuers/render+copy",
            "cert-manager.io/v1/Certificate/certificates/render",
            "serving.knative.dev/v1/Service/services/render+copy",
        ];
        let granted = TemplateKind::read_all(texts, &kinds).unwrap();
        let kind = |kind: &str, version: Option<&str>| {
            let source = SourceSpec {
                kind: kind.into(),
                api_version: version.map(Into::into),
                ..SourceSpec::default()
            };
            source_kind(&source, &granted)
                .map(|kind| kind.resource().qualified())
                .map_err(|problem| (SpecFault::of(&problem), problem.message))
        };
        for (written, version, expected) in [
            ("ConfigMap", None, "configmaps"),
            ("ConfigMap", Some("v1"), "configmaps"),
            ("RoleBinding", None, "rolebindings.rbac.authorization.k8s.io"),
            ("Issuer", Some("cert-manager.io/v1"), "issuers.cert-manager.io"),
            ("Service", Some("serving.knative.dev/v1"), "services.serving.knative.dev"),
        ] {
            assert_eq!(kind(written, version).as_deref(), Ok(expected), "{written}");
        }
        let (invalid, not_granted) = (Some(SpecFault::Invalid), Some(SpecFault::KindNotGranted));
        for (written, version, fault, says) in [
            ("Pod", None, invalid, "a rule cannot copy a Pod: a workload creates this kind"),
            ("Deployment", None, invalid, "declare it in a CopyratorTemplate"),
            ("Service", Some("v1"), invalid, "declare it in a CopyratorTemplate"),
            ("StatefulSet", Some("apps/v1"), invalid, "declare it in a CopyratorTemplate"),
            ("CopyratorRule", Some("copyrator.dev/v1alpha1"), invalid, "objects of its own kinds"),
            ("Role", None, invalid, "bind a ClusterRole"),
            ("NetworkPolicy", Some("networking.k8s.io/v2"), invalid, "write networking.k8s.io/v1"),
            ("Issuer", None, invalid, "set spec.source.apiVersion, too"),
            ("", None, invalid, "is not one of them"),
            ("Certificate", Some("cert-manager.io/v1"), not_granted, "use: [render, copy]"),
            (
                "Issuer",
                Some("cert-manager.io/v2"),
                not_granted,
                "apiVersion: cert-manager.io/v2, kind: Issuer",
            ),
        ] {
            let (found, message) = kind(written, version).unwrap_err();
            assert_eq!(found, fault, "{written}: {message}");
            assert!(message.contains(says), "{message}");
            assert!(!message.contains("--rule-name"), "some kind is granted: {message}");
        }
    }

    /// No kind is granted with `--namespaces` or `--rule-name`, whatever the chart's value `templates.kinds`
    /// contains.
    #[test]
    fn where_no_kind_is_granted_the_message_names_the_modes_that_copy_none() {
        let version = Some("cert-manager.io/v1".into());
        let source = SourceSpec { kind: "Issuer".into(), api_version: version, ..SourceSpec::default() };
        let message = source_kind(&source, &BTreeSet::new()).unwrap_err().message;
        assert!(
            message.contains("value namespaces, or with --rule-name, never copies custom resources"),
            "{message}"
        );
    }
}
