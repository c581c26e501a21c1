//! Labels and annotations of other tools that Copyrator never writes.

/// Whether this label or annotation is never copied from a source, and no rule, template or policy may set
/// it. A key on this list contains content that the rule may leave out, makes a tool copy the copy again, or
/// makes a tool change or delete the copy as its own object (ClusterSecret#146, replicator#151,
/// config-syncer#509). Keys that tools read on any user's object, such as `argocd.argoproj.io/secret-type`,
/// may be copied.
pub fn never_carried(key: &str) -> bool {
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let is_below = |outer: &&str| is_below(domain, outer);
    EXACT.contains(&key)
        || DOMAINS.iter().any(is_below)
        || CONTENT.iter().any(|part| name.contains(part))
        || (domain.is_empty() && name.starts_with("olm."))
        || (is_below(&"toolkit.fluxcd.io") && ["name", "namespace", "checksum"].contains(&name))
}

/// Whether a domain is `outer` or a subdomain of it.
pub(crate) fn is_below(domain: &str, outer: &str) -> bool {
    domain.strip_suffix(outer).is_some_and(|inner| inner.is_empty() || inner.ends_with('.'))
}

/// Parts of the names of annotations in which tools store the last applied or last seen content. Operators
/// choose the domains of these names.
const CONTENT: [&str; 6] =
    ["last-applied", "lastApplied", "last-handled", "last-known-config", "last-config", "previous-config"];

const EXACT: [&str; 52] = [
    // These annotations contain content of the object.
    "openshift.io/token-secret.value",
    "openshift.io/token-secret.name",
    // These annotations name ServiceAccounts, and each namespace has its own ServiceAccounts.
    "kubernetes.io/enforce-mountable-secrets",
    "kubernetes.io/service-account.name",
    "kubernetes.io/service-account.uid",
    "openshift.io/internal-registry-pull-secret-ref",
    // Kubernetes' own tools, and Helm.
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "addonmanager.kubernetes.io/mode",
    "kubernetes.io/cluster-service",
    "k8s.io/cluster-service",
    "config.kubernetes.io/owning-inventory",
    "config.kubernetes.io/origin",
    "control-plane.alpha.kubernetes.io/leader",
    // Argo CD and Flux.
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/installation-id",
    "fluxcd.io/sync-checksum",
    "fluxcd.io/sync-gc-mark",
    // cert-manager, and tools that inject certificates.
    "cert-manager.io/certificate-name",
    "cert-manager.io/certificate-revision",
    "cert-manager.io/issuer-name",
    "cert-manager.io/issuer-kind",
    "cert-manager.io/issuer-group",
    "cert-manager.io/next-private-key",
    "controller.cert-manager.io/fao",
    "config.openshift.io/inject-trusted-cabundle",
    "service.beta.openshift.io/inject-cabundle",
    "service.beta.openshift.io/originating-service-name",
    "service.beta.openshift.io/originating-service-uid",
    "service.alpha.openshift.io/inject-cabundle",
    // Tools that copy Secrets and ConfigMaps.
    "kruise.io/resourcedistribution.resource.from",
    "management.cattle.io/project-scoped-secret",
    "management.cattle.io/project-scoped-secret-copy",
    "secret-copier.deckhouse.io/enabled",
    "secretgen.carvel.dev/image-pull-secret",
    "secretgen.k14s.io/image-pull-secret",
    "synator/sync",
    "synator/include-namespaces",
    "synator/exclude-namespaces",
    "sealedsecrets.bitnami.com/managed",
    "sealedsecrets.bitnami.com/patch",
    // Operators that make other objects.
    "cnrm.cloud.google.com/managed-by-kcc",
    "crossplane.io/claim-name",
    "crossplane.io/claim-namespace",
    "crossplane.io/composite",
    "crossplane.io/composition-resource-name",
    // Cleaners delete objects with these annotations.
    "janitor/ttl",
    "janitor/expires",
    // Tools that restore and restart.
    "velero.io/backup-name",
    "velero.io/restore-name",
    "reloader.stakater.com/last-reloaded-from",
];

/// Domains, including subdomains, whose keys tools use only for their own bookkeeping.
const DOMAINS: [&str; 48] = [
    "copyrator.dev",
    // Tools that apply and deploy.
    "applyset.kubernetes.io",
    "apps.open-cluster-management.io",
    "aws.cdk.eks",
    "carto.run",
    "cli-utils.sigs.k8s.io",
    "config.k8s.io",
    "configmanagement.gke.io",
    "configsync.gke.io",
    "fleet.cattle.io",
    "helm.sh",
    "internal.config.kubernetes.io",
    "internal.kpt.dev",
    "k0s.k0sproject.io",
    "kapp.k14s.io",
    "karmada.io",
    "kluctl.io",
    "ksonnet.io",
    "kubefed.io",
    "objectset.rio.cattle.io",
    "pulumi.com",
    "skaffold.dev",
    "tanka.dev",
    // Operators, and the objects that they make.
    "capsule.clastix.io",
    "kopf.zalando.org",
    "operatorframework.io",
    "operators.coreos.com",
    "projectcapsule.dev",
    "resourcedistribution.kruise.io",
    "strimzi.io",
    "trust.cert-manager.io",
    "vcluster.loft.sh",
    // Tools that make or copy Secrets and ConfigMaps.
    "clustersecret.io",
    "clustersecret.com",
    "emberstack.com",
    "hnc.x-k8s.io",
    "k8s.bitwarden.com",
    "kubed.appscode.com",
    "kyverno.io",
    "olli.com",
    "operator.1password.io",
    "v1.mittwald.de",
    "reconcile.external-secrets.io",
    "secretgenerator.mittwald.de",
    "secrets-store.csi.k8s.io",
    "secrets.doppler.com",
    "secrets.hashicorp.com",
    "secrets.infisical.com",
];

