//! The successor of an object that must be deleted and created again. This file checks, while the old object
//! exists, whether the API server will accept the successor.
//!
//! A dry run of a creation passes admission, validation and quota before the API server checks whether the
//! name is free. The answer "already exists" to the dry run therefore means that the API server would accept
//! the successor. But the API server allocates ports and addresses before admission, and a quota counts the
//! old object: allocation and quota refuse a successor that would fit once the old object is gone.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Error, ResourceExt as _};
use serde_json::Value;

use crate::names::Kind;

/// The field of a Service with one more port on every node, beside the ports of `spec.ports`.
const HEALTH_PORT: &str = "healthCheckNodePort";

/// The meaning of the answer to a dry run of the creation, while the old object exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Only the name is in use: the API server would create the successor once the old object is gone.
    Accepted,
    /// A quota is exceeded. The API server checks quotas last, and its message names one exceeded quota.
    QuotaExceeded,
    /// The API server refuses the successor for a different reason.
    Refused,
}

/// Reads the answer to the dry run.
pub(super) fn verdict(answer: &Error) -> Verdict {
    let Error::Api(status) = answer else { return Verdict::Refused };
    // An admission policy words its own refusals, after the words "denied request: ".
    let by_quota = |(object, _): (&str, &str)| !object.contains(": ");
    if status.is_already_exists() {
        Verdict::Accepted
    } else if status.message.split_once(" is forbidden: exceeded quota: ").is_some_and(by_quota) {
        Verdict::QuotaExceeded
    } else {
        Verdict::Refused
    }
}

/// Returns the first of a namespace's quotas that has no room for the successor once the `old` object is
/// gone, and the resource that this quota lacks.
///
/// Calculates as the API server does (`pkg/quota/v1/evaluator/core/services.go` of Kubernetes): for each
/// resource that the successor uses, the used amount plus the additional amount must not exceed the limit. An
/// amount that cannot be read leaves no room.
pub(super) fn without_room(
    quotas: &[ResourceQuota],
    kind: Kind,
    old: &Value,
    successor: &Value,
) -> Option<(String, String)> {
    quotas.iter().find_map(|quota| {
        let status = quota.status.clone().unwrap_or_default();
        // A quota's spec also lists resources that the quota controller has not counted yet.
        let mut hard = quota.spec.clone().and_then(|spec| spec.hard).unwrap_or_default();
        hard.extend(status.hard.unwrap_or_default());
        let used = status.used.unwrap_or_default();
        let exceeded = hard.iter().find(|(resource, limit)| {
            let fits = || match taken(resource, kind, successor)? {
                0 => Some(true),
                requested => {
                    let used = count(&used.get(*resource)?.0)?;
                    let after = used.saturating_add(requested).saturating_sub(taken(resource, kind, old)?);
                    Some(after <= count(&limit.0)?)
                }
            };
            !fits().unwrap_or(false)
        });
        exceeded.map(|(resource, _)| (quota.name_any(), resource.clone()))
    })
}

/// Removes from a Service the node ports and addresses that the `old` Service has.
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

/// Returns how much of a quota's resource an object uses; `None` for a resource that is not a simple count.
fn taken(resource: &str, kind: Kind, object: &Value) -> Option<u64> {
    let of_kind = kind.resource().qualified();
    if resource.strip_prefix("count/").unwrap_or(resource) == of_kind {
        return Some(1);
    }
    let spec = &object["spec"];
    let is_balanced = spec["type"] == "LoadBalancer";
    let takes_all =
        spec["type"] == "NodePort" || (is_balanced && spec["allocateLoadBalancerNodePorts"] != false);
    let ports = ports(object);
    let set = || ports.iter().filter(|port| !port["nodePort"].is_null()).count();
    match (&*of_kind, resource) {
        ("persistentvolumeclaims", measured) if measured.contains("storage") => None,
        ("resourceclaims.resource.k8s.io", measured) if measured.contains("deviceclass") => None,
        ("services", "services.loadbalancers") => Some(u64::from(is_balanced)),
        ("services", "services.nodeports") if takes_all => Some(ports.len() as u64),
        ("services", "services.nodeports") if is_balanced => Some(set() as u64),
        _ => Some(0),
    }
}

