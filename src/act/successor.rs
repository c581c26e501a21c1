//! The successor of an object that must be deleted and created anew: what of it the API server can judge while the old object
//! stands.
//!
//! A dry run of a creation goes through admission, validation and quota before the API server looks whether the name is free. So the
//! answer "already exists" means that the API server would accept the successor. Ports and addresses are given out before admission,
//! and a quota counts the old object: these two refuse a successor that fits once the old object is gone.

use kube::{Error, core::Status};
use serde_json::Value;

use crate::names::Kind;

/// Where a Service has a port of its own on every node, beside those of `spec.ports`.
const HEALTH_PORT: &str = "healthCheckNodePort";

/// Whether the answer to the dry run means that the API server would create the object once `old` is gone.
pub(super) fn is_accepted(answer: &Error, kind: Kind, old: &Value) -> bool {
    let Error::Api(status) = answer else { return false };
    status.is_already_exists() || has_room(status, kind, old)
}

/// Leaves the node ports and addresses out of a Service that the `old` one holds.
pub(super) fn leave_out_held(body: &mut Value, old: &Value) {
    let held_ports: Vec<Value> = ports(old)
        .iter()
        .map(|port| port["nodePort"].clone())
        .chain([old["spec"][HEALTH_PORT].clone()])
        .filter(|port| !port.is_null())
        .collect();
    let held_addresses = old["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
    let is_headless = |address: &Value| address == "None";
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get(HEALTH_PORT).is_some_and(|port| held_ports.contains(port)) {
        spec.remove(HEALTH_PORT);
    }
    let address = spec.get("clusterIP").or_else(|| spec.get("clusterIPs")?.get(0)).cloned();
    if address.is_some_and(|address| !is_headless(&address) && held_addresses.contains(&address)) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        if port.get("nodePort").is_some_and(|number| held_ports.contains(number)) {
            port.remove("nodePort");
        }
    }
}

/// Whether a quota refuses the successor, and the place of the `old` object is enough for it. Quota is the last that the API server
/// asks: everything else has accepted the successor.
fn has_room(status: &Status, kind: Kind, old: &Value) -> bool {
    let Some((object, said)) = status.message.split_once(" is forbidden: exceeded quota: ") else {
        return false;
    };
    // An admission policy words its own refusals.
    if object.contains(": ") {
        return false;
    }
    let mut parts = said.split(", ").filter_map(|part| part.split_once(": "));
    let mut amounts_of = |word: &str| parts.find(|(found, _)| *found == word).map(|(_, amounts)| amounts);
    let [Some(requested), Some(used), Some(limited)] = ["requested", "used", "limited"].map(&mut amounts_of)
    else {
        return false;
    };
    requested.split(',').filter_map(|one| one.split_once('=')).all(|(resource, amount)| {
        let of = |amounts: &str| {
            let found =
                amounts.split(',').filter_map(|one| one.split_once('=')).find(|(key, _)| *key == resource);
            found.and_then(|(_, amount)| count(amount))
        };
        let fits = |amount: u64| {
            let after = of(used)?.saturating_add(amount).saturating_sub(freed(resource, kind, old));
            Some(after <= of(limited)?)
        };
        count(amount).and_then(fits).unwrap_or(false)
    })
}

/// How much of a resource of a quota the old object takes; 0 where that is not known.
fn freed(resource: &str, kind: Kind, old: &Value) -> u64 {
    let of_kind = kind.resource().qualified();
    let is_counted = resource.strip_prefix("count/").unwrap_or(resource) == of_kind;
    let type_ = &old["spec"]["type"];
    match resource {
        _ if is_counted => 1,
        "services.loadbalancers" if kind == Kind::Service => u64::from(type_ == "LoadBalancer"),
        "services.nodeports" if kind == Kind::Service => {
            ports(old).iter().filter(|port| !port["nodePort"].is_null()).count() as u64
        }
        _ => 0,
    }
}

/// A number as quotas say it, such as `40` or `2k`.
fn count(amount: &str) -> Option<u64> {
    match amount.strip_suffix('k') {
        Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1000),
        None => amount.parse().ok(),
    }
}

fn ports(service: &Value) -> Vec<Value> {
    service["spec"]["ports"].as_array().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trial_leaves_out_what_the_old_object_holds() {
        let old = json!({"spec": {"healthCheckNodePort": 30009, "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
            "ports": [{"port": 80, "nodePort": 30001}, {"port": 81}]}});
        let ports = json!([{"port": 80, "nodePort": 30001}, {"port": 443, "nodePort": 30002}, {"port": 53}]);
        let mut body =
            json!({"spec": {"healthCheckNodePort": 30009, "clusterIP": "10.0.0.9", "ports": ports}});
        leave_out_held(&mut body, &old);
        let left = json!([{"port": 80}, {"port": 443, "nodePort": 30002}, {"port": 53}]);
        assert_eq!(body, json!({"spec": {"ports": left}}), "a port that another Service may hold is tried");
        for address in ["10.0.0.8", "None"] {
            let mut other = json!({"spec": {"clusterIP": address}});
            leave_out_held(&mut other, &old);
            assert_eq!(other, json!({"spec": {"clusterIP": address}}), "{address}");
        }
    }

    #[test]
    fn a_quota_refuses_only_what_does_not_fit_into_the_place_of_the_old_object() {
        let service =
            json!({"spec": {"type": "NodePort", "ports": [{"nodePort": 30001}, {"nodePort": 30002}]}});
        let none = Value::Null;
        for (kind, old, said, fits) in [
            (
                Kind::Secret,
                &none,
                "requested: count/secrets=1, used: count/secrets=2, limited: count/secrets=2",
                true,
            ),
            (Kind::Secret, &none, "requested: secrets=1, used: secrets=2k, limited: secrets=2k", true),
            (Kind::Secret, &none, "requested: secrets=1, used: secrets=3, limited: secrets=2", false),
            (
                Kind::Secret,
                &none,
                "requested: configmaps=1, used: configmaps=2, limited: configmaps=2",
                false,
            ),
            (
                Kind::Service,
                &service,
                "requested: services=1,services.nodeports=2, used: services=5,services.nodeports=4, limited: \
                 services=5,services.nodeports=4",
                true,
            ),
            (
                Kind::Service,
                &service,
                "requested: services.nodeports=3, used: services.nodeports=4, limited: services.nodeports=4",
                false,
            ),
            (Kind::Secret, &none, "requested: secrets=1", false),
        ] {
            let message = format!("secrets \"a\" is forbidden: exceeded quota: objects, {said}");
            let status = Status { message, code: 403, ..Status::default() };
            assert_eq!(is_accepted(&Error::Api(status.boxed()), kind, old), fits, "{said}");
        }
        let quota = "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1";
        for message in
            ["admission webhook \"x\" denied the request: no".to_owned(), format!("denied request: {quota}")]
        {
            let other = Status { message, code: 403, ..Status::default() };
            assert!(!is_accepted(&Error::Api(other.boxed()), Kind::Secret, &none));
        }
    }
}
