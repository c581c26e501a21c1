use serde_json::json;

use super::*;

/// As a 1.36 API server writes them for a NetworkPolicy.
#[test]
fn paths_end_where_the_api_server_treats_what_is_there_as_one() {
    let entries: Vec<ManagedFields<PathFields>> = serde_json::from_value(json!([
        {
            "manager": marks::COPY_MANAGER, "operation": "Apply", "apiVersion": "networking.k8s.io/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {"f:copyrator.dev/definition": {}}},
                "f:spec": {"f:podSelector": {}, "f:policyTypes": {}},
            },
        },
        {
            "manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:copyrator.dev/rule": {}, "f:team": {}}},
                "f:spec": {".": {}, "f:ingress": {}},
            },
        },
        {
            "manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
            "fieldsV1": {"f:status": {".": {}, "f:conditions": {"k:{\"type\":\"A\"}": {".": {}, "f:type": {}}}}},
        },
    ]))
    .unwrap();
    let owned = ownership(&entries);
    let paths = ["/spec/podSelector", "/spec/policyTypes"].map(str::to_owned).to_vec();
    assert_eq!(owned.ours, Some(OwnFields::Paths(Box::new((marks::field_set(["label/app"]), paths)))));
    let ingress = ForeignField::Path("/spec/ingress".into());
    assert_eq!(owned.foreign, [ingress, ForeignField::Mark(marks::RULE_LABEL.into())]);
    assert_eq!(owned.others, ["kubectl-edit"]);
    assert_eq!(owned.written, entries[0].time);
}

#[test]
fn a_label_is_ours_alone_until_another_manager_owns_it_too() {
    let ours = json!({"manager": marks::COPY_MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": {
        "f:labels": {"f:app": {}, "f:tier": {}, "f:copyrator.dev/rule": {}},
        "f:annotations": {"f:note": {}, "f:copyrator.dev/mark": {}, "f:copyrator.dev/definition": {}},
    }}});
    let theirs = |manager: &str, operation: &str, labels: Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": {"f:labels": labels}}});
    let tier = json!({"f:tier": {}, "f:theirs": {}});
    for (entries, alone) in [
        (vec![ours.clone()], &["annotation/note", "label/app", "label/tier"][..]),
        (vec![theirs("kubectl", "Update", tier.clone()), ours.clone()], &["annotation/note", "label/app"]),
        (vec![ours, theirs(marks::COPY_MANAGER, "Update", tier.clone())], &["annotation/note", "label/app"]),
        (vec![theirs("kubectl", "Apply", tier)], &[]),
    ] {
        let read: Vec<ManagedFields<DataFields>> = serde_json::from_value(json!(entries)).unwrap();
        assert_eq!(ownership(&read).ours_alone, alone, "{entries:?}");
    }
}

/// Of an object whose template's fields alone are kept, it is known who owns fields, not which ones.
#[test]
fn who_may_undo_what_we_write_is_known_by_name() {
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let status = || json!({"f:status": {"f:replicas": {}}, "f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}});
    for (manager, subresource, fields, is_told) in [
        ("kubectl-edit", None, replicas(), true),
        ("kube-controller-manager", Some("scale"), replicas(), true),
        ("kube-controller-manager", Some("status"), status(), false),
        ("their-operator", None, status(), false),
        ("kubectl-label", None, json!({"f:metadata": {"f:labels": {"f:team": {}}}}), false),
        ("kubectl-label", None, json!({"f:metadata": {"f:labels": {"f:copyrator.dev/rule": {}}}}), true),
        (marks::RESTART_MANAGER, None, json!({"f:spec": {"f:template": {}}}), false),
        (
            marks::REMOVAL_MANAGER,
            None,
            json!({"f:metadata": {"f:annotations": {"f:copyrator.dev/rule": {}}}}),
            false,
        ),
    ] {
        let entry = |manager: &str| json!({"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": fields});
        let read = |entries: Vec<Value>| -> Ownership {
            ownership(&serde_json::from_value::<Vec<ManagedFields<MarkFields>>>(json!(entries)).unwrap())
        };
        let told = if is_told { vec![manager.to_owned()] } else { Vec::new() };
        assert_eq!(read(vec![entry(manager)]).others, told, "{manager} {subresource:?} {fields}");
        let crowd = (0..100).map(|number| entry(&format!("manager-{number}"))).collect();
        assert!(read(crowd).others.len() <= Ownership::OTHERS);
    }
}

#[test]
fn items_of_lists_and_what_is_no_content_are_left_out() {
    for (fields, paths) in [
        (json!({"f:secrets": {".": {}, "k:{\"name\":\"a\"}": {}}, "f:imagePullSecrets": {}}), &[][..]),
        (json!({"f:automountServiceAccountToken": {}}), &["/automountServiceAccountToken"]),
        (json!({"f:spec": {"f:limits": {"k:{\"type\":\"Pod\"}": {"f:max": {}}}}}), &["/spec/limits"]),
        (
            json!({"f:spec": {"f:hard": {".": {}, "f:a/b": {}, "f:pods": {}}}}),
            &["/spec/hard/a~1b", "/spec/hard/pods"],
        ),
        (json!({"f:spec": {}}), &["/spec"]),
    ] {
        let read: PathFields = serde_json::from_value(fields.clone()).unwrap();
        assert_eq!(read.content, paths, "{fields}");
        assert_eq!(read.owns_content(), !paths.is_empty(), "{fields}");
    }
}
