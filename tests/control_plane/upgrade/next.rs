//! A version after this one, for the time in which there is none: its chart, with all that a definition may gain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::CHART;

/// Writes the chart of the next version, and gives back where it is: every kind has a field `later` in its spec, one in
/// its status, a column and a version `v1beta1` more, and a rule has a conflict policy `Merge`.
pub fn next_chart() -> PathBuf {
    let chart = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane/charts/next");
    drop(fs::remove_dir_all(&chart));
    fs::create_dir_all(&chart).expect("the folder can be made");
    let copied = Command::new("cp").args(["-R", &format!("{CHART}/.")]).arg(&chart).status();
    assert!(copied.expect("cp runs").success(), "the chart cannot be copied");
    change(&chart.join("Chart.yaml"), |about| about["version"] = "99.0.0".into());
    for plural in ["copyratorrules", "configmonitors", "configpolicies"] {
        change(&chart.join(format!("files/{plural}.yaml")), gain);
    }
    chart
}

fn change(file: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(file).expect("the file is there");
    let mut value: Value = serde_saphyr::from_str(&text).expect("it is YAML");
    change(&mut value);
    fs::write(file, serde_saphyr::to_string(&value).expect("YAML")).expect("the file can be written");
}

fn gain(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array_mut().expect("versions");
    let version = &mut versions[0];
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"]["properties"]["later"] = json!({ "type": "string", "nullable": true });
    properties["status"]["properties"]["later"] = json!({ "type": "integer", "nullable": true });
    let policies =
        properties.pointer_mut("/spec/properties/conflictPolicy/enum").and_then(Value::as_array_mut);
    if let Some(policies) = policies {
        policies.push("Merge".into());
    }
    let column = json!({ "name": "Later", "type": "integer", "jsonPath": ".status.later" });
    version["additionalPrinterColumns"].as_array_mut().expect("columns").push(column);
    let mut beta = version.clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    versions.push(beta);
}
