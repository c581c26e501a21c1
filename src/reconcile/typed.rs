//! Whether the texts of templates have the types that the API server takes, by the schemas that it publishes. Where these are not
//! known, nothing is judged, and nothing waits for them: the API server judges each write anyway.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use kube::Client;

use super::{Lane, context::Context};
use crate::{
    api::Problem,
    model::{TypeReport, World},
    names::NamespacedName,
    observe::openapi::{OpenApi, OpenApiError},
    plan::{
        Key,
        copy::{
            claims::{Inert, inert_template},
            forget_attempt, unfit,
        },
        slots_to_check,
    },
    validate::{CompiledTemplate, SpecFault, Typed},
};

/// When to look whether the schemas have changed by which a template is stopped.
const STOPPED_AGAIN: Duration = Duration::from_secs(20);
/// When to look again for schemas that are not known, or by which the API server finds an object invalid.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(60);

/// How many bytes of schemas one template is held against. The kinds of a template that come beyond are not judged.
const MOST_BYTES: usize = 16 << 20;

/// Judges the types of templates, one at a time ([`Lane::Types`]).
pub(super) struct TypeJudge {
    context: Context,
    openapi: OpenApi,
}

impl TypeJudge {
    /// Reads schemas with this client.
    pub(super) fn new(context: Context, client: Client) -> Self {
        Self { context, openapi: OpenApi::new(client) }
    }

    /// Whether a template may write, as far as anything but its types decides that: no other one takes anybody's time.
    pub(super) fn is_to_judge(&self, template: &NamespacedName) -> bool {
        let world = self.context.world();
        let facts = world.templates().get(template);
        let inert = facts.map(|facts| inert_template(&world, template, facts));
        matches!(inert, Some(None | Some(Inert::Unjudged | Inert::Mistyped)))
    }

    /// Judges a template, where it, or one of its schemas, is another one than the last time. Returns when to look again.
    pub(super) async fn judge(&self, template: &NamespacedName) -> Option<Duration> {
        let (asked, before) = {
            let world = self.context.world();
            (Asked::of(&world, template)?, world.typed(template).cloned())
        };
        let (report, errors) = asked.judged(&self.openapi, before.as_ref()).await;
        for error in errors {
            let error = &error as &dyn std::error::Error;
            match before.as_ref().is_none_or(|before| before.is_whole) {
                true => tracing::warn!(%template, error, "types are not judged"),
                false => tracing::debug!(%template, error, "types are still not judged"),
            }
        }
        let unfit: Vec<_> = unfit(&self.context.world(), template).cloned().collect();
        let again = match (report.faults.is_empty(), report.is_whole) {
            (false, _) => Some(STOPPED_AGAIN),
            (true, is_whole) => (!is_whole || !unfit.is_empty()).then_some(UNKNOWN_AGAIN),
        };
        let seen = before.as_ref().map(|before| before.schemas);
        // Zero stands for schemas that could not be read.
        if seen.is_some_and(|seen| ![0, report.schemas].contains(&seen) && report.schemas != 0) {
            for slot in unfit {
                forget_attempt(&mut self.context.world_mut(), &slot);
                let tenant = Some(template.namespace.clone());
                self.context.queue().add_for(tenant, Key::Slot(slot), Lane::Change);
            }
        }
        let is_news = before.is_none_or(|before| before.faults != report.faults);
        self.context.world_mut().set_typed(template, report);
        if is_news {
            let slots = slots_to_check(&self.context.world(), template);
            for key in slots.into_iter().chain([Key::RuleStatus(template.clone())]) {
                self.context.queue().add_for(Some(template.namespace.clone()), key, Lane::Change);
            }
            self.context.queue().add(Key::SourceIndex, Lane::Change);
        }
        again
    }

    /// Drops what nobody is using any more.
    pub(super) fn expire(&self) {
        self.openapi.expire();
    }
}

/// A template to be judged.
struct Asked {
    version: (Box<str>, i64),
    compiled: Arc<CompiledTemplate>,
}

