//! Starts a cluster of our own.

use std::collections::BTreeMap;

use crate::binaries::Binaries;
use crate::certificates::Certificates;
use crate::client::Client;
use crate::cluster::DevCluster;
use crate::control::{Component, Process, STORED, Setup, arguments};
use crate::environment::Environment;
use crate::error::Error;
use crate::folder::Folder;
use crate::identities::{self, Identity};
use crate::options::Options;
use crate::ports::Ports;
use crate::{kubeconfig, nodes, ready, stored};

/// How often a start is tried when another program takes one of the ports just before it is used.
const TRIES: u32 = 3;

/// Starts a cluster and waits until it is of use.
pub(crate) fn launch(environment: &Environment, options: &Options) -> Result<DevCluster, Error> {
    let binaries = Binaries::find(environment)?;
    let mut tries = 1;
    loop {
        match prepare(&binaries, options).and_then(|cluster| start(cluster, options)) {
            Err(error) if error.is_port_conflict() && tries < TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

/// Everything but running processes: folder, ports, certificates, users, command lines.
fn prepare(binaries: &Binaries, options: &Options) -> Result<DevCluster, Error> {
    let folder = Folder::create()?;
    folder.subfolder("logs")?;
    if let Some(stored) = &options.stored {
        stored::copy(stored, &folder.path().join(STORED))?;
    }
    let ports = Ports::reserve()?;
    let certificates = Certificates::make(&folder.subfolder("certificates")?, options.pods_reach_it_at)?;
    let server_url = format!("https://127.0.0.1:{}", ports.api_server);
    let endpoint = kubeconfig::cluster(&server_url, &certificates.ca_pem);

    let identities = identities::make(&options.users)?;
    let tokens = folder.path().join("tokens.csv");
    identities::write_tokens(&identities, &tokens)?;
    let mut users = BTreeMap::new();
    let users_folder = folder.subfolder("users")?;
    for Identity { user, token } in &identities {
        let user_part = kubeconfig::token_user(token);
        let path = kubeconfig::write(&users_folder, &user.name, &endpoint, &user_part)?;
        users.insert(user.name.clone(), path);
    }

    let audit_log = options.audit.then(|| folder.path().join("logs").join("audit.log"));
    let setup = Setup {
        folder: folder.path(),
        ports: &ports,
        binaries,
        certificates: &certificates,
        tokens: &tokens,
        audit_log: audit_log.as_deref(),
        mutating_policies: options.mutating_policies,
        admission_configuration: options.admission_configuration.as_deref(),
        owners_enforced: options.owners_enforced,
        pods_reach_it_at: options.pods_reach_it_at,
        played_pods: options.played_pods.as_deref(),
        services_played: options.services_played,
    };
    let mut processes = Vec::new();
    for (component, user) in [
        (Component::Etcd, identities::ADMIN),
        (Component::ApiServer, identities::ADMIN),
        (Component::ControllerManager, identities::CONTROLLER_MANAGER),
        (Component::Scheduler, identities::SCHEDULER),
        (Component::Kwok, identities::KWOK),
    ] {
        processes.push(Process::new(component, arguments(component, &setup, &users[user])?, &folder));
    }

    Ok(DevCluster {
        processes,
        kubectl: Client { program: binaries.kubectl.clone() },
        server_url,
        ca_pem: certificates.ca_pem,
        endpoint,
        admin: users[identities::ADMIN].clone(),
        users,
        audit_log,
        ports: Some(ports),
        folder,
    })
}

/// Starts the processes in the order in which they need each other.
fn start(cluster: DevCluster, options: &Options) -> Result<DevCluster, Error> {
    let start = |wanted: &[Component]| {
        let mut processes = cluster.processes.iter().filter(|process| wanted.contains(&process.component));
        processes.try_for_each(|process| process.start(&cluster.folder))
    };
    start(&[Component::Etcd, Component::ApiServer])?;
    ready::api_server(&cluster)?;
    // The controllers would give up on an API server that takes too long, so they come only now.
    start(&[Component::ControllerManager, Component::Scheduler])?;
    let nodes = match options.stored {
        Some(_) => {
            nodes::give_up_leases(&cluster);
            0
        }
        None => {
            cluster.kubectl.create(&cluster.folder, &cluster.admin, &nodes::objects(options.nodes))?;
            options.nodes
        }
    };
    // It would speak for real nodes too.
    if options.pods_reach_it_at.is_none() {
        start(&[Component::Kwok])?;
    }
    ready::workloads(&cluster, nodes as usize)?;
    Ok(cluster)
}
