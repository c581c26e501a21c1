//! The command line of each component.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::Component;
use crate::binaries::Binaries;
use crate::certificates::Certificates;
use crate::error::Error;
use crate::ports::Ports;

/// What the command lines are made of.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) ports: &'a Ports,
    pub(crate) binaries: &'a Binaries,
    pub(crate) certificates: &'a Certificates,
    pub(crate) tokens: &'a Path,
    pub(crate) audit_log: Option<&'a Path>,
    pub(crate) mutating_policies: bool,
    pub(crate) admission_configuration: Option<&'a Path>,
    pub(crate) owners_enforced: bool,
    pub(crate) pods_reach_it_at: Option<Ipv4Addr>,
    pub(crate) played_pods: Option<&'a str>,
    pub(crate) services_played: bool,
}

/// Every finished request, once, with who, what and how it ended.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// Controllers of volumes, certificates and devices. Each has watches, a ServiceAccount and a loop of its own, and
/// nothing here asks for what it does.
const IDLE_CONTROLLERS: [&str; 19] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "device-taint-eviction-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "podcertificaterequest-cleaner-controller",
    "resourceclaim-controller",
    "service-cidr-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "volumeattributesclass-protection-controller",
];

/// Where etcd keeps the objects, in the cluster's folder.
pub(crate) const STORED: &str = "etcd";

/// Where calls to Services go, in the cluster's folder, if somebody plays them.
pub(crate) const SERVICES: &str = "services.sock";

/// Calls to Services and pods are made through a proxy; etcd and webhooks by address are reached as ever.
const EGRESS: &str = "apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: SOCKET}}
";

/// The program and its arguments. `kubeconfig` is that of the component's user, where it has one.
pub(crate) fn arguments(
    component: Component,
    setup: &Setup<'_>,
    kubeconfig: &Path,
) -> Result<(PathBuf, Vec<String>), Error> {
    let Binaries { etcd, api_server, controller_manager, scheduler, kwok, .. } = setup.binaries;
    let kubeconfig = flag("kubeconfig", kubeconfig);
    Ok(match component {
        Component::Etcd => (etcd.clone(), etcd_arguments(setup)),
        Component::ApiServer => (api_server.clone(), api_server_arguments(setup)?),
        Component::ControllerManager => {
            let mut arguments = controller_manager_arguments(setup);
            arguments.push(kubeconfig);
            (controller_manager.clone(), arguments)
        }
        Component::Scheduler => {
            (scheduler.clone(), vec![kubeconfig, "--leader-elect=false".into(), "--secure-port=0".into()])
        }
        Component::Kwok => {
            let mut arguments = vec![kubeconfig, "--manage-all-nodes".into(), "--cidr=10.244.0.1/16".into()];
            arguments.push("--node-lease-duration-seconds=40".into());
            // It calls this deprecated in favour of its stages, which select by what a pod must have only.
            arguments.extend(
                setup.played_pods.map(|labels| format!("--disregard-status-with-label-selector={labels}")),
            );
            arguments.extend(setup.binaries.stages.iter().map(|stage| flag("config", stage)));
            (kwok.clone(), arguments)
        }
    })
}

fn etcd_arguments(setup: &Setup<'_>) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", setup.ports.etcd);
    let peer = format!("http://127.0.0.1:{}", setup.ports.etcd_peer);
    vec![
        flag("data-dir", &setup.folder.join(STORED)),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // A crash of the machine may cost the data, which nobody wants then; writes are far faster.
        "--unsafe-no-fsync".into(),
        // Ten times a second, by default, it writes anew whichever pages have changed since.
        "--backend-batch-interval=1s".into(),
        "--log-level=warn".into(),
    ]
}

fn api_server_arguments(setup: &Setup<'_>) -> Result<Vec<String>, Error> {
    let Certificates { server, server_key, service_account_key, service_account_public_key, .. } =
        setup.certificates;
    let mut arguments = vec![
        format!("--secure-port={}", setup.ports.api_server),
        format!("--etcd-servers=http://127.0.0.1:{}", setup.ports.etcd),
        "--authorization-mode=Node,RBAC".into(),
        flag("token-auth-file", setup.tokens),
        flag("tls-cert-file", server),
        flag("tls-private-key-file", server_key),
        flag("cert-dir", setup.folder),
        flag("service-account-key-file", service_account_public_key),
        flag("service-account-signing-key-file", service_account_key),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
    ];
    arguments.extend(match setup.pods_reach_it_at {
        Some(address) => vec![
            "--bind-address=0.0.0.0".into(),
            format!("--advertise-address={address}"),
            // Nodes have addresses here, and no names that anybody could look up.
            "--kubelet-preferred-address-types=InternalIP".into(),
        ],
        None => vec![
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            // The Service `kubernetes` would get 127.0.0.1 as its endpoint, which is refused as invalid.
            "--endpoint-reconciler-type=none".into(),
        ],
    });
    if !setup.mutating_policies {
        arguments.push("--disable-admission-plugins=MutatingAdmissionPolicy".into());
    }
    if setup.owners_enforced {
        arguments.push("--enable-admission-plugins=OwnerReferencesPermissionEnforcement".into());
    }
    arguments.extend(setup.admission_configuration.map(|file| flag("admission-control-config-file", file)));
    if setup.services_played {
        let egress = setup.folder.join("egress.yaml");
        let socket = setup.folder.join(SERVICES);
        let text = EGRESS.replace("SOCKET", &socket.display().to_string());
        fs::write(&egress, text).map_err(Error::file("write", &egress))?;
        arguments.push(flag("egress-selector-config-file", &egress));
    }
    if let Some(log) = setup.audit_log {
        let policy = setup.folder.join("audit-policy.yaml");
        fs::write(&policy, AUDIT_POLICY).map_err(Error::file("write", &policy))?;
        arguments.push(flag("audit-policy-file", &policy));
        arguments.push(flag("audit-log-path", log));
    }
    Ok(arguments)
}

fn controller_manager_arguments(setup: &Setup<'_>) -> Vec<String> {
    vec![
        // As in a real cluster, each controller has a ServiceAccount with its own rights.
        "--use-service-account-credentials".into(),
        flag("service-account-private-key-file", &setup.certificates.service_account_key),
        flag("root-ca-file", &setup.certificates.ca),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        format!("--controllers=*,-{}", IDLE_CONTROLLERS.join(",-")),
        // By default an autoscaler waits 15 seconds before its first look.
        "--horizontal-pod-autoscaler-sync-period=1s".into(),
        // Its own limit of 20 requests a second would make each start wait some 4 seconds for the tokens of
        // all those ServiceAccounts.
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
        // By default it creates a folder under /usr/libexec, where it may.
        flag("flex-volume-plugin-dir", &setup.folder.join("volume-plugins")),
    ]
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
