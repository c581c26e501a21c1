//! Lists everything once into the world, with the caller's own rights, and notes what the caller may not
//! read.

mod kinds;

use std::{collections::BTreeSet, sync::Arc};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
    stream,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::{ConfigMap, LimitRange, Namespace, ResourceQuota, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{Client, Resource, core::NamespaceResourceScope};

use self::kinds::{copied, further, is_named, of_rules};
use super::{SurveyError, granted::declared_objects, instances};
use crate::{
    api::{ConfigMonitor, CopyratorRule, CopyratorTemplate},
    authority::{Question, Subject, refusal},
    decoded::Decoded,
    installed::ReadScope,
    intake::{
        AsWritten,
        object::Slim,
        selection::OfCopies,
        watched::{Watched, note_unreadable, take_in},
        workload::Workload,
    },
    model::{CONFIG_MAPS, NamespaceRead, NamespaceScope, SECRETS, SERVICE_ACCOUNTS, Store, World},
    names::{Kind, NamespacedName},
    read::{
        crds::{RULES, TEMPLATES, definition},
        granted::DeclaredOf,
        kept::Kept as _,
        listing::{ListError, list, list_in, read_namespace},
    },
};

/// How many namespaces are read at once; each takes eight requests.
const AT_ONCE: usize = 4;
/// A hint for a command that does not know whether Copyrator reads all namespaces.
const NOT_TOLD: &str = "; if Copyrator is installed for some namespaces only (chart value namespaces), list them with --namespaces";

/// A hint at a command that needs fewer rights.
const ONE_DOES: &str = "; with -n NAMESPACE you need rights only in that namespace";

/// The lists that the caller may not read.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Kinds that the caller may not list in any namespace.
    pub kinds: BTreeSet<Kind>,
    /// Whether the caller may not list workloads or monitors.
    pub workloads: bool,
    /// Whether the caller may not read a namespace that Copyrator reads.
    pub places: bool,
    /// Notes on the unreadable lists, with the missing rights.
    pub notes: Vec<String>,
}

/// The input for the lists, read with the caller's own rights.
pub(super) struct Reader<'a> {
    /// The client of the caller.
    pub client: &'a Client,
    /// The caller, whose missing rights are noted.
    pub caller: &'a Subject,
    /// The namespaces to read.
    pub scope: &'a ReadScope,
    /// Whether the kinds that Copyrator copies are known.
    pub is_told: bool,
    /// The time of the survey.
    pub now: Timestamp,
}

