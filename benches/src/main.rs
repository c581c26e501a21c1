//! `make bench`: measures Copyrator against its budgets, on a real control plane of its own, beside a bare client.
//!
//! `arena` makes a cluster with the product in it; `benchmarks` says what is measured there, with `writes` for the bare
//! client and for the set-up of `objects`, with the API server's `audit` log as clock and counter, and with `processes`
//! for CPU and memory, with `workloads` for what restarts did, and with `load`, which asks the webhook itself (`reviews` over
//! `wire`s), with `exposition` for what that tells of itself. `figures` gathers what was found and judges it, `table` shows it, `record` keeps it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command line tool")]

mod absence;
mod arena;
mod audit;
mod bare_webhook;
mod benchmarks;
mod exposition;
mod figures;
mod load;
mod machine;
mod objects;
mod outcome;
mod processes;
mod program;
mod record;
mod reviews;
mod sizes;
mod statistics;
mod table;
mod visitors;
mod wire;
mod workloads;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use jiff::Timestamp;

use benchmarks::{ALL, Benchmark};
use figures::Report;
use machine::Machine;
pub(crate) use outcome::Outcome;
use program::Program;
use sizes::{Sizes, Wishes};

/// Measures Copyrator against its budgets (docs/benchmarks.md), on a cluster of its own on this machine, which should
/// have nothing else to do.
#[derive(Parser)]
#[command(name = "make bench", after_help = EXAMPLES)]
struct Arguments {
    /// Which ones; all of them if none is named.
    #[arg(value_name = "BENCHMARK")]
    names: Vec<Benchmark>,
    #[command(flatten)]
    wishes: Wishes,
    /// Keep the run in benches/runs/ as well, for the table of docs/benchmarks.md.
    #[arg(long)]
    record: bool,
    /// The operator's program. Default: beside this one.
    #[arg(long, value_name = "FILE")]
    copyrator: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  make bench                                       everything; some hours
  make bench ARGS=--record                         and keep the runs in benches/runs/
  make bench ARGS='fan-out --namespaces 100'       one benchmark, at a size of yours
  make bench ARGS=--quick                          everything small, to see that it works

Exit codes: 0 measured, also where a budget is missed; 1 something failed; 2 usage";

#[tokio::main]
async fn main() -> ExitCode {
    // Nothing else installs one in this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match std::env::args().nth(1).as_deref() {
        Some(bare_webhook::WORD) => bare_webhook::serve().await,
        _ => run(&Arguments::parse()).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("bench: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Outcome<()> {
    let path = match &arguments.copyrator {
        Some(file) => file.clone(),
        None => std::env::current_exe()?.with_file_name("copyrator"),
    };
    let program = Program::at(&path)?;
    let sizes = Sizes::from(&arguments.wishes);
    let chosen = if arguments.names.is_empty() { &ALL[..] } else { &arguments.names };
    let mut missed = 0;
    for benchmark in chosen {
        let report = measure(*benchmark, &program, &sizes).await?;
        println!("\n{}\n\n{}", report.title, table::render(&report));
        println!("{}", record::json(&report)?.display());
        if arguments.record {
            println!("{}", record::keep(&report)?.display());
        }
        missed += report.figures.iter().filter(|figure| figure.met == Some(false)).count();
    }
    match sizes.quick {
        true => println!("\nIt works. Figures of so little say nothing, so none was held to its budget."),
        false => println!("\n{missed} budgets missed"),
    }
    Ok(())
}

async fn measure(benchmark: Benchmark, program: &Program, sizes: &Sizes) -> Outcome<Report> {
    eprintln!("{}", benchmark.name());
    let machine = Machine::look()?;
    let began = Timestamp::now().strftime("%Y-%m-%d %H:%M").to_string();
    let clock = Instant::now();
    let figures = benchmark.run(program, sizes).await?.finish(!sizes.quick);
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--record").collect();
    let command =
        if words.is_empty() { "make bench".into() } else { format!("make bench ARGS='{}'", words.join(" ")) };
    Ok(Report {
        benchmark: benchmark.name(),
        title: benchmark.title(),
        began,
        seconds: clock.elapsed().as_secs_f64().round(),
        command,
        machine,
        program: program.clone(),
        sizes: sizes.clone(),
        figures,
    })
}
