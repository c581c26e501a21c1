//! docs/commands.md tells every command as its `--help` does.

use std::{env, fs};

use super::{path, ran, text};

const BEGIN: &str = "<!-- From here on the text is each command's own --help: COPYRATOR_BLESS=1 cargo test --test command_line -->\n";

/// The commands, as the program lists them.
fn commands() -> Vec<String> {
    let help = text(&ran(&["--help"]).stdout);
    let (_, list) = help.split_once("\nCommands:\n").expect("a list of commands");
    let (list, _) = list.split_once("\nOptions:\n").expect("its end");
    // Sentences that go on in a second line are indented further.
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

#[test]
fn the_page_has_every_command_as_it_is() {
    let file = path("docs/commands.md");
    let page = fs::read_to_string(&file).expect("the page is there");
    let (written, _) = page.split_once(BEGIN).expect("the mark of the generated part");
    let commands = commands();
    assert!(commands.len() > 12, "{commands:?}");
    let sections = commands.iter().map(|command| {
        let help = text(&ran(&[command, "--help"]).stdout);
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        format!("\n## {command}\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
    });
    let generated: String = sections.collect();
    let wanted = format!("{written}{BEGIN}{generated}");
    if env::var_os("COPYRATOR_BLESS").is_some() {
        fs::write(&file, &wanted).expect("the page can be written");
    } else {
        assert!(
            page == wanted,
            "docs/commands.md is stale: COPYRATOR_BLESS=1 cargo test --test command_line"
        );
    }
}

/// What somebody wants of a command's help: what it is for, how it is called, and how it ends.
#[test]
fn every_command_has_an_example_and_says_how_it_ends() {
    for command in commands() {
        let help = text(&ran(&[&command, "--help"]).stdout);
        assert!(help.contains("Example"), "{command} has no example: {help}");
        assert!(help.contains("Exit code"), "{command} does not say how it ends: {help}");
        assert!(help.contains(&format!("copyrator {command}")), "{command} is not called in: {help}");
    }
}
