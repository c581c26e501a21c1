//! Objects with more labels than are kept.

use super::*;
use crate::{marks::COPY_MANAGER, model::Remark};

/// These labels and a thousand others.
fn many(labels: &Value) -> Value {
    let others = (0..1000).map(|at| (format!("example.org/{at}"), json!("x")));
    let labels = labels.as_object().unwrap().clone().into_iter();
    labels.chain(others).collect::<serde_json::Map<_, _>>().into()
}

/// Whether a selector would select it is not known, and its writer is told.
#[test]
fn an_object_with_too_many_labels_is_no_source_of_a_selector() {
    let none_of_it = json!([{"key": "internal", "operator": "DoesNotExist"}]);
    for selector in
        [json!({"matchLabels": {"app": "web"}}), json!({"matchExpressions": none_of_it}), json!({})]
    {
        let mut world = world();
        let source = json!({"spec": {"source": {"names": null, "objectSelector": selector}}});
        let by_selector = rule(&mut world, "selector", 1, source);
        let by_name = rule(&mut world, "name", 2, json!({}));
        let sources = |world: &World, rule: &Declarer| {
            sources_of(world, rule, world.rules()[rule].compiled.as_ref().unwrap()).count()
        };
        let labels = json!({"app": "web"});
        let key = secret(&mut world, "home", "app", json!({"labels": labels}));
        assert_eq!((sources(&world, &by_selector), sources(&world, &by_name)), (1, 1), "{selector}");
        assert_eq!(world.remark(&key), None);
        secret(&mut world, "home", "app", json!({"labels": many(&labels), "resourceVersion": "2"}));
        assert_eq!((sources(&world, &by_selector), sources(&world, &by_name)), (0, 1), "{selector}");
        assert_eq!(world.remark(&key).map(|remark| remark.reason), Some(Remark::PARTLY_READ));
        assert!(affected(&world, &Changed::Object(key.clone())).contains(&Key::Remark(key)));
    }
}

/// Otherwise a user who may label a copy would have it written again and again.
#[test]
fn a_copy_with_too_many_labels_is_as_it_should_be() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({"spec": {"copy": {"labels": {"set": {"tier": "infra"}}}}}));
    answer(&mut world, &rule, true);
    let intent = written(&plan_slot(&world, &slot(), at(100))).intent.clone();
    let fields = |of: &std::collections::BTreeMap<String, String>| -> Value {
        of.keys().map(|key| (format!("f:{key}"), json!({}))).collect::<serde_json::Map<_, _>>().into()
    };
    let owned = json!({"f:type": {}, "f:metadata": {
        "f:labels": fields(&intent.labels), "f:annotations": fields(&intent.annotations),
    }});
    let mut is_current = |labels: &Value| {
        let entry = json!({"manager": COPY_MANAGER, "operation": "Apply", "time": at(50), "fieldsV1": owned});
        let meta = json!({"annotations": intent.annotations, "labels": labels, "managedFields": [entry]});
        world.set_object(slot(), None);
        secret(&mut world, "shop", "app", meta);
        plan_slot(&world, &slot(), at(100)).state == SlotState::Current
    };
    let labels = json!(intent.labels);
    assert!(is_current(&labels));
    assert!(is_current(&many(&labels)));
    let mut changed = labels;
    changed["tier"] = json!("other");
    assert!(!is_current(&changed));
}
