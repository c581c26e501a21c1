//! Memory beside other people's objects: what is no source and no copy must cost next to nothing, whatever its size, and what is only
//! compared no more than its digests.

use std::time::Duration;

use serde_json::json;
use testbed::Role;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::{big_secret, collection, config_map, deployment, namespace, text};
use crate::processes::memory;
use crate::program::Program;
use crate::sizes::Sizes;

/// What a process may have resident (DESIGN §6), in MB.
const BUDGET: f64 = 40.0;
/// Namespaces that the Secrets are spread over.
const NAMESPACES: usize = 20;
/// So many are made at a time: their bodies are in memory before they are sent.
const BATCH: usize = 500;
/// The size of a ConfigMap that a workload uses, near the most that the API server takes.
const USED_BYTES: usize = 980_000;

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    let name = |number: usize| format!("foreign-{number:02}");
    let namespaces = (0..NAMESPACES).map(|number| namespace(&name(number), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    let mut figures = Figures::default();
    let mut made = 0;
    let largest = sizes.secrets.last().copied();
    for &wanted in &sizes.secrets {
        eprintln!("  {wanted} Secrets of {} bytes", sizes.secret_bytes);
        while made < wanted {
            let home = name(made / BATCH % NAMESPACES);
            let batch = made..wanted.min(made + BATCH);
            let secrets =
                batch.clone().map(|number| big_secret(&home, &format!("s{number}"), sizes.secret_bytes));
            arena.create(&collection(&home, "secrets"), secrets).await?;
            made = batch.end;
        }
        let budget = if Some(wanted) == largest { Budget::median(BUDGET) } else { None };
        if wanted > 0 {
            note(&mut figures, &arena, sizes, &format!("{wanted}, watched as they came"), budget).await?;
        }
        for _ in 0..sizes.rounds {
            arena.restart(Role::Webhook)?;
            arena.restart(Role::Reconciler)?;
            note(&mut figures, &arena, sizes, &format!("{wanted}, there at the start"), budget).await?;
        }
    }
    use_large_ones(&arena, sizes, &name(0)).await?;
    for _ in 0..sizes.rounds {
        arena.restart(Role::Reconciler)?;
        let about = format!("and {} ConfigMaps of {USED_BYTES} bytes that a Deployment uses", sizes.used);
        note(&mut figures, &arena, sizes, &about, None).await?;
    }
    Ok(figures)
}

/// Makes large ConfigMaps, and a Deployment without pods that is to restart when one of them changes.
async fn use_large_ones(arena: &Arena, sizes: &Sizes, home: &str) -> Outcome<()> {
    let used = |number: usize| {
        let mut object = config_map(home, &format!("used-{number}"));
        object["data"]["large"] = json!(text(USED_BYTES, &number.to_string()));
        object
    };
    for number in 0..sizes.used {
        arena.create(&collection(home, "configmaps"), [used(number)]).await?;
    }
    let mut user = deployment(home, "user", "used-0");
    user["metadata"]["annotations"] = json!({"copyrator.dev/restart": "true"});
    let all = (0..sizes.used).map(|number| json!({"configMapRef": {"name": format!("used-{number}")}}));
    user["spec"]["template"]["spec"]["containers"][0]["envFrom"] = all.collect();
    arena.create(&format!("/apis/apps/v1/namespaces/{home}/deployments"), [user]).await
}

/// Looks at both processes when nothing has happened for a while.
async fn note(
    figures: &mut Figures,
    arena: &Arena,
    sizes: &Sizes,
    about: &str,
    budget: Option<Budget>,
) -> Outcome<()> {
    tokio::time::sleep(Duration::from_secs(sizes.rest_seconds)).await;
    for role in [Role::Reconciler, Role::Webhook] {
        let memory = memory(arena.process(role)?.pid())?;
        let what = format!("{about}: {}, resident", role.name());
        figures.add_with(what, "MB", budget, memory.resident);
        figures.add(format!("{about}: {}, of it heap", role.name()), "MB", memory.heap);
    }
    Ok(())
}
