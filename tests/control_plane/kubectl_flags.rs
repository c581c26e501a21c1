//! Kubectl's own flags say which cluster is asked, and as whom.

use std::path::{Path, PathBuf};
use std::{env, fs};

use kube::config::Kubeconfig;
use secrecy::ExposeSecret as _;

use crate::bed::{Story, peaceful};
use crate::plan::{Said, run};

/// A file of this story's.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane/kubectl_flags");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let path = folder.join(name);
    fs::write(&path, content).expect("the file can be written");
    path
}

/// Kubectl's users bring a server, a CA and a token where there is no kubeconfig, as a pipeline does.
#[test]
fn flags_alone_say_which_cluster_and_as_whom() {
    let story = Story::new(peaceful(), "flagged");
    let cluster = story.bed.testbed.cluster();
    let (server, ca) = (cluster.server_url(), file("ca.pem", cluster.ca_pem().as_bytes()));
    let ca = ca.to_str().expect("a path");
    let nobody = Path::new("/nonexistent/kubeconfig");
    let get = |flags: &[&str]| -> Said {
        run(&story, Some(nobody), &[&["get", "namespaces", "-o", "name"], flags].concat(), "")
    };
    let works = |flags: &[&str]| {
        let said = get(flags);
        let home = format!("namespace/{}", story.home);
        assert!(
            said.code == Some(0) && said.text.lines().any(|line| line == home),
            "{flags:?}: {}",
            said.notes
        );
    };
    let fails = |flags: &[&str], code: i32, why: &str| {
        let said = get(flags);
        assert!(
            said.code == Some(code) && said.notes.contains(why),
            "{flags:?}: {:?} {}",
            said.code,
            said.notes
        );
    };
    let kubeconfig = Kubeconfig::read_from(cluster.admin_kubeconfig()).expect("the admin's kubeconfig");
    let user = kubeconfig.auth_infos[0].auth_info.as_ref().expect("the admin's credentials");
    let token = user.token.as_ref().expect("a token").expose_secret();

    works(&["--server", server, "--certificate-authority", ca, "--token", token]);
    works(&["-s", server, "--insecure-skip-tls-verify", "--token", token]);
    works(&["-s", server, "--insecure-skip-tls-verify=true", "--token", token]);
    fails(&["-s", server, "--insecure-skip-tls-verify=false", "--token", token], 3, "certificate");
    fails(&["--server", server, "--token", token], 3, "certificate");
    let named = |name| {
        ["--server", server, "--certificate-authority", ca, "--token", token, "--tls-server-name", name]
    };
    works(&named("kubernetes.default.svc"));
    fails(&named("elsewhere.example.com"), 3, "certificate");
    // A token counts alone, though the kubeconfig has credentials of its own.
    let admin = cluster.admin_kubeconfig().to_str().expect("a path");
    let token = "no-token-of-this-cluster";
    let said = get(&["--kubeconfig", admin, "--token", token]);
    assert_eq!(said.code, Some(1), "{}", said.notes);
    assert!(said.notes.contains("Unauthorized") && !said.notes.contains(token), "{}", said.notes);
    // As somebody else, and what the kubeconfig calls cluster and user.
    works(&[
        "--kubeconfig",
        admin,
        "--as",
        "alice",
        "--as-uid",
        "7",
        "--as-group",
        "system:masters",
        "--as-user-extra",
        "scopes=all",
    ]);
    let named = (&kubeconfig.clusters[0].name, &kubeconfig.auth_infos[0].name);
    works(&["--kubeconfig", admin, "--cluster", named.0, "--user", named.1]);
    fails(&["--kubeconfig", admin, "--cluster", "other"], 3, "other");
    fails(&["--kubeconfig", admin, "--user", "other"], 3, "other");
}
