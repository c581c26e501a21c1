//! helm, asked what the chart makes of values.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

/// Where and as what the chart is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Release<'r> {
    pub name: &'r str,
    pub kubernetes: &'r str,
}

impl Default for Release<'_> {
    fn default() -> Self {
        Self { name: "copyrator", kubernetes: "1.36.0" }
    }
}

/// The chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/copyrator")
}

/// Every object that the chart renders, in its order; else what helm says against it.
pub fn render(release: &Release<'_>, values: &Value) -> Result<Vec<Value>, String> {
    let text = text(release, values)?;
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| format!("no YAML: {error}"))?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// What `helm template` writes; else what it says.
pub fn text(release: &Release<'_>, values: &Value) -> Result<String, String> {
    let chart = chart();
    let arguments =
        ["template", release.name, &chart.to_string_lossy(), "--kube-version", release.kubernetes];
    helm(&arguments, values)
}

/// What helm writes, given values to read; else what it says.
pub fn helm(arguments: &[&str], values: &Value) -> Result<String, String> {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    let program = HELM.get_or_init(|| devcluster::helm().expect("helm is there"));
    let mut command = Command::new(program);
    command.args(arguments).args(["--namespace", "copyrator-system", "--values", "-"]);
    // Nobody's cluster, settings or plugins.
    command.env_clear().env("HOME", env!("CARGO_TARGET_TMPDIR")).env("KUBECONFIG", "/nonexistent");
    // It ends before its garbage matters.
    command.env("GOGC", "400");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("helm starts");
    let mut input = child.stdin.take().expect("a pipe");
    // Who refuses its arguments reads nothing.
    drop(input.write_all(values.to_string().as_bytes()));
    drop(input);
    let output = child.wait_with_output().expect("helm ends");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("helm writes text")),
        false => Err(complaint(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// Helm's words without what surrounds them in each version.
fn complaint(said: &str) -> String {
    let said = said.trim().trim_start_matches("Error: ");
    // Where in which template is nobody's business here.
    let own = said.strip_prefix("execution error at (").and_then(|text| text.split_once("): "));
    let lines = own
        .map_or(said, |(_, own)| own)
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("Use --debug"));
    lines.collect::<Vec<_>>().join(" ")
}
