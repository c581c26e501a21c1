//! The rights that a template needs, as questions to the API server.

use std::collections::BTreeSet;

use super::{
    Question, Subject,
    questions::{binding, places, writing},
};
use crate::{
    api::{CopyratorTemplateSpec, TargetTerm, TemplateObject},
    names::{Kind, TemplateKind},
    validate::written_kind,
};

/// What a template of `namespace` needs to read the objects that it is rendered for, and to write its own, where `granted`
/// are the kinds that may be read. Objects of other kinds than [`written_kind`] knows need nothing: they are not rendered.
/// Neither does another kind to read, and a template of such a kind must not be granted anything until that is one.
pub fn template_questions(
    namespace: &str,
    spec: &CopyratorTemplateSpec,
    subject: &Subject,
    granted: &BTreeSet<TemplateKind>,
) -> Vec<Question> {
    let kinds: BTreeSet<Kind> = spec.objects.iter().filter_map(written_kind).collect();
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
        granted.iter().find(is_one)
    });
    let read = instances.into_iter().flat_map(|kind| {
        places.iter().flat_map(move |place| ["get", "list"].map(|verb| reading(subject, verb, kind, place)))
    });
    let mut questions: Vec<Question> = written.chain(bound).chain(read).collect();
    questions.sort();
    questions.dedup();
    questions
}

/// The ClusterRole that a RoleBinding names, which is literal.
fn bound_role(object: &TemplateObject) -> Option<&str> {
    let role = &object.template["roleRef"]["name"];
    written_kind(object).filter(|kind| *kind == Kind::RoleBinding).and(role.as_str())
}

fn reading(subject: &Subject, verb: &'static str, kind: &TemplateKind, namespace: &str) -> Question {
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
    use crate::authority::questions::tests::asked;

    fn template(for_each: Value, kinds: &[(&str, &str)], granted: &[&str]) -> Vec<String> {
        let object = |(version, kind): &(&str, &str)| json!({"id": "a", "template": {"apiVersion": version, "kind": kind}});
        let objects: Vec<Value> = kinds.iter().map(object).collect();
        let spec = serde_json::from_value(json!({"forEach": for_each, "objects": objects})).unwrap();
        let granted = granted.iter().map(|kind| kind.parse().unwrap()).collect();
        asked(&template_questions("platform", &spec, &Subject::default(), &granted))
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
        let asked = asked(&template_questions("platform", &spec, &Subject::default(), &BTreeSet::new()));
        let writing = ["create", "delete", "patch"].map(|verb| format!("{verb} rolebindings in shop"));
        assert_eq!(asked[0], "bind clusterroles view in shop");
        assert_eq!(asked[1..], writing);
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
