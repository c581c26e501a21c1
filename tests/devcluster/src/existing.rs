//! Makes a cluster of one that somebody else runs, for those who would rather test on theirs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{self, Client};
use crate::cluster::DevCluster;
use crate::error::Error;
use crate::folder::Folder;
use crate::identities;
use crate::options::Options;
use crate::{kubeconfig, ready};

/// Takes the cluster of a kubeconfig's current context. It has no users for us, so ours are impersonated.
pub(crate) fn attach(source: &Path, options: &Options) -> Result<DevCluster, Error> {
    fs::metadata(source).map_err(Error::file("read", source))?;
    let folder = Folder::create()?;
    let kubectl = Client { program: PathBuf::from("kubectl") };

    let mut view = kubectl.command(&folder, source);
    view.args(["config", "view", "--raw", "--minify", "--flatten", "--output=json"]);
    let answer = client::run(&mut view, None)?;
    let config: Value = serde_json::from_str(&answer)
        .map_err(|source| Error::Answer { command: client::words(&view), source })?;
    let lacks = |wanted| Error::Kubeconfig { path: source.to_owned(), wanted };
    let endpoint = config["clusters"][0]["cluster"].clone();
    let user = config["users"][0]["user"].clone();
    let server_url = endpoint["server"].as_str().ok_or_else(|| lacks("server"))?.to_owned();
    let ca_pem = match endpoint["certificate-authority-data"].as_str() {
        Some(data) => kubeconfig::decode(data).ok_or_else(|| lacks("readable certificate authority"))?,
        None => String::new(),
    };

    let users_folder = folder.subfolder("users")?;
    let admin = kubeconfig::write(&users_folder, identities::ADMIN, &endpoint, &user)?;
    let mut users = BTreeMap::from([(identities::ADMIN.to_owned(), admin.clone())]);
    for wanted in &options.users {
        let mut impersonated = user.clone();
        impersonated["as"] = json!(wanted.name);
        impersonated["as-groups"] = json!(wanted.groups);
        let path = kubeconfig::write(&users_folder, &wanted.name, &endpoint, &impersonated)?;
        users.insert(wanted.name.clone(), path);
    }

    let cluster = DevCluster {
        processes: Vec::new(),
        folder,
        ports: None,
        kubectl,
        server_url,
        ca_pem,
        endpoint,
        admin,
        users,
        audit_log: None,
    };
    ready::workloads(&cluster, 1)?;
    Ok(cluster)
}
