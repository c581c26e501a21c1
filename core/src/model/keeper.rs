//! Who manages an object: a controller or a tool that its owner references, labels or annotations name.

use std::collections::BTreeMap;

use super::Owner;
use crate::{
    marks::{MANAGED_BY, MANAGED_BY_VALUE, is_below, is_of_keeper, never_carried},
    validate::printable,
};

/// Values of [`MANAGED_BY`] on copies that a rule may adopt: our own value, and the value of the tool that
/// `copyrator import` replaces.
const OF_COPIES: [&str; 2] = [MANAGED_BY_VALUE, "kyverno"];
/// Annotations by which a tool recognises its objects, and the meaning of their values.
const ANNOTATIONS: [(&str, &str); 4] = [
    ("meta.helm.sh/release-name", "Helm release"),
    ("argocd.argoproj.io/tracking-id", "the Argo CD application of"),
    ("objectset.rio.cattle.io/owner-name", "the Rancher object set of"),
    ("config.k8s.io/owning-inventory", "inventory"),
];
/// Labels by which a tool recognises its objects, and the meaning of their values.
const LABELS: [(&str, &str); 5] = [
    ("argocd.argoproj.io/instance", "Argo CD application"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ("helm.toolkit.fluxcd.io/name", "Flux HelmRelease"),
    ("kapp.k14s.io/app", "kapp application"),
    ("applyset.kubernetes.io/part-of", "the ApplySet"),
];
/// Tools that make Secrets and other objects, by the domain of the tool's labels and annotations on its
/// objects.
const MAKERS: [(&str, &str); 11] = [
    ("cert-manager.io", "cert-manager"),
    ("crossplane.io", "the Crossplane controller"),
    ("external-secrets.io", "External Secrets"),
    ("hnc.x-k8s.io", "the Hierarchical Namespace Controller"),
    ("operator.1password.io", "the 1Password operator"),
    ("operators.coreos.com", "the Operator Lifecycle Manager"),
    ("sealedsecrets.bitnami.com", "Sealed Secrets"),
    ("secrets-store.csi.k8s.io", "the Secrets Store CSI driver"),
    ("secrets.doppler.com", "the Doppler operator"),
    ("secrets.hashicorp.com", "the Vault Secrets Operator"),
    ("secrets.infisical.com", "the Infisical operator"),
];
/// The longest value of an annotation that a message quotes, in bytes.
const LONGEST: usize = 128;

/// Who manages an object, in words; `None` if the object's metadata names no controller or tool.
pub fn keeper(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    owners: &[Owner],
) -> Option<Box<str>> {
    let named = |all: &BTreeMap<String, String>, (key, what): &(&str, &str)| {
        all.get(*key).map(|value| format!("{what} {}", printable(value, LONGEST)))
    };
    let owner = owners.iter().max_by_key(|owner| owner.controller);
    let owner = owner.map(|Owner { kind, name, .. }| format!("its owner {kind} {name}"));
    let maker = labels.keys().chain(annotations.keys()).filter(|key| never_carried(key)).find_map(|key| {
        let (domain, _) = key.split_once('/')?;
        let known = MAKERS.iter().find(|(outer, _)| is_below(domain, outer)).map(|(_, tool)| *tool);
        let tool = known.or_else(|| is_of_keeper(key).then_some("another tool"))?;
        Some(format!("{tool} (its label or annotation {})", printable(key, LONGEST)))
    });
    let manager = labels.get(MANAGED_BY).filter(|by| !OF_COPIES.contains(&by.as_str()));
    owner
        .or_else(|| ANNOTATIONS.iter().find_map(|mark| named(annotations, mark)))
        .or_else(|| LABELS.iter().find_map(|mark| named(labels, mark)))
        .or(maker)
        .or_else(|| manager.map(|by| format!("{by} (label {MANAGED_BY})")))
        .map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_or_a_tool_that_the_object_names_keeps_it() {
        let map = |entry: Option<(&str, &str)>| -> BTreeMap<String, String> {
            entry.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()
        };
        for (label, annotation, expected) in [
            (None, Some(("meta.helm.sh/release-name", "web")), Some("Helm release web")),
            (
                Some((MANAGED_BY, "Helm")),
                Some(("meta.helm.sh/release-name", "web")),
                Some("Helm release web"),
            ),
            (Some((MANAGED_BY, "Helm")), None, Some("Helm (label app.kubernetes.io/managed-by)")),
            (Some(("kustomize.toolkit.fluxcd.io/name", "apps")), None, Some("Flux Kustomization apps")),
            (Some(("kapp.k14s.io/app", "1")), None, Some("kapp application 1")),
            (None, Some(("argocd.argoproj.io/tracking-id", "a:/b")), Some("the Argo CD application of a:/b")),
            // These objects are copies of ours without a valid proof, and copies of a tool that Copyrator
            // replaces.
            (Some((MANAGED_BY, MANAGED_BY_VALUE)), None, None),
            (Some((MANAGED_BY, "kyverno")), None, None),
            (None, Some(("reflector.v1.k8s.emberstack.com/reflects", "platform/registry")), None),
            (Some(("app", "web")), None, None),
            (
                None,
                Some(("cert-manager.io/certificate-name", "web")),
                Some("cert-manager (its label or annotation cert-manager.io/certificate-name)"),
            ),
            (
                Some(("reconcile.external-secrets.io/managed", "true")),
                None,
                Some("External Secrets (its label or annotation reconcile.external-secrets.io/managed)"),
            ),
            (None, Some(("cert-manager.io/inject-ca-from", "a/b")), None),
            (Some(("helm.sh/chart", "web-1")), None, None),
            (
                Some(("kluctl.io/discriminator", "web")),
                None,
                Some("another tool (its label or annotation kluctl.io/discriminator)"),
            ),
        ] {
            let said = keeper(&map(label), &map(annotation), &[]);
            assert_eq!(said.as_deref(), expected, "{label:?} {annotation:?}");
        }
        let owner = |kind: &str, controller| Owner {
            kind: kind.into(),
            name: "it".into(),
            controller,
            ..Owner::default()
        };
        let said = keeper(&map(None), &map(None), &[owner("Pod", false), owner("ExternalSecret", true)]);
        assert_eq!(said.as_deref(), Some("its owner ExternalSecret it"));
        let long = "x".repeat(10_000);
        let said = keeper(&map(None), &map(Some(("meta.helm.sh/release-name", &long))), &[]).unwrap();
        assert!(said.len() < 256, "{said}");
    }
}
