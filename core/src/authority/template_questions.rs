//! The rights that a template needs, as questions to the API server.

use std::collections::BTreeSet;

use super::{
    Question, Subject,
    questions::{binding, places, writing},
};
use crate::{
    api::{CopyratorTemplateSpec, TargetTerm, TemplateObject},
    names::Kind,
    validate::written_kind,
};

/// What a template of `namespace` needs to write its objects, where Copyrator looks at the namespaces `within`
/// only, or at all. Objects of other kinds than [`written_kind`] knows need nothing: they are not rendered.
pub fn template_questions(
    namespace: &str,
    spec: &CopyratorTemplateSpec,
    subject: &Subject,
    within: Option<&BTreeSet<String>>,
) -> Vec<Question> {
    let kinds: BTreeSet<Kind> = spec.objects.iter().filter_map(written_kind).collect();
    let own = [TargetTerm { names: Some(vec![namespace.to_owned()]), ..TargetTerm::default() }];
    let for_each = &spec.for_each;
    let terms = match (&for_each.namespaces, &for_each.objects) {
        (Some(terms), _) => terms,
        (None, Some(objects)) if !objects.namespaces.is_empty() => &objects.namespaces[..],
        (None, _) => &own,
    };
    let roles: BTreeSet<&str> = spec.objects.iter().filter_map(bound_role).collect();
    let at = |place: &str| {
        let bind = roles.iter().map(|role| binding(subject, role, place));
        kinds.iter().flat_map(|kind| writing(subject, *kind, place)).chain(bind).collect::<Vec<_>>()
    };
    let mut questions: Vec<Question> = places(terms, within).iter().flat_map(|place| at(place)).collect();
    questions.sort();
    questions.dedup();
    questions
}

/// The ClusterRole that a RoleBinding names, which is literal.
fn bound_role(object: &TemplateObject) -> Option<&str> {
    let role = &object.template["roleRef"]["name"];
    written_kind(object).filter(|kind| *kind == Kind::RoleBinding).and(role.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::authority::questions::tests::asked;

    fn template(for_each: Value, kinds: &[(&str, &str)], within: Option<&[&str]>) -> Vec<String> {
        let object = |(version, kind): &(&str, &str)| json!({"id": "a", "template": {"apiVersion": version, "kind": kind}});
        let objects: Vec<Value> = kinds.iter().map(object).collect();
        let spec = serde_json::from_value(json!({"forEach": for_each, "objects": objects})).unwrap();
        let within = within.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        asked(&template_questions("platform", &spec, &Subject::default(), within.as_ref()))
    }

    #[test]
    fn each_kind_is_asked_for_where_its_objects_go() {
        let named = json!({"namespaces": [{"names": ["shop"], "namespaceSelector": {}}, {"names": ["web"]}]});
        assert_eq!(
            template(
                named,
                &[("v1", "ConfigMap"), ("networking.k8s.io/v1", "NetworkPolicy"), ("v1", "ConfigMap")],
                None
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
        for (for_each, within, place) in [
            (json!({"namespaces": [{"names": ["shop"]}, {"namespaceSelector": {}}]}), None, "*"),
            (json!({"namespaces": [{"names": ["shop-*"]}]}), None, "*"),
            (json!({"namespaces": [{"namespaceSelector": {}}]}), Some(&["shop"][..]), "shop"),
            (objects(json!([])), None, "platform"),
            (objects(json!([{"names": ["shop"]}])), None, "shop"),
            (objects(json!([{"namespaceSelector": {}}])), None, "*"),
        ] {
            assert_eq!(template(for_each.clone(), &config_map, within), in_one(place), "{for_each}");
        }
    }

    #[test]
    fn who_gives_a_role_by_a_template_must_be_allowed_to_bind_it_there() {
        let template = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "roleRef": {"kind": "ClusterRole", "name": "view"}});
        let for_each = json!({"namespaces": [{"names": ["shop"]}]});
        let spec = json!({"forEach": for_each, "objects": [{"id": "a", "template": template}]});
        let spec = serde_json::from_value(spec).unwrap();
        let asked = asked(&template_questions("platform", &spec, &Subject::default(), None));
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
            assert_eq!(template(everywhere.clone(), &[kind], None), [""; 0], "{kind:?}");
        }
    }
}