impl Asked {
    /// `None` where there is no such template, or it does nothing before its kinds are granted and served.
    fn of(world: &World, template: &NamespacedName) -> Option<Self> {
        let facts = world.templates().get(template)?;
        let inert = inert_template(world, template, facts);
        if matches!(inert, Some(Inert::Invalid | Inert::NotGranted)) {
            return None;
        }
        let compiled = facts.compiled.as_ref().ok()?.clone();
        Some(Self { version: (facts.uid.clone(), facts.generation), compiled })
    }

    fn unknown(&self, schemas: u64) -> TypeReport {
        TypeReport { template: self.version.clone(), schemas, faults: Vec::new(), is_whole: false }
    }

    /// What the template's status says, if that is about this very version.
    fn told(&self, world: &World, template: &NamespacedName) -> Option<TypeReport> {
        let status = world.templates().get(template)?.status.as_ref()?;
        let is_told = status.observed_generation == Some(self.version.1);
        let is_fault = |problem: &&Problem| SpecFault::of(problem) == Some(SpecFault::TypeError);
        let faults = status.problems.iter().filter(is_fault).cloned();
        is_told.then(|| TypeReport { faults: faults.collect(), ..self.unknown(0) })
    }

    /// What the schemas say, and why some of them are not known; the report of `before` where that was made by the same. A template
    /// that is stopped stays so while its schemas cannot be read.
    async fn judged(
        &self,
        openapi: &OpenApi,
        before: Option<&TypeReport>,
    ) -> (TypeReport, Vec<OpenApiError>) {
        let stopped = before.filter(|before| !before.faults.is_empty());
        let addresses = match openapi.addresses().await {
            Ok(addresses) => addresses,
            Err(error) => return (stopped.cloned().unwrap_or_else(|| self.unknown(0)), vec![error]),
        };
        let kinds = self.compiled.typed_kinds();
        let address = |api_version: &str| Some((api_version.to_owned(), addresses.get(api_version)?));
        let needed: BTreeMap<String, &String> =
            kinds.iter().filter_map(|kind| address(&kind.api_version)).collect();
        let mut hasher = DefaultHasher::new();
        needed.hash(&mut hasher);
        let schemas = hasher.finish();
        if let Some(before) = before.filter(|before| before.schemas == schemas && before.is_whole) {
            return (before.clone(), Vec::new());
        }
        let (mut components, mut errors) = (BTreeMap::new(), Vec::new());
        let mut room = MOST_BYTES;
        for (api_version, address) in needed {
            match openapi.components(address).await {
                Ok(text) => {
                    if let Some(left) = room.checked_sub(text.len()) {
                        room = left;
                        components.insert(api_version, text);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        if let Some(stopped) = stopped.filter(|_| !errors.is_empty()) {
            return (stopped.clone(), errors);
        }
        let compiled = self.compiled.clone();
        let held = tokio::task::spawn_blocking(move || compiled.held_against(&components)).await;
        let Ok(Typed { faults, unjudged }) = held else { return (self.unknown(schemas), errors) };
        let report = TypeReport { faults, is_whole: unjudged.is_empty(), ..self.unknown(schemas) };
        (report, errors)
    }
}

/// Judges every template of a world, for a command. What the reconciler has told of a template as it is now is taken from the template's
/// status. Returns why something could not be judged.
pub(crate) async fn judge_all(client: &Client, world: &mut World) -> Vec<OpenApiError> {
    let (openapi, mut unknown) = (OpenApi::new(client.clone()), BTreeMap::new());
    let templates: Vec<NamespacedName> = world.templates().keys().cloned().collect();
    for template in templates {
        let Some(asked) = Asked::of(world, &template) else { continue };
        let report = match asked.told(world, &template) {
            Some(told) => told,
            None => {
                let (report, errors) = asked.judged(&openapi, None).await;
                unknown.extend(errors.into_iter().map(|error| (error.to_string(), error)));
                report
            }
        };
        world.set_typed(&template, report);
    }
    unknown.into_values().collect()
}
