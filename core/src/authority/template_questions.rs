//! The rights that a template needs, as questions to the API server.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::{
    Question, Subject,
    questions::{binding, places, question, writing},
};
use crate::{
    api::{CopyratorTemplateSpec, ResourceType, TargetTerm, TemplateObject},
    names::{Kind, StatusPlace, TemplateKind},
    validate::{CompiledTemplate, declared_kind, written_kind},
};

/// The rights that a template in `namespace` needs: reading the objects that it is rendered for and the
/// objects and Namespaces that its expressions read, writing its own objects, and writing a status. Kinds
/// that are not `granted` to templates are left out: objects of these kinds are not rendered, and a template
/// with such a kind must get no grant until the kind is granted.
pub fn template_questions(
    namespace: &str,
    spec: &CopyratorTemplateSpec,
    compiled: Option<&CompiledTemplate>,
    subject: &Subject,
    granted: &BTreeSet<TemplateKind>,
) -> Vec<Question> {
    let kinds: BTreeSet<Kind> =
        spec.objects.iter().filter_map(|object| written_kind(object, granted)).collect();
    let own = [TargetTerm { names: Some(vec![namespace.to_owned()]), ..TargetTerm::default() }];
    let for_each = &spec.for_each;
    let terms = match (&for_each.namespaces, &for_each.objects) {
        (Some(terms), _) => terms,
        (None, Some(objects)) if !objects.namespaces.is_empty() => &objects.namespaces[..],
        (None, _) => &own,
    };
    let places = places(terms, None);
    let written =
        places.iter().flat_map(|place| kinds.iter().flat_map(|kind| writing(subject, *kind, place)));
    let roles: BTreeSet<&str> = spec.objects.iter().filter_map(bound_role).collect();
    let bound = places.iter().flat_map(|place| roles.iter().map(|role| binding(subject, role, place)));
    let instances = for_each.objects.as_ref().and_then(|objects| {
        let is_one = |kind: &&TemplateKind| {
            *kind.kind.api_version == *objects.api_version && *kind.kind.kind == *objects.kind
        };
        granted.iter().filter(|kind| kind.for_each).find(is_one)
    });
    let of_instances = instances.into_iter().flat_map(|kind| {
        places.iter().flat_map(move |place| {
            let read = ["get", "list"].map(|verb| on_instances(subject, verb, kind, place));
            let status = kind.status.filter(|_| spec.write_status.is_some());
            let status = status.map(|status| Question {
                subresource: (status == StatusPlace::Subresource).then_some("status"),
                ..on_instances(subject, "patch", kind, place)
            });
            read.into_iter().chain(status)
        })
    });
    let objects = compiled.iter().flat_map(|compiled| &compiled.objects);
    let (mut read, mut reads_pods) = (BTreeSet::<Kind>::new(), false);
    for (object, compiled) in objects.zip(compiled.iter().cycle()) {
        read.extend(declared_kind(object, granted).filter(|_| compiled.reads(&object.id)));
        reads_pods |= compiled.reads_pods(&object.id);
    }
    let of_objects = places.iter().flat_map(|place| {
        let read = read.iter().map(|kind| question(subject, "get", kind.resource(), None, place));
        read.chain(reads_pods.then(|| question(subject, "list", ResourceType::of::<Pod>(), None, place)))
    });
    // The objects that a template makes, or their number, reveal the values that the template has read. (An
    // author who writes in a namespace knows its name.)
    let of_namespaces = places.iter().filter(|_| compiled.is_some_and(|compiled| compiled.reads_namespace));
    let of_namespaces = of_namespaces.map(|place| {
        let name = Some(place).filter(|place| !place.is_empty()).cloned();
        question(subject, "get", ResourceType::of::<Namespace>(), name, place)
    });
    let all = written.chain(bound).chain(of_instances).chain(of_objects).chain(of_namespaces);
    let mut questions: Vec<Question> = all.collect();
    questions.sort();
    questions.dedup();
    questions
}

/// The ClusterRole that a RoleBinding names. The name is literal.
fn bound_role(object: &TemplateObject) -> Option<&str> {
    let role = &object.template["roleRef"]["name"];
    let kind = written_kind(object, &BTreeSet::new());
    kind.filter(|kind| *kind == Kind::RoleBinding).and(role.as_str())
}

