//! Alerts that lead somewhere, and a dashboard that can be shown. Whether their metrics exist is asked of a running
//! Copyrator, in tests/control_plane/documented.rs.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use crate::rendering::{Release, chart, render};

/// More are not read by anybody.
const ALERTS: usize = 10;

fn rendered(values: &Value, kind: &str, name: &str) -> Value {
    let objects = render(&Release::default(), values).expect("the chart renders");
    let found = objects.into_iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// As GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        text.lines().filter_map(|line| line.strip_prefix('#')).map(|it| it.trim_start_matches('#').trim());
    let kept = |it: &char| it.is_alphanumeric() || "-_ ".contains(*it);
    headings.map(|it| it.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn each_alert_leads_to_a_heading_of_the_runbook() {
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.md");
    let anchors = anchors(&fs::read_to_string(runbook).unwrap());
    let values =
        json!({ "prometheusRule": { "enabled": true, "runbookUrl": "https://wiki.example.com/copyrator" } });
    let rule = rendered(&values, "PrometheusRule", "copyrator");
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert!(!alerts.is_empty() && alerts.len() <= ALERTS, "{} alerts", alerts.len());
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let anchor =
            url.strip_prefix("https://wiki.example.com/copyrator#").unwrap_or_else(|| panic!("{url}"));
        assert_eq!(anchor, name.to_lowercase());
        assert!(anchors.contains(anchor), "docs/alerts.md has no heading for {name}");
        assert!(alert["annotations"]["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        assert!(["critical", "warning"].contains(&alert["labels"]["severity"].as_str().unwrap()), "{name}");
        assert!(alert["for"].is_string(), "{name} fires at once");
    }
}

/// Grafana's sidecar takes the file as it is.
#[test]
fn the_dashboard_is_whole() {
    let map = rendered(&json!({ "dashboard": { "enabled": true } }), "ConfigMap", "copyrator-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = map["data"]["copyrator.json"].as_str().unwrap();
    assert_eq!(text, fs::read_to_string(chart().join("dashboards/copyrator.json")).unwrap());
    let dashboard: Value = serde_json::from_str(text).unwrap();
    assert_eq!(dashboard["uid"], "copyrator");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let number = |key: &str| panel["gridPos"][key].as_i64().unwrap();
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} is in the way", panel["title"]);
            }
        }
        let targets = panel["targets"].as_array().into_iter().flatten();
        for source in [panel].into_iter().chain(targets).filter(|_| panel["type"] != "row") {
            assert_eq!(source["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
        assert!(panel["type"] == "row" || panel["targets"][0]["expr"].is_string(), "{}", panel["title"]);
    }
}
