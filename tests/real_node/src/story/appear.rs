//! A namespace appears, and so do its objects.

use crate::failure::Failure;
use crate::scene::Scene;

pub(super) const OURS: &str = "app.kubernetes.io/managed-by=copyrator";

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("A namespace appears, and so do its objects")?;
    scene.kubectl("apply -f tests/real_node/manifests/sources.yaml")?;
    scene.cat("tests/real_node/manifests/rules.yaml")?;
    scene.kubectl("apply -f tests/real_node/manifests/rules.yaml")?;
    scene.kubectl("wait --for=condition=Ready copyratorrules --all -n platform --timeout=30s")?;
    // It says so by the webhook, through its Service.
    scene
        .kubectl("apply -f tests/real_node/manifests/namespace.yaml")?
        .says("2 objects will be created in this namespace")?;
    scene.eventually("both copies", |scene| {
        let names = scene.ask(&format!("get configmaps,secrets -n shop -l {OURS} -o name"))?;
        if names == "configmap/greeting\nsecret/registry" { Ok(()) } else { Err(names) }
    })?;
    scene.kubectl(&format!("get configmaps,secrets -n shop -l {OURS}"))?;
    scene.eventually("the rules to count their copies", |scene| {
        let current = scene.ask("get copyratorrules -n platform -o jsonpath={.items[*].status.current}")?;
        if current == "1 1" { Ok(()) } else { Err(current) }
    })?;
    scene.kubectl("get copyratorrules -n platform")?.says("True")
}
