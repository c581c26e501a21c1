//! A file of unit tests is named so: `tests.rs`, or below a folder `tests/`. A test that has the name of a product file is read as one,
//! by people and by scripts.

use std::fs;

use regex::Regex;

use super::{CRATES, assert_none, files, root};

#[test]
fn test_modules_are_called_tests() {
    let declared =
        Regex::new(r"(?m)^[ \t]*#\[cfg\(test\)\]\s*\n\s*(?:pub(?:\([a-z: ]+\))? )?mod (\w+);").unwrap();
    let mut found = Vec::new();
    CRATES.iter().for_each(|folder| files(&root().join(folder), &mut found));
    let (mut findings, mut count) = (Vec::new(), 0);
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for module in declared.captures_iter(&text) {
            count += 1;
            if &module[1] != "tests" {
                let path = path.strip_prefix(root()).unwrap().display();
                findings.push(format!("{path}: test module `{}`; move it below `tests`", &module[1]));
            }
        }
    }
    assert_none(findings);
    assert!(count > 10, "only {count} test modules: this test looks in the wrong place");
}
