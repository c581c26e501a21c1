//! The chart as it is, installed; until it is ready, and what it takes then.

use std::fs;
use std::time::Instant;

use super::HOME;
use crate::failure::Failure;
use crate::scene::Scene;

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("Install")?;
    scene.kubectl("get nodes -o wide")?.says("containerd://")?;
    let begin = Instant::now();
    scene.helm(&format!(
        "install copyrator charts/copyrator -n {HOME} --create-namespace --wait --timeout 3m"
    ))?;
    let installed = begin.elapsed();
    scene.eventually("the hooks to be in force", in_force)?;
    let hooked = begin.elapsed();
    scene.note(&format!(
        "helm was through after {:.1} s, with every pod ready; the hooks were in force after {:.1} s",
        installed.as_secs_f64(),
        hooked.as_secs_f64()
    ))?;
    let pods = scene.kubectl(&format!("get pods -n {HOME} -o wide"))?;
    let running = pods.text.matches(" 1/1 ").count();
    if running != 4 {
        return Err(Failure::new(format!("{running} pods are ready, rather than two of each Deployment")));
    }
    scene
        .kubectl(
            "get validatingwebhookconfiguration copyrator -o jsonpath='{.webhooks[*].clientConfig.service}'",
        )?
        .says("\"name\":\"copyrator-webhook\"")?;
    memory(scene)
}

/// All of them, not only the one that the reconciler tries its canary with.
fn in_force(scene: &Scene) -> Result<(), String> {
    let line = "get validatingwebhookconfiguration copyrator -o jsonpath={.webhooks[0].failurePolicy}";
    match scene.ask(line)?.as_str() {
        "Fail" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// What each process has in memory, from the kernel.
fn memory(scene: &mut Scene) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for entry in fs::read_dir("/proc").map_err(Failure::at("list", "/proc".as_ref()))?.flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        if read("comm").trim() != "copyrator" {
            continue;
        }
        let status = read("status");
        let kilobytes = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        };
        let arguments = read("cmdline");
        let role = arguments.split('\0').find_map(|argument| argument.strip_prefix("--roles="));
        let (Some(all), Some(own)) = (kilobytes("VmRSS"), kilobytes("RssAnon")) else { continue };
        lines.push(format!(
            "{}: {:.1} MB resident, {:.1} MB of that its own",
            role.unwrap_or("?"),
            all / 1024.0,
            own / 1024.0
        ));
    }
    lines.sort();
    if lines.len() != 4 {
        return Err(Failure::new(format!("four processes should run, but these do: {lines:?}")));
    }
    lines.iter().try_for_each(|line| scene.note(line))
}
