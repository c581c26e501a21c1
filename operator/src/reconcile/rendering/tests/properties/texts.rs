//! What the templates of the properties say, drawn: objects that read each other, and those that are wanted only now and then.

use proptest::prelude::*;
use serde_json::{Value, json};

/// The last one is rendered for objects, the others for namespaces.
pub(super) const TEMPLATES: [&str; 4] = ["first", "second", "third", "each"];
pub(super) const EACH: usize = 3;

/// The ids of a template's objects. One reads those before it only, so that there is no circle; the text has them the other way
/// round.
pub(super) const IDS: [&str; 4] = ["own", "quota", "shared", "more"];

/// What a template says of one of its objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) is_there: bool,
    /// Which other object it reads, if that one is there and it is a ConfigMap; whether what it reads may be missing.
    pub(super) reads: Option<(usize, bool)>,
    /// It is wanted only where there is a number of pods, or a size.
    pub(super) is_only_when: bool,
}

pub(super) type Text = [Said; IDS.len()];

pub(super) fn text() -> impl Strategy<Value = Text> {
    let reads = proptest::option::weighted(0.6, (0..IDS.len(), any::<bool>()));
    let said = (proptest::bool::weighted(0.6), reads, proptest::bool::weighted(0.3));
    let said = said.prop_map(|(is_there, reads, is_only_when)| Said { is_there, reads, is_only_when });
    proptest::array::uniform4(said).prop_map(|mut text| {
        // A template has one object at least.
        text[0].is_there |= text.iter().all(|said| !said.is_there);
        text
    })
}

/// Which object another one of the text reads, and whether what it reads may be missing.
pub(super) fn read_by(text: &Text, id: usize) -> Option<(usize, bool)> {
    let is_config_map = id == 2 || id == 3;
    text[id].reads.filter(|(of, _)| is_config_map && *of < id && text[*of].is_there)
}

/// The objects that a template can have: one for each namespace, one whose expression needs a label, one that others may have made, and
/// one more. Those of the template that is rendered for objects: one for each, one whose expression needs a field, of a kind that is
/// granted, one for all of them, and one more. Each says whose it is: the simulation passes by a write that changes nothing but marks.
pub(super) fn objects(template: usize, text: &Text) -> Value {
    let whose = TEMPLATES[template];
    let config_map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let (name, when) = match template {
        EACH => ("${object.metadata.name}", "has(object.spec.size)"),
        _ => ("${namespaceObject.metadata.name}", "'pods' in namespaceObject.metadata.labels"),
    };
    let number = match template {
        EACH => {
            json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": format!("size-{name}")},
            "spec": {"size": "${object.spec.size}"}})
        }
        _ => json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "${namespaceObject.metadata.labels['pods']}", "services": template.to_string()}}}),
    };
    let all = [
        config_map(&format!("own-{name}"), json!({"of": whose})),
        number,
        config_map("shared", json!({"of": whose, "in": name})),
        config_map(&format!("more-{whose}-{name}"), json!({"of": whose})),
    ];
    let mut objects: Vec<Value> = Vec::new();
    for (id, mut object) in all.into_iter().enumerate().filter(|(id, _)| text[*id].is_there) {
        if let Some((of, may_lack)) = read_by(text, id) {
            let (of, read) =
                (IDS[of], if may_lack { ".?metadata.?uid.orValue('none')" } else { ".metadata.uid" });
            object["data"]["seen"] = format!("${{{of}{read}}}").into();
        }
        let mut object = json!({"id": IDS[id], "template": object});
        if text[id].is_only_when {
            object["includeWhen"] = when.into();
        }
        objects.insert(0, object);
    }
    objects.into()
}

/// The status that the template for objects writes: what it reads of the first of its own.
pub(super) fn status(text: &Text) -> Value {
    let first = IDS.iter().zip(text).find(|(_, said)| said.is_there);
    first.map_or(Value::Null, |(id, _)| json!({"seen": format!("${{{id}.metadata.uid}}"), "size": "${object.spec.?size.orValue(0)}"}))
}
