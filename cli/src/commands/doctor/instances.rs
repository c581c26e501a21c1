//! Templates whose objects are deleted with the definition of their instances' kind. A template with such
//! objects is no fault: a note warns before somebody deletes the definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::ListParams};

use super::{
    facts::OwnedByInstances,
    read::{get, list},
};
use crate::{
    api::CopyratorTemplate, installed::Install, intake::AsWritten, names::Declarer,
    validate::CompiledTemplate,
};

/// A note for each template whose objects are deleted with the definition of their instances' kind.
pub(super) fn notes(all: &[OwnedByInstances]) -> Vec<String> {
    let counted = |number: i64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let note = |it: &OwnedByInstances| {
        format!(
            "deleting CustomResourceDefinition {} also deletes the {} that {} selects, and the {} that the template made for them: to \
             keep these, first set deletionPolicy: Retain in the template",
            it.definition,
            counted(it.instances, "object"),
            it.template.said(),
            counted(it.objects, "object"),
        )
    };
    all.iter().filter(|it| it.objects > 0).map(note).collect()
}

/// Finds templates whose objects have an owner of a custom resource kind. Skips what the caller may not read,
/// since nothing is wrong.
pub(super) async fn look(client: &Client, install: &Install<'_>) -> Vec<OwnedByInstances> {
    let granted = install.template_kinds();
    if granted.iter().all(|kind| !kind.for_each) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let templates: Vec<AsWritten<CopyratorTemplate>> =
        list(Api::all(client.clone()), None, &ListParams::default()).await.unwrap_or_default();
    for template in templates.into_iter().filter_map(AsWritten::understood) {
        let compiled = CompiledTemplate::compile(&template.spec).ok();
        let Some(kind) = compiled.as_ref().and_then(CompiledTemplate::owning_any) else { continue };
        let Some(granted) = granted.iter().find(|granted| granted.kind == *kind) else { continue };
        let definition = format!("{}.{}", granted.plural, kind.group());
        // Kinds that Kubernetes has itself have no definition.
        if !matches!(
            get::<CustomResourceDefinition>(Api::all(client.clone()), None, &definition).await,
            Ok(Some(_))
        ) {
            continue;
        }
        let of = |field: &Option<String>| field.clone().unwrap_or_default();
        let meta = &template.metadata;
        let counted = template.status.as_ref();
        found.push(OwnedByInstances {
            template: Declarer::template(of(&meta.namespace), of(&meta.name)),
            definition,
            instances: counted.map_or(0, |status| status.instances),
            objects: counted.map_or(0, |status| status.current),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_a_definition_is_told_and_nothing_where_there_is_nothing() {
        let of = |name: &str, instances, objects| OwnedByInstances {
            template: Declarer::template("platform", name),
            definition: "memcacheds.cache.example.com".into(),
            instances,
            objects,
        };
        let said = "deleting CustomResourceDefinition memcacheds.cache.example.com also deletes the 1 object that CopyratorTemplate \
         platform/a selects, and the 2 objects that the template made for them: to keep these, first set deletionPolicy: Retain in the \
         template";
        assert_eq!(notes(&[of("a", 1, 2), of("b", 0, 0)]), [said]);
    }
}
