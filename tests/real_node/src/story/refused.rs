//! Bad configuration is refused while it is written, by a pod behind the Service.

use crate::failure::Failure;
use crate::scene::Scene;

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("Bad configuration is refused")?;
    scene.cat("tests/real_node/manifests/policy.yaml")?;
    scene.kubectl("apply -f tests/real_node/manifests/policy.yaml")?;
    scene.kubectl("wait --for=condition=Ready configpolicy/app-config --timeout=60s")?;
    let bad = "create configmap app-web -n shop --from-literal=url=nonsense";
    scene.eventually("the API server to ask about such ConfigMaps", |scene| {
        match scene.ask(&format!("{bad} --dry-run=server")) {
            Err(refusal) if refusal.contains("policies-fail") => Ok(()),
            Err(other) | Ok(other) => Err(other),
        }
    })?;
    let refusal = scene.refused(bad)?;
    refusal.says("app-config")?;
    refusal.says("has-url")?;
    scene
        .kubectl("create configmap app-web -n shop --from-literal=url=https://shop.example.com")?
        .says("created")
}
