//! docs/flags.md lists the flags of `copyrator serve`.

use std::{collections::BTreeMap, fs};

use clap::CommandFactory as _;
use copyrator::testing::Cli;

use crate::path;

/// With their environment forms. Those of the first Copyrator stand beside the flag that they are another name of.
#[test]
fn the_documents_list_every_flag_of_serve() {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("there is such a command");
    let is_listed = |flag: &&clap::Arg| !flag.get_id().as_str().starts_with("seed_");
    let flags: BTreeMap<String, Option<String>> = serve
        .get_arguments()
        .filter(is_listed)
        .filter_map(|flag| {
            let env = flag.get_env().map(|env| env.to_string_lossy().into_owned());
            Some((format!("--{}", flag.get_long()?), env))
        })
        .collect();

    let text = fs::read_to_string(path("docs/flags.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `--"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let row = |flag: &str| rows.iter().find(|row| row[1].split(", ").any(|one| one == format!("`{flag}`")));
    for (flag, env) in &flags {
        let row = row(flag).unwrap_or_else(|| panic!("docs/flags.md lacks {flag}"));
        let named = env.as_ref().is_none_or(|env| row[2].contains(&format!("`{env}`")));
        assert!(named, "docs/flags.md does not say that {flag} is also {env:?}");
    }
    for listed in rows.iter().flat_map(|row| row[1].split(", ")) {
        assert!(flags.contains_key(listed.trim_matches('`')), "there is no {listed}");
    }
    assert!(flags.len() > 25, "only {flags:?}");
}