fn on_instances(subject: &Subject, verb: &'static str, kind: &TemplateKind, namespace: &str) -> Question {
    Question {
        subject: subject.clone(),
        verb,
        group: kind.kind.group().to_owned().into(),
        resource: kind.plural.clone().into(),
        subresource: None,
        name: None,
        namespace: namespace.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{authority::questions::tests::asked, names::GrantedKinds};

    fn template(for_each: Value, kinds: &[(&str, &str)], granted: &[&str]) -> Vec<String> {
        let object = |(version, kind): &(&str, &str)| json!({"id": "a", "template": {"apiVersion": version, "kind": kind}});
        let objects: Vec<Value> = kinds.iter().map(object).collect();
        let spec = serde_json::from_value(json!({"forEach": for_each, "objects": objects})).unwrap();
        let kinds = GrantedKinds::default();
        let granted = granted.iter().map(|kind| TemplateKind::read(kind, &kinds).unwrap()).collect();
        asked(&template_questions("platform", &spec, None, &Subject::default(), &granted))
    }

    #[test]
    fn each_kind_is_asked_for_where_its_objects_go() {
        let named = json!({"namespaces": [{"names": ["shop"], "namespaceSelector": {}}, {"names": ["web"]}]});
        assert_eq!(
            template(
                named,
                &[("v1", "ConfigMap"), ("networking.k8s.io/v1", "NetworkPolicy"), ("v1", "ConfigMap")],
                &[]
            ),
            [
                "create configmaps in shop",
                "create configmaps in web",
                "create networkpolicies in shop",
                "create networkpolicies in web",
                "delete configmaps in shop",
                "delete configmaps in web",
                "delete networkpolicies in shop",
                "delete networkpolicies in web",
                "patch configmaps in shop",
                "patch configmaps in web",
                "patch networkpolicies in shop",
                "patch networkpolicies in web"
            ]
        );
        let config_map = [("v1", "ConfigMap")];
        let in_one =
            |place: &str| ["create", "delete", "patch"].map(|verb| format!("{verb} configmaps in {place}"));
        let objects = |namespaces: Value| json!({"objects": {"apiVersion": "a/v1", "kind": "A", "namespaces": namespaces}});
        for (for_each, place) in [
            (json!({"namespaces": [{"names": ["shop"]}, {"namespaceSelector": {}}]}), "*"),
            (json!({"namespaces": [{"names": ["shop-*"]}]}), "*"),
            (objects(json!([])), "platform"),
            (objects(json!([{"names": ["shop"]}])), "shop"),
            (objects(json!([{"namespaceSelector": {}}])), "*"),
        ] {
            assert_eq!(template(for_each.clone(), &config_map, &[]), in_one(place), "{for_each}");
        }
    }

    #[test]
    fn the_objects_that_it_is_rendered_for_must_be_readable_where_its_terms_reach() {
        let objects = |namespaces: Value| json!({"objects": {"apiVersion": "a.b/v1", "kind": "Nginx", "namespaces": namespaces}});
        let granted = ["a.b/v1/Nginx/nginxes/forEach", "a.b/v2/Nginx/nginxes/forEach"];
        for (namespaces, place) in [
            (json!([]), "platform"),
            (json!([{"names": ["shop"]}]), "shop"),
            (json!([{"names": ["shop"]}, {"namespaceSelector": {}}]), "*"),
        ] {
            let asked = template(objects(namespaces), &[("v1", "ConfigMap")], &granted);
            let read = asked.iter().filter(|one| one.contains("nginxes"));
            assert_eq!(
                read.collect::<Vec<_>>(),
                [&format!("get nginxes in {place}"), &format!("list nginxes in {place}")]
            );
        }
    }

    #[test]
    fn who_gives_a_role_by_a_template_must_be_allowed_to_bind_it_there() {
        let template = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "roleRef": {"kind": "ClusterRole", "name": "view"}});
        let for_each = json!({"namespaces": [{"names": ["shop"]}]});
        let spec = json!({"forEach": for_each, "objects": [{"id": "a", "template": template}]});
        let spec = serde_json::from_value(spec).unwrap();
        let asked =
            asked(&template_questions("platform", &spec, None, &Subject::default(), &BTreeSet::new()));
        let writing = ["create", "delete", "patch"].map(|verb| format!("{verb} rolebindings in shop"));
        assert_eq!(asked[0], "bind clusterroles view in shop");
        assert_eq!(asked[1..], writing);
    }

    #[test]
    fn what_expressions_read_and_a_status_take_rights_of_their_own() {
        let labels = json!({"app": "a"});
        let pods =
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": labels}, "template": pods}});
        let spec: CopyratorTemplateSpec = serde_json::from_value(json!({
            "forEach": {"objects": {"apiVersion": "a.b/v1", "kind": "Nginx"}},
            "objects": [{"id": "deploy", "template": deployment}],
            "writeStatus": {"names": "${pods(deploy).map(pod, pod.metadata.name)}"},
        }))
        .unwrap();
        let compiled = CompiledTemplate::compile(&spec).unwrap();
        for (used, patched) in [("status", "nginxes/status"), ("statusField", "nginxes")] {
            let granted = format!("a.b/v1/Nginx/nginxes/forEach+{used}");
            let granted = [TemplateKind::read(&granted, &GrantedKinds::default()).unwrap()].into();
            let questions =
                template_questions("platform", &spec, Some(&compiled), &Subject::default(), &granted);
            let further: Vec<String> =
                asked(&questions).into_iter().filter(|one| !one.contains(" deployments")).collect();
            assert!(asked(&questions).contains(&"get deployments in platform".to_owned()));
            let patched = format!("patch {patched} in platform");
            let expected =
                ["get nginxes in platform", "list pods in platform", "list nginxes in platform", &patched];
            assert_eq!(further, expected);
        }
    }

    /// Without this check, the number of objects would reveal the result of an `includeWhen` on another
    /// namespace's annotations.
    #[test]
    fn who_reads_more_of_a_namespace_than_its_name_must_be_allowed_to_get_it() {
        let read = |text: &str, include_when: Option<&str>, for_each: Value| {
            let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": text}});
            let mut object = json!({"id": "a", "template": config_map});
            if let Some(condition) = include_when {
                object["includeWhen"] = json!(condition);
            }
            let spec: CopyratorTemplateSpec =
                serde_json::from_value(json!({"forEach": for_each, "objects": [object]})).unwrap();
            let compiled = CompiledTemplate::compile(&spec).unwrap();
            let questions =
                template_questions("platform", &spec, Some(&compiled), &Subject::default(), &BTreeSet::new());
            asked(&questions).into_iter().filter(|one| one.contains("namespaces")).collect::<Vec<_>>()
        };
        let named = || json!({"namespaces": [{"names": ["shop", "web"]}]});
        assert_eq!(read("${namespaceObject.metadata.name}", None, named()), [""; 0]);
        assert_eq!(read("${namespaceObject['metadata']['name']}", None, named()), [""; 0]);
        for expression in [
            "namespaceObject.metadata.labels['a'] == 'b'",
            "namespaceObject.metadata.?annotations[?'a'].orValue('') == 'b'",
            "has(namespaceObject.metadata.labels)",
            "namespaceObject['metadata']['annotations'].exists(key, key.startsWith('a'))",
            "namespaceObject.metadata.exists(key, key == 'labels')",
            "[namespaceObject].exists(it, it.metadata.labels.a == 'b')",
            "namespaceObject.metadata.uid.startsWith('a')",
        ] {
            let both = ["get namespaces shop in shop", "get namespaces web in web"];
            assert_eq!(read("a", Some(expression), named()), both, "{expression}");
            assert_eq!(read(&format!("${{{expression}}}"), None, named()), both, "{expression}");
        }
        let everywhere = json!({"namespaces": [{"namespaceSelector": {}}]});
        assert_eq!(read("${namespaceObject.metadata.labels.a}", None, everywhere), ["get namespaces in *"]);
        let objects = json!({"objects": {"apiVersion": "a.b/v1", "kind": "Nginx"}});
        let own = ["get namespaces platform in platform"];
        assert_eq!(read("${namespaceObject.metadata.labels.a}", None, objects), own);
    }

    #[test]
    fn what_is_not_rendered_needs_nothing() {
        let everywhere = json!({"namespaces": [{"namespaceSelector": {}}]});
        for kind in [
            ("v1", "Secret"),
            ("batch/v1", "CronJob"),
            ("v2", "ConfigMap"),
            ("v1", "NetworkPolicy"),
            ("", ""),
        ] {
            assert_eq!(template(everywhere.clone(), &[kind], &[]), [""; 0], "{kind:?}");
        }
    }
}
