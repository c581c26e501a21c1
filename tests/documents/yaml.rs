//! The YAML blocks of all documents, in one cluster: nothing is written there but namespaces.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::blocks::{Block, Document};
use crate::ground::Ground;

/// Kinds that documents copy or render, which have to be granted.
const GRANTED: &str = "
copies:
  kinds: [RoleBinding, ResourceQuota, NetworkPolicy, LimitRange, PodDisruptionBudget, ServiceAccount, Deployment, Service]
  bind: [view, edit]
templates:
  kinds:
  - {apiVersion: cert-manager.io/v1, kind: Certificate, resource: certificates, use: [render]}
  - {apiVersion: cert-manager.io/v1, kind: Issuer, resource: issuers, use: [render, copy]}
";

/// Puts each block to the API server and to `copyrator check`, or to the chart.
pub(crate) fn apply_all(documents: &[Document]) {
    let ground = Ground::installed_with("yaml", GRANTED);
    define_foreign_kinds(&ground);
    let mut namespaces = BTreeSet::new();
    let mut faults = Vec::new();
    let mut count = 0;
    for document in documents {
        for block in document.blocks.iter().filter(|block| matches!(block.language.as_str(), "yaml" | "json"))
        {
            let at = document.at(block);
            let objects: Vec<Value> = match serde_saphyr::from_multiple(&block.text) {
                Ok(objects) => objects,
                Err(error) => {
                    faults.push(format!("{at}: {error}"));
                    continue;
                }
            };
            if block.left_out.is_some() || block.language == "json" {
                continue;
            }
            count += 1;
            ground.write("block.yaml", &block.text);
            let fault = match block.more.split(' ').next() {
                Some("values") => values(&ground),
                Some("objects") => {
                    let template = around(&objects);
                    ground.write("block.yaml", &template.to_string());
                    manifests(&ground, block, &[template], &mut namespaces)
                }
                _ => manifests(&ground, block, &objects, &mut namespaces),
            };
            faults.extend(fault.map(|fault| format!("{at}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(count > 15, "{count} blocks only");
}

/// Those of other projects that documents write objects of.
fn define_foreign_kinds(ground: &Ground) {
    let files = [devcluster::foreign_definitions(), devcluster::gitops_definitions()];
    for file in files.into_iter().flat_map(|files| files.expect("the definitions are there")) {
        let ran = ground.run(&format!("kubectl apply --server-side -f '{}'", file.display()));
        assert_eq!(ran.code, 0, "{}: {}", file.display(), ran.output);
    }
    let ran = ground.run("kubectl wait --for=condition=Established crd --all --timeout=60s");
    assert_eq!(ran.code, 0, "{}", ran.output);
}

/// A template of these objects, of which a document shows only the list.
fn around(objects: &[Value]) -> Value {
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": { "name": "fragment", "namespace": "platform" },
        "spec": {
            "forEach": { "namespaces": [{ "namespaceSelector": { "matchLabels": { "team": "blue" } } }] },
            "objects": objects[0],
        },
    })
}

fn values(ground: &Ground) -> Option<String> {
    let ran = ground.run(
        "helm template copyrator charts/copyrator -n copyrator-system --kube-version 1.36.0 -f block.yaml",
    );
    (ran.code != 0).then_some(ran.output)
}

fn manifests(
    ground: &Ground,
    block: &Block,
    objects: &[Value],
    namespaces: &mut BTreeSet<String>,
) -> Option<String> {
    for object in objects {
        if let Some(namespace) = object["metadata"]["namespace"].as_str()
            && namespaces.insert(namespace.to_owned())
        {
            // It may be there from the beginning.
            ground.run(&format!("kubectl create namespace {namespace}"));
        }
    }
    let tried = ground.run("kubectl apply --server-side --dry-run=server -f block.yaml");
    let checked = ground.run("copyrator check -f block.yaml");
    match block.is_refused {
        false if tried.code != 0 => Some(tried.output),
        false if checked.code != 0 => Some(format!("copyrator check: {}", checked.output)),
        true if tried.code == 0 => Some(format!("was to be refused by the API server: {}", tried.output)),
        true if checked.code == 0 => {
            Some(format!("was to be refused by copyrator check: {}", checked.output))
        }
        _ => None,
    }
}
