//! What the API server does not keep of what was written: a mutating webhook or policy changes it, or the version in which the kind is
//! stored does not have the field. Writing it again would come to the same, so it is told and not repeated.

use serde_json::Value;

use super::{
    intent::Intent,
    problem::{CopyProblem, ProblemReason},
    unlike::unlike,
};
use crate::{
    model::{NotKept, ObjectFacts, World},
    names::ObjectKey,
};

/// What the paths of labels begin with.
const LABELS: &str = "metadata.labels";
/// How many fields are looked for. A message names all of them but the last, of which it says that there are others.
const MOST: usize = 9;

/// The paths of the fields of `declared` that `stored` does not have with these values, such as
/// `spec.template.spec.containers[web].image`: the first `MOST`. What the API server writes differently is the same (quantities,
/// durations, what is empty), and what it adds does not count. The order of a list counts where the managedFields of `stored` say that
/// the list is atomic; its path ends with `(order)` then.
pub fn not_kept(declared: &Value, stored: &Value) -> Vec<String> {
    unlike(declared, stored, MOST).into_iter().map(|it| it.path).collect()
}

/// What to tell of an object that is in order: the fields that the API server does not keep.
pub(super) fn altered(world: &World, slot: &ObjectKey, existing: &ObjectFacts) -> Option<CopyProblem> {
    let NotKept { digest, fields } = world.memory().slot(slot).not_kept()?;
    if existing.marks.as_deref()?.digest != *digest {
        return None;
    }
    let named = fields.iter().take(MOST - 1).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if fields.len() == MOST { " and others" } else { "" };
    let message = format!(
        "the API server took the object and does not keep what is declared for {named}{more}: a mutating webhook or policy changes it, or \
         the stored version of the kind leaves it out. It is not written again; have the webhook or policy leave this object out, or \
         have the template or the source say what it makes of it"
    );
    Some(CopyProblem::new(slot, ProblemReason::NotKept, message))
}

