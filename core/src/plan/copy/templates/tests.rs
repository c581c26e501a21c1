//! What was asked about a template: what it may delete, and when a grant of it ends.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::CopyratorTemplate,
    authority::{Subject, template_questions},
    digest::DigestKey,
    intake::{AsWritten, watched::Watched},
    names::GrantedKinds,
};

/// A world with one template, of namespace home, where these kinds are granted to templates.
fn world(kinds: &GrantedKinds, granted: &[&str], spec: &Value) -> (World, Declarer) {
    let mut world = World::default();
    world.settings_mut().template_kinds =
        granted.iter().map(|kind| TemplateKind::read(kind, kinds).unwrap()).collect();
    let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "spec": spec,
        "metadata": {"namespace": "home", "name": "t", "uid": "t", "generation": 1, "resourceVersion": "1"}});
    let template: AsWritten<CopyratorTemplate> = serde_json::from_value(object).unwrap();
    template.put(&mut world, Timestamp::UNIX_EPOCH);
    (world, Declarer::template("home", "t"))
}

fn object(api_version: &str, kind: &str) -> Value {
    json!({"id": "a", "template": {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}})
}

/// A right that was not asked about is asked about before a deletion, so both functions must agree.
#[test]
fn what_was_asked_about_deleting_is_what_the_spec_declares() {
    let kinds = GrantedKinds::default();
    let granted = ["a.b/v1/Nginx/nginxes/forEach", "c.d/v1/Shelf/shelves/render"];
    let shelf = kinds.kind("c.d/v1", "Shelf", "shelves", false).unwrap();
    let of_objects =
        |terms: Value| json!({"objects": {"apiVersion": "a.b/v1", "kind": "Nginx", "namespaces": terms}});
    let of_namespaces = |terms: Value| json!({"namespaces": terms, "excludeNamespaces": ["b"]});
    let terms = [
        json!([{"names": ["a"]}, {"names": ["b"]}]),
        json!([{"names": ["a"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}]),
        json!([{"names": ["a*"]}]),
        json!([{"names": ["a"]}, {"namespaceSelector": {}}]),
    ];
    let for_each = terms.iter().cloned().flat_map(|terms| [of_objects(terms.clone()), of_namespaces(terms)]);
    for for_each in for_each.chain([of_objects(json!([]))]) {
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("networking.k8s.io/v1", "NetworkPolicy"),
            ("c.d/v1", "Shelf"),
            ("c.d/v2", "Shelf"),
        ] {
            let spec = json!({"forEach": for_each, "objects": [object(api_version, kind)]});
            let (world, name) = world(&kinds, &granted, &spec);
            let facts = &world.templates()[&name];
            let compiled = facts.compiled.as_deref().unwrap();
            let granted = &world.settings().template_kinds;
            let asked = template_questions("home", &facts.spec, Some(compiled), &Subject::default(), granted);
            for kind in [Kind::ConfigMap, Kind::NetworkPolicy, shelf] {
                for place in ["a", "b", "c", "home"] {
                    let speaks = asked.iter().any(|one| {
                        let there = one.namespace.is_empty() || one.namespace == place;
                        one.verb == "delete" && one.resource == kind.resource().plural && there
                    });
                    let slot = ObjectKey::new(kind, place, "a");
                    assert_eq!(asks_about(&name, compiled, &slot), speaks, "{slot} of {spec}");
                }
            }
        }
    }
}

/// The API server was asked about the names that a kind has in its requests. After an administrator has granted the kind by
/// another name, or with another place of its status, the API server has to be asked anew.
#[test]
fn a_grant_ends_with_the_names_that_its_kinds_were_granted_by() {
    let kinds = GrantedKinds::default();
    let spec = |status: &Value| {
        let objects = json!({"apiVersion": "a.b/v1", "kind": "Nginx", "namespaces": [{"names": ["shop"]}]});
        json!({"forEach": {"objects": objects}, "objects": [object("c.d/v1", "Shelf")], "writeStatus": status})
    };
    let (written, none) = (json!({"name": "${object.metadata.name}"}), Value::Null);
    let before = ["a.b/v1/Nginx/nginxes/forEach+status", "c.d/v1/Shelf/shelves/render"];
    let key = DigestKey::new(&[7; DigestKey::LENGTH]);
    for (status, now, holds, what) in [
        (&written, before, true, "nothing has changed"),
        (&written, ["a.b/v1/Nginx/nginxs/forEach+status", before[1]], false, "the plural of the instances"),
        (&written, ["a.b/v1/Nginx/nginxes/forEach+statusField", before[1]], false, "where the status goes"),
        (&none, ["a.b/v1/Nginx/nginxes/forEach+statusField", before[1]], true, "no status is written"),
        (&none, ["a.b/v1/Nginx/nginxs/forEach+status", before[1]], false, "the plural, without a status"),
        (&written, [before[0], "c.d/v1/Shelf/shelfs/render"], false, "the plural of what is declared"),
        (&written, [before[0], "c.d/v1/Shelf/shelves/render+forEach"], true, "another use of it"),
    ] {
        let under = |granted: [&str; 2]| {
            let (world, name) = world(&kinds, &granted, &spec(status));
            let bounds = template_bounds(&world, world.templates()[&name].compiled.as_deref().unwrap());
            (world, name, bounds)
        };
        let (world, name, bounds) = under(before);
        let proof = world.templates()[&name].grant(&key, &bounds);
        let (world, name, bounds) = under(now);
        assert_eq!(world.templates()[&name].is_proven(&key, &proof, &bounds), holds, "{what}");
    }
}
