//! Memory with much to watch and nothing to do: many namespaces, Deployments, ConfigMaps and Secrets, none of them ours.

use std::time::Duration;

use serde_json::Value;
use testbed::Role;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::{big_secret, collection, config_map, deployment, namespace};
use crate::processes::memory;
use crate::program::Program;
use crate::sizes::Sizes;

/// What a process may have resident, and of it as heap (DESIGN §6), in MB.
const BUDGETS: (f64, f64) = (32.0, 15.0);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    let count = sizes.namespaces;
    eprintln!("  {} objects in {count} namespaces", sizes.objects);
    let name = |number: usize| format!("team-{number:05}");
    let namespaces = (0..count).map(|number| namespace(&name(number), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    for number in 0..count {
        // The namespace itself, a Deployment, and ConfigMaps and Secrets by halves.
        let others = (sizes.objects / count).saturating_sub(2);
        let home = name(number);
        let config_maps =
            (0..others.div_ceil(2)).map(|number| config_map(&home, &format!("app-config-{number}")));
        let secrets = (0..others / 2).map(|number| big_secret(&home, &format!("app-secret-{number}"), 64));
        arena.create(&collection(&home, "configmaps"), config_maps.collect::<Vec<Value>>()).await?;
        arena.create(&collection(&home, "secrets"), secrets.collect::<Vec<Value>>()).await?;
        let deployments = format!("/apis/apps/v1/namespaces/{home}/deployments");
        arena.create(&deployments, [deployment(&home, "web", "app-config-0")]).await?;
    }
    let mut figures = Figures::default();
    for _ in 0..sizes.rounds {
        for role in [Role::Webhook, Role::Reconciler] {
            arena.restart(role)?;
        }
        tokio::time::sleep(Duration::from_secs(sizes.rest_seconds)).await;
        for role in [Role::Reconciler, Role::Webhook] {
            let memory = memory(arena.process(role)?.pid())?;
            let about = role.name();
            figures.add_with(format!("{about}: resident"), "MB", Budget::median(BUDGETS.0), memory.resident);
            figures.add_with(format!("{about}: of it heap"), "MB", Budget::median(BUDGETS.1), memory.heap);
        }
    }
    Ok(figures)
}
