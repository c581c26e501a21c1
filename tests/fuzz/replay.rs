//! The fuzz targets over their seeds: what was once found stays found, and the targets stay true, without libFuzzer. New
//! inputs are made up by `make fuzz`.

#[path = "src/lib.rs"]
#[allow(clippy::expect_used, reason = "a target says by a panic what does not hold")]
mod targets;

use std::{
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_must_hold_holds_for_every_seed() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (name, check) in targets::TARGETS {
        let mut seeds = files(&tests.join("fuzz/seeds").join(name));
        if name == "review" {
            seeds.extend(files(&tests.join("reviews")));
            seeds.retain(|seed| seed.extension().is_none_or(|extension| extension != "rs"));
        }
        assert!(!seeds.is_empty(), "{name} has no seed");
        for seed in seeds {
            // Shown where a check panics.
            println!("{name}: {}", seed.display());
            check(&fs::read(seed).unwrap());
        }
    }
}

#[test]
fn every_target_is_run_and_every_seed_belongs_to_one() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
    let named = |folder: &str| -> Vec<String> {
        files(&fuzz.join(folder))
            .iter()
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect()
    };
    let targets = targets::TARGETS.map(|(name, _)| name.to_owned());
    assert_eq!(named("fuzz_targets"), targets);
    assert_eq!(named("seeds"), targets);
}

#[test]
fn a_quoted_value_is_noticed() {
    let value = targets::canary::put_into("user=a\npassword=b");
    let quotes = [format!("found {value:?} there"), format!("in {}", STANDARD.encode(format!("12{value}")))];
    for quote in quotes {
        let check = || targets::canary::assert_kept_from(&quote, "a test");
        assert!(catch_unwind(check).is_err(), "{quote} passed");
    }
    targets::canary::assert_kept_from("user=a", "a test");
}