impl Reader<'_> {
    /// Reads everything that Copyrator reads.
    pub(super) async fn take(&self, world: &mut World) -> Result<Hidden, SurveyError> {
        match self.scope {
            ReadScope::Only(places) => self.take_places(world, places).await,
            ReadScope::Overridden(places, note) => {
                let hidden = self.take_places(world, places).await?;
                let notes = std::iter::once(note.clone()).chain(hidden.notes).collect();
                Ok(Hidden { notes, ..hidden })
            }
            ReadScope::One(place) => self.take_one(world, place).await,
            ReadScope::Everywhere => self.take_all(world, "").await,
            ReadScope::Unknown => self.take_all(world, NOT_TOLD).await,
        }
    }

    async fn take_all(&self, world: &mut World, hint: &str) -> Result<Hidden, SurveyError> {
        let Self { client, caller, is_told, now, .. } = *self;
        let (definition, definition_of_templates, templates) = tokio::join!(
            definition(client, RULES),
            definition(client, TEMPLATES),
            list::<AsWritten<CopyratorTemplate>>(client, None),
        );
        let (namespaces, config_maps, secrets, rules) = tokio::join!(
            list::<Namespace>(client, None),
            list::<Slim<ConfigMap>>(client, Some(CONFIG_MAPS)),
            list::<Slim<Secret>>(client, Some(SECRETS)),
            list::<AsWritten<CopyratorRule>>(client, None),
        );
        let refused = |resource: (&'static str, &'static str)| lacks(caller, [("list", resource, "")]);
        let needed = |error, resource| match error {
            ListError::Refused { .. } => SurveyError::Forbidden(refused(resource) + ONE_DOES + hint),
            error => error.into(),
        };
        let mut hidden = Hidden::default();
        let is_untold = definition.is_err();
        world.set_definition(Store::CopyratorRules, definition.ok().flatten());
        put(world, namespaces.map_err(|error| needed(error, ("", "namespaces")))?, now);
        let rules = rules.map_err(|error| needed(error, ("copyrator.dev", "copyratorrules")))?;
        for (kind, resource, is_refused) in [
            (Kind::ConfigMap, "configmaps", put_unless_refused(world, config_maps, now)?),
            (Kind::Secret, "secrets", put_unless_refused(world, secrets, now)?),
        ] {
            if is_refused {
                hidden.kinds.insert(kind);
                let way_out = refused(("", resource));
                hidden.notes.push(format!("cannot show rules that copy from or to a {kind}: {way_out}"));
            }
        }
        put(world, rules, now);
        world.set_definition(Store::CopyratorTemplates, definition_of_templates.ok().flatten());
        match templates {
            Ok(templates) => {
                put(world, templates, now);
                hidden.notes.extend(instances::take(client, world).await?);
            }
            // Without the kind, or without the right to list it, plans leave the objects of templates alone.
            Err(ListError::NotServed { .. } | ListError::Refused { .. }) => {
                world.settings_mut().stores.remove(&Store::CopyratorTemplates);
            }
            Err(error) => return Err(error.into()),
        }
        for kind in further(world) {
            if !is_told && !is_named(world, kind) {
                hidden.kinds.insert(kind);
                continue;
            }
            match read_kind(client, kind, None).await {
                Ok(put) => put(world, &Arc::from(""), now),
                Err(ListError::Refused { .. }) => {
                    hidden.kinds.insert(kind);
                    let resource = kind.resource();
                    let way_out = refused((resource.group, resource.plural));
                    hidden.notes.push(format!(
                        "cannot show rules that copy a {kind}, and templates that declare one: {way_out}"
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        hidden.notes.extend(is_untold.then(|| untold_of_orphans(world, caller)).flatten());
        let (monitors, deployments, stateful_sets, daemon_sets) = tokio::join!(
            list::<AsWritten<ConfigMonitor>>(client, None),
            list::<Workload<Deployment>>(client, None),
            list::<Workload<StatefulSet>>(client, None),
            list::<Workload<DaemonSet>>(client, None),
        );
        let of_workloads = [
            (("copyrator.dev", "configmonitors"), put_unless_refused(world, monitors, now)?),
            (("apps", "deployments"), put_unless_refused(world, deployments, now)?),
            (("apps", "statefulsets"), put_unless_refused(world, stateful_sets, now)?),
            (("apps", "daemonsets"), put_unless_refused(world, daemon_sets, now)?),
        ];
        if let Some((resource, _)) = of_workloads.into_iter().find(|(_, is_refused)| *is_refused) {
            hidden.workloads = true;
            hidden.notes.push(format!("cannot show restarts: {}", refused(resource)));
        }
        Ok(hidden)
    }

    /// Reads the definition of rules if Copyrator reads the definition: with a definition, the marks of
    /// copies name the definition of their rules.
    async fn definition_of_places(&self, world: &mut World) -> Option<String> {
        let marks = |copy| world.object(copy)?.marks.as_deref();
        if !world.copies().filter_map(marks).any(|marks| marks.definition.is_some()) {
            return None;
        }
        match definition(self.client, RULES).await {
            Ok(found) => {
                world.set_definition(Store::CopyratorRules, found);
                None
            }
            Err(_) => untold_of_orphans(world, self.caller),
        }
    }

    /// Reads these namespaces, each completely or not at all, as Copyrator itself does.
    async fn take_places(
        &self,
        world: &mut World,
        places: &BTreeSet<Arc<str>>,
    ) -> Result<Hidden, SurveyError> {
        let Self { client, caller, now, .. } = *self;
        let kinds = &of_rules(world);
        let scope = NamespaceScope::of_caller(places.iter().cloned()).with_kinds(kinds.iter().copied());
        world.set_namespace_scope(Some(scope));
        world.settings_mut().stores.remove(&Store::CopyratorTemplates);
        let seen: Vec<Result<NamespaceLists, ListError>> = stream::iter(places.iter().cloned())
            .map(|place| async move { read(client, &place, kinds).await })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let (mut hidden, mut refused) = (Hidden::default(), Vec::new());
        for (place, seen) in places.iter().zip(seen) {
            let NamespaceLists { puts, lacking, why } = seen?;
            match why {
                None => puts.into_iter().for_each(|put| put(world, place, now)),
                Some(why) => drop(world.note_read(place, NamespaceRead::Refused(Store::Namespaces, why))),
            }
            refused.extend(lacking.into_iter().map(|(verb, resource)| (verb, resource, &**place)));
        }
        hidden.notes.extend(self.definition_of_places(world).await);
        let is_refused = |place: &str| refused.iter().any(|(.., namespace)| *namespace == place);
        let unseen = places.iter().filter(|place| !world.sees(place));
        let (refusing, absent): (Vec<&str>, Vec<&str>) =
            unseen.map(|place| &**place).partition(|it| is_refused(it));
        if !absent.is_empty() {
            let names = absent.join(", ");
            hidden.notes.push(format!(
                "namespace {names} of --namespaces does not exist: create the namespace, or remove it from the list"
            ));
        }
        if !refusing.is_empty() {
            let (names, way_out) = (refusing.join(", "), lacks(caller, refused.iter().copied()));
            hidden.notes.push(format!(
                "cannot show namespace {names}, and copies of its rules in other namespaces: {way_out}"
            ));
        }
        if world.namespaces().is_empty() {
            return Err(SurveyError::Forbidden(hidden.notes.join("; ")));
        }
        hidden.places = !refusing.is_empty();
        Ok(hidden)
    }

    /// Reads the one namespace in which the caller has rights. Notes the kinds that the caller may not list
    /// in that namespace, and reads all other kinds.
    async fn take_one(&self, world: &mut World, place: &Arc<str>) -> Result<Hidden, SurveyError> {
        let Self { client, caller, is_told, now, .. } = *self;
        let kinds = &of_rules(world);
        world.set_namespace_scope(Some(
            NamespaceScope::of_tenant(place.clone()).with_kinds(kinds.iter().copied()),
        ));
        world.settings_mut().stores.remove(&Store::CopyratorTemplates);
        let NamespaceLists { puts, lacking, .. } = read(client, place, kinds).await?;
        let way_out =
            |rights: &[Right]| lacks(caller, rights.iter().map(|(verb, what)| (*verb, *what, &**place)));
        let (mut hidden, mut needed, mut of_workloads) = (Hidden::default(), Vec::new(), Vec::new());
        hidden.notes.push(format!(
            "this output covers only namespace {place}, because you have no rights in other namespaces: it lacks rules of other \
             namespaces, and copies of {place}'s rules in other namespaces"
        ));
        let mut unlisted = Vec::new();
        for right in lacking {
            match right.1 {
                (group, plural) if let Some(kind) = copied(kinds, group, plural) => {
                    unlisted.push((kind, right))
                }
                ("apps", _) | (_, "configmonitors") => of_workloads.push(right),
                _ => needed.push(right),
            }
        }
        if !needed.is_empty() {
            let why = format!("cannot show namespace {place}: {}", way_out(&needed));
            return Err(SurveyError::Forbidden(why));
        }
        puts.into_iter().for_each(|put| put(world, place, now));
        for (kind, right) in unlisted {
            hidden.kinds.insert(kind);
            world.note_read(place, NamespaceRead::Listed(Store::of(kind)));
            if kind.data().is_some() || is_told || is_named(world, kind) {
                let lacks = way_out(&[right]);
                hidden.notes.push(format!("cannot show rules that copy from or to a {kind}: {lacks}"));
            }
        }
        if !of_workloads.is_empty() {
            hidden.workloads = true;
            hidden.notes.push(format!("cannot show restarts: {}", way_out(&of_workloads)));
            for store in [Store::ConfigMonitors, Store::Deployments, Store::StatefulSets, Store::DaemonSets] {
                world.note_read(place, NamespaceRead::Listed(store));
            }
        }
        Ok(hidden)
    }
}

/// Whether copies of deleted rules exist.
fn has_orphans(world: &World) -> bool {
    let marks = world.copies().filter_map(|copy| world.object(copy)?.marks.as_deref());
    marks
        .map(|marks| &marks.rule)
        .any(|rule| rule.as_annotated().is_none() && world.declaration(rule).is_none())
}

/// A note on copies of deleted rules, if any exist, for a caller who may not read definitions.
fn untold_of_orphans(world: &World, caller: &Subject) -> Option<String> {
    has_orphans(world).then(|| {
        let way_out = lacks(caller, [("get", ("apiextensions.k8s.io", "customresourcedefinitions"), "")]);
        format!(
            "cannot show whether Copyrator keeps the copies of deleted rules, which it does if the CustomResourceDefinition of rules was \
             created again: {way_out}"
        )
    })
}

/// A right: verb, group and resource.
type Right = (&'static str, (&'static str, &'static str));

/// A list, and the right that it needs.
type Part<'c> = (Right, BoxFuture<'c, Result<Put, ListError>>);

/// Adds a list that was read to the world.
type Put = Box<dyn FnOnce(&mut World, &Arc<str>, Timestamp) + Send>;

/// The result of reading one namespace.
#[derive(Default)]
struct NamespaceLists {
    puts: Vec<Put>,
    lacking: Vec<Right>,
    /// The API server's first refusal.
    why: Option<String>,
}

/// Reads the objects of a kind that is copied, in one namespace or in all.
fn read_kind<'c>(
    client: &'c Client,
    kind: Kind,
    place: Option<&'c str>,
) -> BoxFuture<'c, Result<Put, ListError>> {
    match kind {
        Kind::ConfigMap => some::<Slim<ConfigMap>>(client, place, Some(CONFIG_MAPS)).boxed(),
        Kind::Secret => some::<Slim<Secret>>(client, place, Some(SECRETS)).boxed(),
        Kind::NetworkPolicy => some::<Slim<NetworkPolicy>>(client, place, None).boxed(),
        Kind::ResourceQuota => some::<Slim<ResourceQuota>>(client, place, None).boxed(),
        Kind::LimitRange => some::<Slim<LimitRange>>(client, place, None).boxed(),
        Kind::PodDisruptionBudget => some::<Slim<PodDisruptionBudget>>(client, place, None).boxed(),
        Kind::ServiceAccount => some::<Slim<ServiceAccount>>(client, place, Some(SERVICE_ACCOUNTS)).boxed(),
        Kind::Deployment => some::<Slim<Deployment, OfCopies>>(client, place, None).boxed(),
        Kind::Service => some::<Slim<Service, OfCopies>>(client, place, None).boxed(),
        Kind::RoleBinding => some::<Slim<RoleBinding>>(client, place, None).boxed(),
        Kind::Granted(_) => granted(client, kind, place).boxed(),
    }
}

async fn read(client: &Client, place: &Arc<str>, kinds: &[Kind]) -> Result<NamespaceLists, ListError> {
    let copied = [Kind::ConfigMap, Kind::Secret].iter().chain(kinds).map(|kind| -> Part<'_> {
        let resource = kind.resource();
        (("list", (resource.group, resource.plural)), read_kind(client, *kind, Some(place)))
    });
    let place_only = Some(&**place);
    let others: [Part<'_>; 5] = [
        (
            ("list", ("copyrator.dev", "copyratorrules")),
            some::<AsWritten<CopyratorRule>>(client, place_only, None).boxed(),
        ),
        (
            ("list", ("copyrator.dev", "configmonitors")),
            some::<AsWritten<ConfigMonitor>>(client, place_only, None).boxed(),
        ),
        (("list", ("apps", "deployments")), some::<Workload<Deployment>>(client, place_only, None).boxed()),
        (("list", ("apps", "statefulsets")), some::<Workload<StatefulSet>>(client, place_only, None).boxed()),
        (("list", ("apps", "daemonsets")), some::<Workload<DaemonSet>>(client, place_only, None).boxed()),
    ];
    let (rights, parts): (Vec<Right>, Vec<_>) = copied.chain(others).unzip();
    let (itself, parts) = tokio::join!(read_namespace(client, place), join_all(parts));
    let itself: Result<Put, ListError> = match itself {
        // The namespace does not exist, so its lists do not matter: no Role can help.
        Ok(None) => {
            let absent: Put = Box::new(|world, place, _| {
                world.note_read(place, NamespaceRead::Absent);
            });
            return Ok(NamespaceLists { puts: vec![absent], ..NamespaceLists::default() });
        }
        Ok(Some(facts)) => Ok(Box::new(move |world, place, _| {
            world.note_read(place, NamespaceRead::Namespace(facts));
        })),
        Err(error) => Err(error),
    };
    let mut seen = NamespaceLists::default();
    let all = std::iter::once((("get", ("", "namespaces")), itself)).chain(rights.into_iter().zip(parts));
    for (right, part) in all {
        match part {
            Ok(put) => seen.puts.push(put),
            Err(ListError::Refused { message, .. }) => {
                seen.lacking.push(right);
                seen.why.get_or_insert(message);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

/// Lists the objects of a kind that is known only at run time.
async fn granted(client: &Client, kind: Kind, place: Option<&str>) -> Result<Put, ListError> {
    let (objects, read) = declared_objects(client, kind, place).await?;
    Ok(Box::new(move |world, _, now| {
        for object in objects {
            match object.read() {
                Ok(object) => object.put(world, now),
                Err(left) => note_unreadable(&DeclaredOf(kind).named(&left.metadata), &left, world),
            };
        }
        world.set_granted_read(kind, read);
    }))
}

async fn some<W>(client: &Client, place: Option<&str>, fields: Option<&str>) -> Result<Put, ListError>
where
    W: Watched + Resource<Scope = NamespaceResourceScope>,
{
    let objects = match place {
        Some(place) => list_in::<W>(client, place, fields).await?,
        None => list::<W>(client, fields).await?,
    };
    Ok(Box::new(move |world, place, now| {
        put(world, objects, now);
        world.note_read(place, NamespaceRead::Listed(W::STORE));
    }))
}

pub(super) fn put<W: Watched>(world: &mut World, objects: Vec<Decoded<W>>, now: Timestamp) {
    for object in objects {
        take_in(object, world, now);
    }
}

/// Adds a list to the world, unless the list was refused. Returns whether the list was refused.
fn put_unless_refused<W: Watched>(
    world: &mut World,
    listed: Result<Vec<Decoded<W>>, ListError>,
    now: Timestamp,
) -> Result<bool, SurveyError> {
    match listed {
        Ok(objects) => put(world, objects, now),
        Err(ListError::Refused { .. }) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    Ok(false)
}

/// Returns a message on the rights that the caller lacks, and who can grant them. Each right has its
/// namespace; an empty namespace means all.
pub(super) fn lacks<'n>(
    caller: &Subject,
    rights: impl IntoIterator<Item = (&'static str, (&'static str, &'static str), &'n str)>,
) -> String {
    let questions: Vec<Question> = rights
        .into_iter()
        .map(|(verb, (group, resource), namespace)| Question {
            subject: caller.clone(),
            verb,
            group: group.into(),
            resource: resource.into(),
            subresource: None,
            name: None,
            namespace: namespace.to_owned(),
        })
        .collect();
    refusal(&questions.iter().collect::<Vec<_>>(), &NamespacedName::new("all", "plan"), usize::MAX)
}

#[cfg(test)]
mod tests;