/// Domains whose marks do not show that a tool manages the object: the domains of tools that `copyrator
/// import` replaces, our own domain, and Helm's domain, since charts set labels of Helm's domain on objects
/// of any tool.
const NO_KEEPERS: [&str; 9] = [
    "clustersecret.com",
    "clustersecret.io",
    "copyrator.dev",
    "emberstack.com",
    "helm.sh",
    "kubed.appscode.com",
    "kyverno.io",
    "olli.com",
    "v1.mittwald.de",
];

/// Whether the tool that set this mark manages the object: if Copyrator wrote the object, the tool would
/// revert the write or delete the object.
pub fn is_of_keeper(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    let is_below = |outer: &&str| is_below(domain, outer);
    DOMAINS.iter().any(is_below) && !NO_KEEPERS.iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_tools_keep_is_never_carried() {
        for key in [
            "kluctl.io/discriminator",
            "k0s.k0sproject.io/stack",
            "vcluster.loft.sh/managed-by",
            "kruise.io/resourcedistribution.resource.from",
            "example.com/previous-config",
            "kubectl.kubernetes.io/last-applied-configuration",
            "kapp.k14s.io/original",
            "objectset.rio.cattle.io/applied",
            "banzaicloud.com/last-applied",
            "kopf.zalando.org/last-handled-configuration",
            "db.example.com/last-handled-configuration",
            "openshift.io/token-secret.value",
            "reflector.v1.k8s.emberstack.com/reflection-auto-enabled",
            "replicator.v1.mittwald.de/replicate-to",
            "kubed.appscode.com/sync",
            "clustersecret.io/created-by",
            "secrets.hashicorp.com/vso-ownerRefUID",
            "reconcile.external-secrets.io/managed",
            "sealedsecrets.bitnami.com/managed",
            "generate.kyverno.io/clone-policy-name",
            "cleanup.kyverno.io/ttl",
            "operator.1password.io/item-path",
            "v1.kubernetes-replicator.olli.com/replicate-to",
            "janitor/ttl",
            "hnc.x-k8s.io/inherited-from",
            "meta.helm.sh/release-name",
            "app.kubernetes.io/managed-by",
            "app.kubernetes.io/instance",
            "kapp.k14s.io/app",
            "objectset.rio.cattle.io/hash",
            "argocd.argoproj.io/tracking-id",
            "argocd.argoproj.io/instance",
            "kustomize.toolkit.fluxcd.io/name",
            "helm.toolkit.fluxcd.io/namespace",
            "cert-manager.io/certificate-name",
            "controller.cert-manager.io/fao",
            "olm.owner",
            "operators.coreos.com/foo.bar",
            "applyset.kubernetes.io/part-of",
            "addonmanager.kubernetes.io/mode",
            "config.kubernetes.io/owning-inventory",
            "config.k8s.io/owning-inventory",
            "cli-utils.sigs.k8s.io/inventory-id",
            "crossplane.io/composite",
            "velero.io/restore-name",
            "copyrator.dev/mark",
        ] {
            assert!(never_carried(key), "{key}");
        }
    }

    #[test]
    fn what_tools_read_of_anybodys_object_may_be_set() {
        for key in [
            "argocd.argoproj.io/secret-type",
            "argocd.argoproj.io/sync-wave",
            "cert-manager.io/cluster-issuer",
            "cert-manager.io/allow-direct-injection",
            "velero.io/exclude-from-backup",
            "reloader.stakater.com/match",
            "secret.reloader.stakater.com/reload",
            "toolkit.fluxcd.io/tenant",
            "reconcile.fluxcd.io/watch",
            "external-secrets.io/type",
            "crossplane.io/external-name",
            "sealedsecrets.bitnami.com/cluster-wide",
            "kustomize.toolkit.fluxcd.io/substitute",
            "cnpg.io/reload",
            "eks.amazonaws.com/role-arn",
            "app.kubernetes.io/name",
            "app.kubernetes.io/part-of",
            "example.com/kapp.k14s.io",
            "config.kubernetes.io/local-config",
            "notcopyrator.dev/mark",
            "example.com/owner",
            "team",
        ] {
            assert!(!never_carried(key), "{key}");
        }
    }
}
