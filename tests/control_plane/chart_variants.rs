//! What the chart renders is what the API server knows, field by field, whatever the values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};

use crate::bed::objects::namespace;
use crate::bed::{Bed, eventually, peaceful};

/// Beside the installation, which has names that cannot change.
const NAMESPACE: &str = "chart-variants";
/// Of other projects.
const FOREIGN: [&str; 3] = ["Certificate", "PrometheusRule", "ServiceMonitor"];

/// Every set of values that tests/chart_cases has and that is not refused.
fn value_sets() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart_cases");
    let mut sets = Vec::new();
    for entry in fs::read_dir(folder).expect("the cases are there").flatten() {
        if entry.path().extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("cases are text");
        let cases: Vec<Value> = serde_saphyr::from_str(&text).expect("cases are YAML");
        let is_rendered = |case: &&Value| !case["expect"].as_str().unwrap_or_default().starts_with("refused");
        sets.extend(cases.iter().filter(is_rendered).map(|case| {
            let values = if case["set"].is_null() { json!({}) } else { case["set"].clone() };
            (case["name"].as_str().unwrap_or_default().to_owned(), values)
        }));
    }
    sets
}

/// Installs the definitions of other projects that the chart has objects of.
fn know_foreign_kinds(bed: &Bed) {
    for file in devcluster::foreign_definitions().expect("the definitions are there") {
        let file = file.to_string_lossy();
        bed.kubectl(&["apply", "--server-side", "-f", &file], &Value::Null);
    }
    for kind in FOREIGN {
        eventually(&format!("{kind} is served"), || {
            let answer = bed.admin.try_list(kind);
            if answer.code == 200 { Ok(()) } else { Err(answer.body.to_string()) }
        });
    }
}

/// `helm template` checks no field, and a misspelt one is dropped in silence (kubeconform would need schemas of a network).
#[test]
fn every_rendered_field_is_known_to_the_api_server() {
    let bed = peaceful();
    know_foreign_kinds(bed);
    bed.admin.create(&namespace(NAMESPACE, &Default::default())).ok();
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut distinct: BTreeMap<String, (String, Value)> = BTreeMap::new();
    let sets = value_sets();
    for (name, values) in &sets {
        fs::write(file.path(), values.to_string()).expect("values can be written");
        let values = file.path().to_string_lossy();
        let text = bed.helm(&[
            "template",
            "variant",
            chart,
            "-n",
            NAMESPACE,
            "--kube-version",
            "1.36.0",
            "--values",
            &values,
        ]);
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("helm renders YAML");
        for object in objects.into_iter().filter(|object| !object.is_null()) {
            distinct.entry(object.to_string()).or_insert_with(|| (name.clone(), object));
        }
    }
    let mut wrong = Vec::new();
    let mut tried = 0;
    let places = distinct.values().filter_map(|(_, object)| object["metadata"]["namespace"].as_str());
    for place in places.filter(|place| *place != NAMESPACE).collect::<BTreeSet<_>>() {
        // Of a set of values that names namespaces; objects of theirs are refused where there is none.
        bed.admin.apply(&namespace(place, &Default::default())).ok();
    }
    for (name, object) in distinct.into_values() {
        let answer = bed.admin.try_apply(&object);
        tried += 1;
        if answer.code >= 300 {
            wrong.push(format!(
                "{name}: {} {}: {}",
                object["kind"],
                object["metadata"]["name"],
                answer.refused()
            ));
        } else if !answer.warnings.is_empty() {
            wrong.push(format!(
                "{name}: {} {}: {:?}",
                object["kind"], object["metadata"]["name"], answer.warnings
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sets.len() > 60 && tried > 150, "{} sets of values, {tried} objects", sets.len());
    // The same question says no to what is wrong.
    let misspelt = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x", "namespace": NAMESPACE }, "dato": {} });
    assert!(bed.admin.try_apply(&misspelt).refused().contains("dato"));
}
