//! Figures for docs/benchmarks.md: the program's size, its memory at rest, and how long it takes to be ready.
//! `cargo run --release -p testbed --bin figures -- target/release/copyrator`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints figures")]

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use devcluster::{DevCluster, Options};
use testbed::{Operator, Role, Testbed};

const RUNS: usize = 5;
const NAMESPACES: usize = 500;

fn main() -> ExitCode {
    let Some(program) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("figures: name the program to measure, such as target/release/copyrator");
        return ExitCode::from(2);
    };
    match measure(&program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(program: &PathBuf) -> Result<(), Box<dyn Error>> {
    let bytes = fs::metadata(program)?.len();
    println!("program size: {:.1} MB", bytes as f64 / 1e6);
    let logs = std::env::temp_dir().join(format!("copyrator-figures-{}", std::process::id()));
    let bed = Testbed::start(Options::default(), program, &logs)?;

    let (webhook, reconciler) = start_both(&bed)?;
    rest(&[&webhook, &reconciler], "empty cluster")?;

    apply(bed.cluster(), &world())?;
    wait_for_copies(bed.cluster(), 2 * NAMESPACES)?;
    rest(&[&webhook, &reconciler], &format!("{NAMESPACES} namespaces, {} copies", 2 * NAMESPACES))?;

    for first in [webhook, reconciler] {
        let mut times = Vec::new();
        let role = first.role();
        let mut running = Some(first);
        for _ in 0..RUNS {
            if let Some(old) = running.take() {
                old.kill();
            }
            let begun = Instant::now();
            let mut fresh = bed.operator(role, 0, &[])?;
            fresh.wait_ready()?;
            times.push(begun.elapsed());
            running = Some(fresh);
        }
        times.sort();
        println!(
            "start to ready, {}, {} copies in place: min {:.0?}, median {:.0?}, max {:.0?} ({RUNS} runs)",
            role.name(),
            2 * NAMESPACES,
            times[0],
            times[RUNS / 2],
            times[RUNS - 1]
        );
    }
    drop(bed);
    let _ = fs::remove_dir_all(logs);
    Ok(())
}

fn start_both(bed: &Testbed) -> Result<(Operator, Operator), Box<dyn Error>> {
    let mut webhook = bed.operator(Role::Webhook, 0, &[])?;
    let mut reconciler = bed.operator(Role::Reconciler, 0, &[])?;
    reconciler.wait_ready()?;
    webhook.wait_ready()?;
    Ok((webhook, reconciler))
}

/// Memory once nothing happens any more; five seconds also let content that was fetched be dropped.
fn rest(processes: &[&Operator], world: &str) -> Result<(), Box<dyn Error>> {
    std::thread::sleep(Duration::from_secs(15));
    for process in processes {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
        let field = |name: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_matches([':', '\t', ' ', 'k', 'B']).trim().parse::<f64>().unwrap_or_default() / 1000.0
        };
        println!(
            "memory at rest, {world}, {}: {:.1} MB resident, of it {:.1} MB heap (RssAnon)",
            process.role().name(),
            field("VmRSS"),
            field("RssAnon")
        );
    }
    Ok(())
}

fn world() -> String {
    let mut text = String::from(
        "{apiVersion: v1, kind: Namespace, metadata: {name: platform}}\n---\n\
         {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: platform}, data: {a: b}}\n---\n\
         {apiVersion: v1, kind: Secret, metadata: {name: registry, namespace: platform}, stringData: {a: b}}\n",
    );
    for kind in ["ConfigMap", "Secret"] {
        let name = kind.to_lowercase();
        text.push_str(&format!(
            "---\n{{apiVersion: copyrator.dev/v1alpha1, kind: CopyratorRule, metadata: {{name: {name}, namespace: \
             platform}}, spec: {{source: {{kind: {kind}, names: [settings, registry]}}, targets: [{{names: \
             [\"team-*\"]}}]}}}}\n"
        ));
    }
    for index in 0..NAMESPACES {
        text.push_str(&format!(
            "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: team-{index}}}}}\n"
        ));
    }
    text
}

fn apply(cluster: &DevCluster, text: &str) -> Result<(), Box<dyn Error>> {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["create", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = kubectl.spawn()?;
    child.stdin.take().ok_or("no standard input")?.write_all(text.as_bytes())?;
    if child.wait()?.success() { Ok(()) } else { Err("kubectl create failed".into()) }
}

fn wait_for_copies(cluster: &DevCluster, wanted: usize) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let mut kubectl = cluster.kubectl();
        kubectl.args([
            "get",
            "cm,secret",
            "-A",
            "-l",
            "app.kubernetes.io/managed-by=copyrator",
            "-o",
            "name",
        ]);
        let seen = String::from_utf8(kubectl.output()?.stdout)?
            .lines()
            .filter(|line| !line.contains("webhook"))
            .count();
        if seen >= wanted {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{seen} of {wanted} copies after two minutes").into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
