//! An object that the API server is asked about, by a dry run, before the one in its place goes: under another name, and without what
//! only one object can have.

use serde_json::Value;

/// What its name ends with; a Service's name has 63 characters at most.
const SCRATCH: &str = "-copyrator-tries";

/// The name for a try; no object has it.
pub(super) fn scratch_name(name: &str) -> String {
    let name: String = name.chars().take(63 - SCRATCH.len()).collect();
    format!("{}{SCRATCH}", name.trim_end_matches(['-', '.']))
}

/// Leaves the ports of nodes out of a Service that the one in its place has `held`, and that are free once that is gone.
pub(super) fn without_node_ports(body: &mut Value, held: &Value) {
    const HEALTH: &str = "healthCheckNodePort";
    let ports = |service: &Value| service["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let held: Vec<Value> = ports(held)
        .iter()
        .map(|port| port["nodePort"].clone())
        .chain([held["spec"][HEALTH].clone()])
        .filter(|port| !port.is_null())
        .collect();
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get(HEALTH).is_some_and(|port| held.contains(port)) {
        spec.remove(HEALTH);
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        if port.get("nodePort").is_some_and(|number| held.contains(number)) {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_try_leaves_out_what_the_object_in_its_place_has() {
        let held = json!({"spec": {"healthCheckNodePort": 30009, "ports": [{"port": 80, "nodePort": 30001}, {"port": 81}]}});
        let mut body = json!({"spec": {"healthCheckNodePort": 30009, "ports": [{"port": 80, "nodePort": 30001},
            {"port": 443, "nodePort": 30002}, {"port": 53}]}});
        without_node_ports(&mut body, &held);
        assert_eq!(
            body,
            json!({"spec": {"ports": [{"port": 80}, {"port": 443, "nodePort": 30002}, {"port": 53}]}}),
            "a port that another one may have is tried"
        );
    }

    #[test]
    fn a_name_for_a_try_is_a_name() {
        assert_eq!(scratch_name("web"), "web-copyrator-tries");
        let long = scratch_name(&format!("{}.b", "a".repeat(46)));
        assert_eq!(long, format!("{}{SCRATCH}", "a".repeat(46)));
    }
}
