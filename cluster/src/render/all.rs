//! Renders all templates into a world at once, for commands.

use kube::Client;

use super::{existing::Existing, inputs::Inputs};
use crate::{
    model::{TemplateFacts, World},
    names::{Declarer, InstanceName},
    plan::copy::templates::instances,
    read::made::ReadError,
};

/// Renders every template. Objects that expressions need are read with the caller's rights; the result
/// reports why reads failed.
pub async fn render_everything(client: &Client, world: &mut World) -> Vec<ReadError> {
    let mut unread = Vec::new();
    for (template, instance) in all(world) {
        let Some(inputs) = Inputs::of(world, &template, &instance) else { continue };
        let mut existing = Existing::default();
        let set = loop {
            let (set, lacking) = inputs.render(&existing);
            if lacking.is_empty() {
                break set;
            }
            let there = existing.of(world, &template, &instance, lacking);
            unread.extend(existing.read(client, there).await);
            // The caller may lack rights that the operator has: treat unread objects as absent.
            existing.forgive();
        };
        world.set_rendered(&template, &instance, Some(set));
    }
    unread
}

/// Returns every template with each namespace or object that it selects.
fn all(world: &World) -> Vec<(Declarer, InstanceName)> {
    let of_template = |(template, facts): (&Declarer, &TemplateFacts)| {
        let compiled = facts.compiled.as_ref().ok()?;
        let selected = instances(world, template, compiled);
        Some(selected.map(|instance| (template.clone(), instance)).collect::<Vec<_>>())
    };
    world.templates().iter().filter_map(of_template).flatten().collect()
}

/// Renders every template, without reading objects.
#[doc(hidden)]
pub fn render_all(world: &mut World) {
    render_with(world, &Default::default());
}

/// Renders every template, with these objects instead of objects read from the API server.
#[doc(hidden)]
pub fn render_with(
    world: &mut World,
    given: &std::collections::BTreeMap<crate::names::ObjectKey, serde_json::Value>,
) {
    for (template, instance) in all(world) {
        let inputs = Inputs::of(world, &template, &instance);
        let set = inputs.map(|inputs| {
            let mut existing = Existing::default();
            loop {
                let (set, lacking) = inputs.render(&existing);
                if lacking.is_empty() {
                    return set;
                }
                for (slot, ..) in existing.of(world, &template, &instance, lacking) {
                    let found = given.get(&slot).cloned();
                    existing.objects.insert(slot, found);
                }
            }
        });
        world.set_rendered(&template, &instance, set);
    }
}
