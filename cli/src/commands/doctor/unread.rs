//! Finds objects that cannot be read, and lists that fail. Copies of unreadable objects stay as they are, and
//! statuses about these copies may be old.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::{ConfigMap, Namespace, Secret},
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Client, Resource, core::NamespaceResourceScope};

use super::{
    facts::{Facts, Readable, Unread, UnreadFacts},
    finding::{Findings, Id},
};
use crate::{
    api::{ConfigMonitor, CopyratorRule, CopyratorTemplate, Problem},
    decoded::Decoded,
    installed::Install,
    intake::{
        AsWritten,
        object::Slim,
        watched::{Watched, take_in},
        workload::Workload,
    },
    model::{CONFIG_MAPS, SECRETS, World},
    plan::{
        Reason,
        copy::{ProblemReason, unreadable_said},
    },
    read::listing::{ListError, list, list_in},
    terminal::with_distinct_causes,
};

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let unread = match &facts.unread {
        Ok(unread) => unread,
        Err(unread) => return found.unknown(&[Id::ObjectUnreadable, Id::ListFailing], unread),
    };
    for (object, what) in &unread.objects {
        found.error(
            Id::ObjectUnreadable,
            object,
            what,
            format!("kubectl get {} -o yaml --show-managed-fields", resource(object)),
        );
    }
    for (what, object) in &unread.lists {
        let fix = format!("kubectl -n {} logs -l app.kubernetes.io/part-of=copyrator", facts.namespace);
        found.error(Id::ListFailing, object, what, fix);
    }
}

/// An object in kubectl's notation, by its kind, namespace and name.
fn resource(object: &str) -> String {
    match object.split_once(' ').map(|(kind, name)| (kind, name.split_once('/'))) {
        Some((kind, Some((namespace, name)))) => format!("-n {namespace} {kind} {name}"),
        _ => object.to_owned(),
    }
}

/// Reads everything that Copyrator reads, except content. Skips lists that the caller may not read, unless
/// the caller may read no list.
pub(super) async fn look(client: &Client, install: &Install<'_>) -> Readable<UnreadFacts> {
    let mut seen = Seen {
        world: World::default(),
        facts: UnreadFacts::default(),
        now: Timestamp::now(),
        has_read: false,
        refused: None,
    };
    let places = install.namespaces();
    if places.is_empty() {
        seen.all::<Namespace>(list(client, None).await)?;
        seen.all::<AsWritten<CopyratorTemplate>>(list(client, None).await)?;
    }
    seen.of::<AsWritten<CopyratorRule>>(client, &places, None).await?;
    seen.of::<AsWritten<ConfigMonitor>>(client, &places, None).await?;
    seen.of::<Slim<ConfigMap>>(client, &places, Some(CONFIG_MAPS)).await?;
    seen.of::<Slim<Secret>>(client, &places, Some(SECRETS)).await?;
    seen.of::<Workload<Deployment>>(client, &places, None).await?;
    seen.of::<Workload<StatefulSet>>(client, &places, None).await?;
    seen.of::<Workload<DaemonSet>>(client, &places, None).await?;
    seen.told()
}

struct Seen {
    world: World,
    facts: UnreadFacts,
    now: Timestamp,
    /// Whether the caller may read any of the lists.
    has_read: bool,
    /// The first list that the caller may not read.
    refused: Option<Unread>,
}

impl Seen {
    async fn of<W>(
        &mut self,
        client: &Client,
        places: &BTreeSet<String>,
        fields: Option<&str>,
    ) -> Readable<()>
    where
        W: Watched + Resource<Scope = NamespaceResourceScope>,
    {
        if places.is_empty() {
            return self.all::<W>(list(client, fields).await);
        }
        for place in places {
            self.all::<W>(list_in(client, place, fields).await)?;
        }
        Ok(())
    }

    /// Keeps only objects of our own kinds, and objects that cannot be read.
    fn all<W: Watched>(&mut self, listed: Result<Vec<Decoded<W>>, ListError>) -> Readable<()> {
        let unread = |failure| Unread {
            verb: "list",
            resource: W::plural(&()).into_owned(),
            namespace: None,
            failure,
        };
        let objects = match listed {
            Ok(objects) => objects,
            Err(ListError::NotServed { .. }) => return Ok(()),
            Err(ListError::Refused { .. }) => {
                self.refused.get_or_insert_with(|| unread(None));
                return Ok(());
            }
            Err(error) => return Err(unread(Some(with_distinct_causes(&error)))),
        };
        self.has_read = true;
        let is_kept = |object: &Decoded<W>| W::STORE.is_ours() || matches!(object, Decoded::Unreadable(_));
        for object in objects.into_iter().filter(is_kept) {
            take_in(object, &mut self.world, self.now);
        }
        Ok(())
    }

    fn told(self) -> Readable<UnreadFacts> {
        let Self { world, mut facts, has_read, refused, .. } = self;
        if let Some(refused) = refused.filter(|_| !has_read) {
            return Err(refused);
        }
        let unreadable = world.unreadable();
        facts
            .objects
            .extend(unreadable.map(|(object, why)| (object.to_string(), unreadable_said(object, why))));
        for (name, rule) in world.rules().iter() {
            let status = rule.status.as_ref();
            facts.say(name.said(), status.map(|status| (&*status.conditions, &*status.problems)));
        }
        for (name, template) in world.templates() {
            let status = template.status.as_ref();
            facts.say(name.said(), status.map(|status| (&*status.conditions, &*status.problems)));
        }
        for (name, monitor) in world.monitors() {
            let status = monitor.status.as_ref();
            facts.say(
                format!("ConfigMonitor {name}"),
                status.map(|status| (&*status.conditions, &*status.problems)),
            );
        }
        Ok(facts)
    }
}

impl UnreadFacts {
    fn say(&mut self, object: String, status: Option<(&[Condition], &[Problem])>) {
        let Some((conditions, problems)) = status else { return };
        let fails = |one: &&Condition| one.type_ == "Ready" && one.reason == Reason::Unread.as_str();
        for condition in conditions.iter().filter(fails) {
            self.lists.entry(condition.message.clone()).or_insert_with(|| object.clone());
        }
        for problem in problems.iter().filter(|one| ProblemReason::of(one) == Some(ProblemReason::Unreadable))
        {
            // Name an object once, if this command could not read it either.
            if !self.objects.values().any(|what| *what == problem.message) {
                self.objects.insert(object.clone(), problem.message.clone());
            }
        }
    }
}