/// Parses a number in the format of quotas, such as `40` or `2k`.
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
    use kube::core::Status;
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
    fn each_quota_must_have_room_once_the_old_object_is_gone() {
        let service = |type_: &str, ports: Value| json!({"spec": {"type": type_, "ports": ports}});
        let old = service("NodePort", json!([{"nodePort": 30001}, {"nodePort": 30002}]));
        let same = service("NodePort", json!([{"port": 1}, {"port": 2}]));
        let more = service("NodePort", json!([{"port": 1}, {"port": 2}, {"port": 3}]));
        let balanced = service("LoadBalancer", json!([{"port": 1}]));
        let none = Value::Null;
        for (kind, old, new, quotas, fits) in [
            (Kind::Secret, &none, &none, json!([]), true),
            (Kind::Secret, &none, &none, json!([{"count/secrets": ["2", "2"]}]), true),
            (Kind::Secret, &none, &none, json!([{"secrets": ["2k", "2k"], "pods": ["9", "1"]}]), true),
            (Kind::Secret, &none, &none, json!([{"secrets": ["3", "2"]}]), false),
            (
                Kind::Secret,
                &none,
                &none,
                json!([{"count/secrets": ["1", "1"]}, {"secrets": ["1", "0"]}]),
                false,
            ),
            (Kind::Secret, &none, &none, json!([{"secrets": ["1M", "1M"]}]), false),
            (
                Kind::Service,
                &old,
                &same,
                json!([{"services": ["5", "5"], "services.nodeports": ["4", "4"]}]),
                true,
            ),
            (Kind::Service, &old, &more, json!([{"services.nodeports": ["4", "4"]}]), false),
            (Kind::Service, &old, &balanced, json!([{"services.nodeports": ["4", "4"]}]), true),
            (Kind::Service, &old, &balanced, json!([{"services.loadbalancers": ["1", "1"]}]), false),
            (
                Kind::NetworkPolicy,
                &none,
                &none,
                json!([{"count/networkpolicies.networking.k8s.io": ["1", "1"]}]),
                true,
            ),
            (
                Kind::NetworkPolicy,
                &none,
                &none,
                json!([{"count/networkpolicies.networking.k8s.io": ["1", "0"]}]),
                false,
            ),
        ] {
            let quota = |amounts: &Value| {
                let all = amounts.as_object().unwrap();
                let at = |place: usize| -> Value {
                    all.iter().map(|(key, pair)| (key.clone(), pair[place].clone())).collect()
                };
                serde_json::from_value(json!({"status": {"used": at(0), "hard": at(1)}})).unwrap()
            };
            let judged: Vec<ResourceQuota> = quotas.as_array().unwrap().iter().map(quota).collect();
            let found = without_room(&judged, kind, old, new);
            assert_eq!(found.is_none(), fits, "{kind:?} {new} {quotas}: {found:?}");
        }
    }

    #[test]
    fn what_the_quota_controller_has_not_counted_has_no_room() {
        let new: ResourceQuota = serde_json::from_value(json!({"spec": {"hard": {"secrets": "9"}}})).unwrap();
        assert!(without_room(&[new], Kind::Secret, &Value::Null, &Value::Null).is_some());
    }

    #[test]
    fn what_quotas_say_is_told_from_what_policies_say() {
        let quota = "secrets \"a\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1";
        for (message, expected) in [
            (quota.to_owned(), Verdict::QuotaExceeded),
            ("admission webhook \"x\" denied the request: no".to_owned(), Verdict::Refused),
            (format!("denied request: {quota}"), Verdict::Refused),
        ] {
            let status = Status { message, code: 403, ..Status::default() };
            assert_eq!(verdict(&Error::Api(status.boxed())), expected);
        }
    }
}
