//! What docs/operations.md names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::json;

use crate::bed::objects::config_map;
use crate::bed::{Story, rough};

const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// An alert on a metric that nobody exposes never fires, and nobody sees why.
#[test]
fn every_metric_that_the_documents_name_is_exposed() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    // So that there is something to count: reviews, copies, a restart.
    let story = Story::new(bed, "documented");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let before = story.until_adopted("web");
    story.until_older_than_now("web");
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until_restarted("web", &before);

    let pages =
        [&crew.webhook, &crew.reconciler].map(|process| process.ask("/metrics").expect("it answers").1);
    let exposed: BTreeSet<String> = pages.iter().flat_map(|page| samples(page)).collect();
    let named = Regex::new(r"\bcopyrator_[a-z_]+[a-z]\b").expect("a pattern");
    let named: BTreeSet<&str> = named.find_iter(OPERATIONS).map(|found| found.as_str()).collect();
    assert!(named.len() > 20, "the documents name {named:?} only");
    let missing: Vec<&&str> =
        named.iter().filter(|name| !exposed.contains(**name) && !is_registered(name)).collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md names what is not exposed: {missing:?}; there is {exposed:#?}"
    );
}

/// The names by which a page's metrics can be asked for, in OpenMetrics: what has samples, and what might.
fn samples(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = types.flat_map(|(name, kind)| match kind {
        "counter" => vec![format!("{name}_total")],
        // By its own name in tables, by these in expressions.
        "histogram" => ["", "_bucket", "_count", "_sum"].map(|part| format!("{name}{part}")).into(),
        _ => vec![name.to_owned()],
    });
    names.collect()
}

/// A family without any sample is not on the page: it is in the source, at least.
fn is_registered(name: &str) -> bool {
    let stem =
        name.trim_start_matches("copyrator_").trim_start_matches("admission_").trim_start_matches("webhook_");
    let stem = stem.trim_end_matches("_total");
    any_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &format!("register(\"{stem}\""))
}

fn any_source(folder: &Path, text: &str) -> bool {
    let entries =
        fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("an entry").path());
    entries.into_iter().any(|path| match path.is_dir() {
        true => any_source(&path, text),
        false => fs::read_to_string(&path)
            .is_ok_and(|source| source.replace("\n", "").replace(' ', "").contains(text)),
    })
}
