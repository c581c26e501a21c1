//! The boundary around everything that the test starts: namespaces of its own for network, processes and mounts.
//!
//! The bridge, the rules of iptables and the mounts are not the machine's; the program that [`run_inside`] starts is the
//! first process in there, and with it the kernel ends all others. Only cgroups and the folder outlive that, and
//! [`remains`](crate::remains) sees to them.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;

use nix::mount::{MsFlags, mount};

use crate::failure::Failure;
use crate::options::Options;
use crate::remains;

/// The first argument of the program inside.
const INSIDE: &str = "--inside";
const NAMESPACE: &str = "/proc/self/ns/pid";
/// What programs of a node keep where no option of theirs leads elsewhere. Inside, these are empty and private.
const PRIVATE: [&str; 3] = ["/run", "/var/log", "/var/lib/cni"];

/// Starts this program again inside of the boundary and waits for it. However this process ends, the other does too.
pub(crate) fn run_inside(options: &Options) -> Result<(), Failure> {
    let name = format!("copyrator-node-{}", process::id());
    let folder = std::env::temp_dir().join(&name);
    fs::create_dir_all(&folder).map_err(Failure::at("create", &folder))?;
    let lib = Path::new(PRIVATE[2]);
    let is_new = !lib.exists();
    fs::create_dir_all(lib).map_err(Failure::at("create", lib))?;

    let program = std::env::current_exe().map_err(Failure::at("find", Path::new("/proc/self/exe")))?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(program).arg(INSIDE).arg(&folder).arg(namespace()?);
    command.args(options.is_recorded.then_some("--record"));
    // Nothing is written to it: it closes when this process is gone. Ctrl-C is for this one only.
    command.stdin(Stdio::piped()).process_group(0);
    command.env("TMPDIR", &folder).env_remove("COPYRATOR_TEST_KUBECONFIG").current_dir("/");
    let mut child = command.spawn().map_err(Failure::at("run", Path::new("unshare")))?;
    // Waiting would close it.
    let _tie = child.stdin.take();
    let status = child.wait().map_err(Failure::at("wait for", Path::new("unshare")))?;

    remains::remove(&folder)?;
    if is_new {
        let _ = fs::remove_dir(lib);
    }
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("the story ended early ({status})"))),
    }
}

/// The program inside.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Where everything that it starts keeps its files; removed at the end.
    pub(crate) folder: PathBuf,
    pub(crate) is_recorded: bool,
    outer: PathBuf,
}

impl Inside {
    /// If the arguments are those that [`run_inside`] gives.
    pub(crate) fn from(arguments: &[String]) -> Option<Result<Inside, Failure>> {
        match arguments {
            [flag, folder, outer, options @ ..] if flag == INSIDE => Some(Ok(Inside {
                folder: folder.into(),
                is_recorded: options.iter().any(|option| option == "--record"),
                outer: outer.into(),
            })),
            [flag, ..] if flag == INSIDE => {
                Some(Err(Failure::new(format!("{INSIDE} is for this program itself"))))
            }
            _ => None,
        }
    }

    /// The name of the test's cgroup, and of its folder.
    pub(crate) fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Does `what`, and removes what it leaves. Ends at once when the process outside is gone.
    pub(crate) fn run(self, what: impl FnOnce(&Inside) -> Result<(), Failure>) -> Result<(), Failure> {
        // What follows ends every process that it can see: they must be ours alone.
        if process::id() != 1 || namespace()? == self.outer {
            return Err(Failure::new(format!("{INSIDE} outside of a process namespace of its own")));
        }
        let folder = self.folder.clone();
        thread::spawn(move || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            remains::end_everything(&folder);
            process::exit(130);
        });
        let outcome = privately().and_then(|()| what(&self));
        remains::end_everything(&self.folder);
        outcome
    }
}

fn namespace() -> Result<PathBuf, Failure> {
    fs::read_link(NAMESPACE).map_err(Failure::at("read", Path::new(NAMESPACE)))
}

/// Empty folders in the places of the machine's own.
fn privately() -> Result<(), Failure> {
    for place in PRIVATE {
        mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), None::<&str>)
            .map_err(Failure::at("mount a folder on", Path::new(place)))?;
    }
    Ok(())
}
