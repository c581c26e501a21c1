//! The demo runs to its end, docs/demo.md shows what it says, and README.md some lines of it. `COPYRATOR_BLESS=1` puts what it
//! says into docs/demo.md; the lines of README.md are chosen by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what went wrong by failing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[allow(dead_code, reason = "transcripts of single commands are for the documents")]
#[path = "../../documents/output.rs"]
mod output;

/// A page with a part that shows the demo.
struct Page {
    path: PathBuf,
    before: String,
    shown: String,
    after: String,
}

impl Page {
    fn read(name: &str, mark: &str) -> Page {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let text = fs::read_to_string(&path).expect("the page is there");
        let (begins, ends) = (format!("<!-- {mark} -->\n```text\n"), format!("```\n<!-- /{mark} -->"));
        let (before, rest) = text.split_once(&begins).unwrap_or_else(|| panic!("{name} shows the demo"));
        let (shown, after) = rest.split_once(&ends).unwrap_or_else(|| panic!("{name} ends showing it"));
        assert!(shown.lines().count() > 10, "{name} shows too little");
        let (before, after) = (format!("{before}{begins}"), format!("{ends}{after}"));
        Page { path, before, shown: shown.to_owned(), after }
    }

    fn write(&self, said: &str) {
        fs::write(&self.path, [&self.before, said, &self.after].concat()).expect("the page can be written");
    }
}

#[test]
fn the_pages_show_what_the_demo_says() {
    let (whole, lines) = (Page::read("docs/demo.md", "demo-output"), Page::read("README.md", "demo-lines"));

    let ended =
        Command::new(env!("CARGO_BIN_EXE_demo")).env("NO_COLOR", "1").output().expect("the demo can be run");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    if std::env::var_os("COPYRATOR_BLESS").is_some() {
        whole.write(&said);
    } else if let Err(line) = output::agree(&whole.shown, &said) {
        panic!(
            "the demo does not say\n{line}\nas docs/demo.md shows it (COPYRATOR_BLESS=1 writes it there), but\n{said}"
        );
    }
    if let Err(line) = output::agree(&lines.shown, &said) {
        panic!(
            "the demo does not say\n{line}\nas README.md shows it: correct it there by hand. It says\n{said}"
        );
    }
}
