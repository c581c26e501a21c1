//! Where commands of a document are typed: a cluster, and a folder that looks like a checkout.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use devcluster::Options;
use tempfile::TempDir;
use testbed::Playground;

use crate::blocks::top;

/// How the chart is installed where a document takes it for installed.
const INSTALL: &str =
    "helm install copyrator charts/copyrator -n copyrator-system --create-namespace --wait -f values.yaml
until copyrator doctor; do sleep 1; done";
/// What no command takes as long as.
const PATIENCE: &str = "180";

/// A cluster and a folder.
pub(crate) struct Ground {
    playground: Playground,
    folder: TempDir,
}

/// What came of a script.
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// Of both, as a terminal shows it.
    pub(crate) output: String,
}

impl Ground {
    /// A cluster with nothing in it. The logs of its pods stay in target/tmp/documents.
    pub(crate) fn empty(name: &str) -> Ground {
        let copyrator = Path::new(env!("CARGO_BIN_EXE_copyrator"));
        let certs = copyrator.with_file_name("copyrator-certs");
        assert!(certs.is_file(), "{} is missing: cargo build -p copyrator-certs", certs.display());
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name.replace('/', "-"));
        let playground = Playground::start(Options::default(), copyrator, Some(&logs))
            .unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().expect("a folder");
        for entry in fs::read_dir(top()).expect("the repository is there").flatten() {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with('.') && name != "target" {
                symlink(entry.path(), folder.path().join(name)).expect("a link");
            }
        }
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a folder");
        let kubectl = devcluster::kubectl().expect("kubectl is there");
        let helm = devcluster::helm().expect("helm is there");
        for (name, program) in [
            ("kubectl", kubectl.as_path()),
            ("helm", &helm),
            ("copyrator", copyrator),
            ("copyrator-certs", &certs),
        ] {
            symlink(program, programs.join(name)).expect("a link");
        }
        Ground { playground, folder }
    }

    /// A cluster with the chart in it.
    pub(crate) fn installed(name: &str) -> Ground {
        Ground::installed_with(name, "")
    }

    /// The same with values of the chart.
    pub(crate) fn installed_with(name: &str, values: &str) -> Ground {
        let ground = Ground::empty(name);
        ground.write("values.yaml", values);
        let ran = ground.run(INSTALL);
        assert_eq!(ran.code, 0, "the chart cannot be installed: {}", ran.output);
        ground
    }

    /// Runs a script in the folder, as the cluster's admin. It ends at the first command that fails.
    pub(crate) fn run(&self, script: &str) -> Ran {
        let programs = self.folder.path().join("bin");
        let mut command = Command::new("timeout");
        command
            .args([PATIENCE, "bash", "-eo", "pipefail", "-c"])
            .arg(format!("exec 2>&1\nPATH='{}':$PATH\n{script}", programs.display()));
        command.current_dir(self.folder.path());
        // What helm and kubectl find their cluster by, and end with it.
        let helm = self.playground.cluster().helm().expect("helm is there");
        for (name, value) in helm.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // Nothing of a person's own is read or written.
        command.env("HOME", self.folder.path());
        let ended = command.output().expect("timeout and bash are there");
        let text = [ended.stdout, ended.stderr].concat();
        let output = String::from_utf8_lossy(&text).into_owned();
        // Shown where it fails, or with --nocapture.
        println!("$ {}\n{output}", script.trim_end());
        Ran { code: ended.status.code().unwrap_or(-1), output }
    }

    /// Keeps a file for later commands.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("files can be written");
    }
}
