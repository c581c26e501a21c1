//! kubectl and helm, as people and their pipelines run them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Bed;

impl Bed {
    /// Runs kubectl with `manifest` to read, and gives back what it wrote.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str], manifest: &Value) -> String {
        let mut command = self.testbed.cluster().kubectl();
        command.args(arguments);
        // Alone among those that write it does not ask that unknown fields be refused: it is only warned of them.
        if arguments.first() == Some(&"patch") {
            command.arg("--warnings-as-errors");
        }
        run(&mut command, &manifest.to_string())
    }

    /// Runs helm, and gives back what it wrote.
    #[track_caller]
    pub fn helm(&self, arguments: &[&str]) -> String {
        let mut command = self.testbed.cluster().helm().expect("helm is there");
        run(command.args(arguments), "")
    }
}

/// Writes a chart with one template, and gives back where it is.
pub fn chart(name: &str, template: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane/charts").join(name);
    fs::create_dir_all(folder.join("templates")).expect("the folder can be made");
    let about = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
    for (file, text) in [("Chart.yaml", &*about), ("templates/all.yaml", template)] {
        fs::write(folder.join(file), text).expect("the chart can be written");
    }
    folder
}

#[track_caller]
fn run(command: &mut Command, input: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    // A command that takes no input ends without reading it.
    drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}{}", command, String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("it writes text")
}
