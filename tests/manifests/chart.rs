//! The chart carries our definitions and policies, and nothing that must not be in a chart.

use std::{env, fs};

use copyrator::crds;

use crate::{files, path};

const CARRIED: &str = "charts/copyrator/files";

#[test]
fn the_chart_carries_what_the_binary_prints() {
    let printed: Vec<(String, String)> =
        crds::files().into_iter().map(|file| (file.name, file.text)).collect();
    if env::var_os("COPYRATOR_BLESS").is_some() {
        for (name, text) in &printed {
            fs::write(path(CARRIED).join(name), text).unwrap();
        }
    }
    let mut by_name = printed;
    by_name.sort();
    for ((name, text), (carried_name, carried)) in by_name.iter().zip(&files(CARRIED)) {
        assert_eq!(name, carried_name);
        assert!(text == carried, "{CARRIED}/{name} is stale: COPYRATOR_BLESS=1 cargo test --test manifests");
    }
    assert_eq!(by_name.len(), files(CARRIED).len());
}

#[test]
fn every_carried_file_is_rendered_by_a_template() {
    let templates: String = files("charts/copyrator/templates").into_iter().map(|(_, text)| text).collect();
    for (name, _) in files(CARRIED) {
        let stem = name.trim_end_matches(".yaml");
        let rendered =
            templates.contains(&format!("files/{name}")) || templates.contains(&format!("\"{stem}\""));
        assert!(rendered, "no template renders {name}");
    }
}

/// Permanently out of sync or failing upgrades otherwise: the binary owns its hooks and certificates whole
/// (kubernaut#332, actions-runner-controller#614), and Jobs are raced by living pods (kyverno#9551).
#[test]
fn the_chart_has_no_hooks_certificates_jobs_or_randomness() {
    const FORBIDDEN: [&str; 11] = [
        "kind: ValidatingWebhookConfiguration",
        "kind: MutatingWebhookConfiguration",
        "kind: Job",
        "kind: Secret\n",
        "caBundle",
        "helm.sh/hook",
        "genCA",
        "genSignedCert",
        "genSelfSignedCert",
        "lookup ",
        "randAlpha",
    ];
    for (name, text) in files("charts/copyrator/templates") {
        let operative = if name == "NOTES.txt" { "" } else { text.as_str() };
        for forbidden in FORBIDDEN {
            assert!(!operative.contains(forbidden), "{name} has {forbidden:?}");
        }
    }
}

#[test]
fn each_template_is_one_object() {
    for (name, text) in files("charts/copyrator/templates") {
        // Those that render another file count as what that file has.
        let made_elsewhere = (text.contains(".Files.Get") && !text.contains("\nkind: "))
            || text.contains("include \"copyrator.deployment\"")
            || name == "extra-objects.yaml";
        if name.ends_with(".yaml") && !made_elsewhere {
            assert_eq!(text.lines().filter(|line| line.starts_with("kind: ")).count(), 1, "{name}");
        }
    }
}
