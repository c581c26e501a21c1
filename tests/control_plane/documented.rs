//! What the documents name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::json;

use crate::bed::objects::config_map;
use crate::bed::{Story, rough};

/// Every document at the root and in docs, and what the chart brings along for watching.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.to_owned(), root.join("docs")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the documents are there"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let documents = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    // And what the chart has Prometheus and Grafana ask for.
    let chart = ["templates/prometheusrule.yaml", "dashboards/copyrator.json"];
    documents
        .chain(chart.map(|file| root.join("charts/copyrator").join(file)))
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("documents are text")))
        .collect()
}

/// The metrics that a text names. `…_x_total` goes on like one named before it.
fn named(text: &str) -> BTreeSet<String> {
    let full = Regex::new(r"\bcopyrator_[a-z_]+[a-z]\b").expect("a pattern");
    let full = full.find_iter(text).map(|found| found.as_str().to_owned());
    let short = Regex::new(r"`…(_[a-z_]+[a-z])`").expect("a pattern");
    full.chain(short.captures_iter(text).map(|found| format!("…{}", &found[1]))).collect()
}

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
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until_restarted("web", &before);

    let pages =
        [&crew.webhook, &crew.reconciler].map(|process| process.ask("/metrics").expect("it answers").1);
    let exposed: BTreeSet<String> = pages.iter().flat_map(|page| samples(page)).collect();
    let mut count = 0;
    for (document, text) in documents() {
        let named = named(&text);
        count += named.len();
        let missing: Vec<&String> =
            named.iter().filter(|name| !is_exposed(name, &exposed) && !is_registered(name)).collect();
        assert!(
            missing.is_empty(),
            "{document} names what is not exposed: {missing:?}; there is {exposed:#?}"
        );
    }
    assert!(count > 30, "the documents name {count} only");
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

fn is_exposed(name: &str, exposed: &BTreeSet<String>) -> bool {
    match name.strip_prefix('…') {
        Some(end) => exposed.iter().any(|one| one.ends_with(end)),
        None => exposed.contains(name),
    }
}

/// A family without any sample is not on the page: it is in the source, at least, where that prefix is given.
fn is_registered(name: &str) -> bool {
    let Some(name) = name.strip_prefix("copyrator_") else { return false };
    let name = name.strip_suffix("_total").unwrap_or(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (source, served) = (root.join("operator/src"), root.join("serve/src"));
    let prefixed =
        [("admission_", source.join("webhook")), ("webhook_", served.clone()), ("console_", served)];
    let of_prefix = prefixed
        .iter()
        .any(|(prefix, folder)| name.strip_prefix(prefix).is_some_and(|stem| registers(folder, stem, &[])));
    of_prefix || registers(&source, name, &prefixed.map(|(_, folder)| folder))
}

fn registers(folder: &Path, stem: &str, but: &[PathBuf]) -> bool {
    let entries =
        fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| !but.contains(path)).any(|path| match path.is_dir() {
        true => registers(&path, stem, but),
        false => fs::read_to_string(&path)
            .is_ok_and(|source| source.replace(['\n', ' '], "").contains(&format!("register(\"{stem}\""))),
    })
}

/// A name with the wrong prefix is not registered.
#[test]
fn a_metric_is_known_by_its_whole_name() {
    assert!(is_registered("copyrator_admission_shed_total") && is_registered("copyrator_writes_total"));
    assert!(is_registered("copyrator_webhook_connections") && is_registered("copyrator_console_connections"));
    for wrong in ["copyrator_shed_total", "copyrator_webhook_shed_total", "copyrator_admission_writes_total"]
    {
        assert!(!is_registered(wrong), "{wrong}");
    }
    assert_eq!(
        named("`copyrator_a_b`, `…_c_total`"),
        BTreeSet::from(["copyrator_a_b".into(), "…_c_total".into()])
    );
}
