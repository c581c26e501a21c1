//! Memory beside other people's Secrets: what is no source and no copy must cost next to nothing, whatever its size.

use std::time::Duration;

use testbed::Role;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::{big_secret, collection, namespace};
use crate::processes::memory;
use crate::program::Program;
use crate::sizes::Sizes;

/// What a process may have resident (DESIGN §6), in MB.
const BUDGET: f64 = 40.0;
/// Namespaces that the Secrets are spread over.
const NAMESPACES: usize = 20;
/// So many are made at a time: their bodies are in memory before they are sent.
const BATCH: usize = 500;

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
    Ok(figures)
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