/// Whether the API server is known to take labels off the object that are declared, or to change them.
pub(super) fn loses_labels(world: &World, slot: &ObjectKey, intent: &Intent) -> bool {
    let lost = world.memory().slot(slot).not_kept().filter(|lost| lost.digest == intent.marks.digest);
    lost.is_some_and(|lost| lost.fields.iter().any(|field| field.starts_with(LABELS)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::marks::COPY_MANAGER;

    #[test]
    fn what_the_api_server_writes_differently_is_kept() {
        for (declared, stored) in [
            (json!({"cpu": "1000m"}), json!({"cpu": "1"})),
            (json!({"cpu": 1}), json!({"cpu": "1"})),
            (json!({"cpu": "0.7"}), json!({"cpu": "700m"})),
            (json!({"memory": "4.1G"}), json!({"memory": "4100M"})),
            (
                json!({"clusterIP": "", "policy": null}),
                json!({"clusterIP": "10.96.0.5", "policy": "IfNotPresent"}),
            ),
            (
                json!([{"name": "data", "mountPath": "/a"}]),
                json!([{"name": "data", "mountPath": "/z"}, {"name": "data", "mountPath": "/a", "readOnly": false}]),
            ),
            (
                json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]),
                json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "name": "dns"}]),
            ),
            (
                json!([{"port": 80}]),
                json!([{"port": 9, "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "name": "web"}]),
            ),
            (json!({"memory": "1024Mi"}), json!({"memory": "1Gi"})),
            (json!({"memory": "1e3"}), json!({"memory": "1k"})),
            (json!({"every": "60s"}), json!({"every": "1m0s"})),
            (json!({"every": "1.5h"}), json!({"every": "1h30m0s"})),
            (json!({"at": "2026-01-01T01:00:00+01:00"}), json!({"at": "2026-01-01T00:00:00Z"})),
            (json!({"env": [], "hostNetwork": false, "resources": {"limits": {}}, "note": null}), json!({})),
            (json!({"a": "1"}), json!({"a": "1", "b": "default"})),
            (json!(["a", "b"]), json!(["b", "sidecar", "a"])),
            (json!([{"name": "web"}]), json!([{"name": "proxy"}, {"name": "web", "image": "x"}])),
            (
                json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
                json!({"metadata": {"name": "a", "resourceVersion": "2"}}),
            ),
        ] {
            assert_eq!(not_kept(&declared, &stored), Vec::<String>::new(), "{declared} {stored}");
        }
    }

    #[test]
    fn what_is_changed_or_left_out_is_named() {
        for (declared, stored, path) in [
            (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}), "spec.replicas"),
            (json!({"spec": {"replicas": 2}}), json!({"spec": {}}), "spec.replicas"),
            (json!({"cpu": "1"}), json!({"cpu": "2"}), "cpu"),
            (json!({"on": true}), json!({"on": false}), "on"),
            (json!({"on": true}), json!({}), "on"),
            (
                json!({"spec": {"containers": [{"name": "web", "image": "a:1"}]}}),
                json!({"spec": {"containers": [{"name": "proxy", "image": "b"}, {"name": "web", "image": "mirror/a:1"}]}}),
                "spec.containers[web].image",
            ),
            (json!({"args": ["a", "b"]}), json!({"args": ["a", "c"]}), "args[1]"),
            (json!({"args": ["a", "b"]}), json!({"args": ["a"]}), "args[1]"),
            (
                json!({"ports": [{"port": 80, "targetPort": 1}]}),
                json!({"ports": [{"port": 80, "targetPort": 2}]}),
                "ports[80].targetPort",
            ),
            (json!({"keys": [{"key": "s3cr3t", "x": 1}]}), json!({"keys": [{"key": "s3cr3t"}]}), "keys[0].x"),
            (json!({"keys": [{"name": {"token": "s3cr3t"}}]}), json!({"keys": [{}]}), "keys[0].name"),
            (json!({"metadata": {"labels": {"app": "a"}}}), json!({"metadata": {}}), "metadata.labels"),
            (json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": 1}}), "spec.a"),
        ] {
            assert_eq!(not_kept(&declared, &stored), [path], "{declared} {stored}");
        }
    }

    /// A container as the API server stores it, with what it says of who owns which fields.
    fn container(args: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "metadata": {"managedFields": [{
                "manager": COPY_MANAGER, "operation": "Apply", "apiVersion": "v1",
                "fieldsV1": {"f:spec": {
                    "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:args": {}, "f:env": {
                        "k:{\"name\":\"A\"}": {}, "k:{\"name\":\"B\"}": {},
                    }}},
                    "f:rules": {},
                    "f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}},
                }},
            }]},
            "spec": {
                "containers": [{"name": "proxy"}, {"name": "web", "args": args, "env": [{"name": "B"}, {"name": "A"}]}],
                "rules": [{"to": ["x", "y"], "on": 1}, {"to": ["z"]}, {"to": ["x", "y"]}],
                "finalizers": ["b", "a"],
            },
        })
    }

    #[test]
    fn the_order_of_a_list_counts_where_the_list_is_atomic() {
        let args = |args: Value| {
            let env = json!([{"name": "A"}, {"name": "B"}]);
            json!({"apiVersion": "v1", "spec": {"containers": [{"name": "web", "args": args, "env": env}], "finalizers": ["a", "b"]}})
        };
        let is = "spec.containers[web].args (order)";
        for (declared, stored, lost) in [
            (json!(["a", "b"]), json!(["a", "b"]), None),
            (json!(["a", "b"]), json!(["b", "a"]), Some(is)),
            (json!(["a", "b"]), json!(["first", "a", "between", "b", "last"]), None),
            (json!(["a", "b"]), json!(["b", "between", "a"]), Some(is)),
            (json!(["-v", "-v"]), json!(["-v", "other", "-v"]), None),
            (json!(["a", "b", "a"]), json!(["a", "a", "b"]), Some(is)),
            (json!(["1.5h", "b"]), json!(["1h30m", "b"]), None),
            (json!(["a", "b"]), json!(["c", "a"]), Some("spec.containers[web].args[1]")),
        ] {
            let lost: Vec<_> = lost.into_iter().collect();
            assert_eq!(not_kept(&args(declared.clone()), &container(&stored)), lost, "{declared} {stored}");
            let mut unknown = container(&stored);
            unknown["metadata"] = json!({});
            let lost: Vec<_> = lost.into_iter().filter(|path| *path != is).collect();
            assert_eq!(not_kept(&args(declared), &unknown), lost, "of what is not known no order is told");
        }
    }

    #[test]
    fn all_that_is_within_an_atomic_list_has_an_order() {
        let stored = container(&json!([]));
        let rules = |rules: Value| json!({"apiVersion": "v1", "spec": {"rules": rules}});
        for (declared, lost) in [
            (json!([{"to": ["x", "y"], "on": 1}, {"to": ["z"]}]), vec![]),
            (json!([{"to": ["x", "y"]}, {"to": ["z"]}, {"to": ["x", "y"]}]), vec![]),
            (json!([{"to": ["z"]}, {"to": ["x", "y"], "on": 1}]), vec!["spec.rules (order)"]),
            (json!([{"to": ["y", "x"]}]), vec!["spec.rules[0].to (order)"]),
        ] {
            assert_eq!(not_kept(&rules(declared.clone()), &stored), lost, "{declared}");
        }
    }

    /// However large the lists are that somebody's object has.
    #[test]
    fn there_is_a_limit_to_what_is_named_and_to_what_is_looked_for() {
        let items =
            |from: usize| json!((from..from + 20_000).map(|item| item.to_string()).collect::<Vec<_>>());
        assert_eq!(not_kept(&items(0), &items(20_000)).len(), MOST);
    }

    #[test]
    fn an_object_of_lists_in_lists_takes_no_longer_than_it_is_deep() {
        let nested = |leaf: u8| (0..100).fold(json!(leaf), |inner, _| json!([{"in": inner}]));
        assert_eq!(not_kept(&nested(1), &nested(0)).len(), 1);
        let ordered = |leaf: u8| {
            let entry = json!({"manager": COPY_MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:spec": {}}});
            json!({"apiVersion": "v1", "spec": nested(leaf), "metadata": {"managedFields": [entry]}})
        };
        assert_eq!(not_kept(&ordered(1), &ordered(1)).len(), 0);
        assert_eq!(not_kept(&ordered(1), &ordered(0)).len(), 1);
    }
}
