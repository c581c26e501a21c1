//! Every pod is replaced while people write, and no write is lost to it.

use super::HOME;
use super::writes::Writes;
use crate::failure::Failure;
use crate::scene::Scene;

const PODS: &str = "get pods -n copyrator-system -o jsonpath={.items[*].metadata.uid}";
/// Fewer would show nothing.
const ENOUGH: usize = 50;

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("A rolling upgrade under writes, with failurePolicy Fail")?;
    let hook = "{.webhooks[?(@.name==\"app-config.policies-fail.copyrator.dev\")].failurePolicy}";
    scene
        .kubectl(&format!("get validatingwebhookconfiguration copyrator -o jsonpath='{hook}'"))?
        .says("Fail")?;
    let before = scene.ask(PODS).map_err(Failure::new)?;
    let (accepted, refused) = Writes::flow_while(scene, |scene| {
        scene.helm(&format!(
            "upgrade copyrator charts/copyrator -n {HOME} --set podAnnotations.example\\.com/restarted=once --wait --timeout 3m"
        ))?;
        scene.eventually("every pod of before to be gone", |scene| {
            let now = scene.ask(PODS)?;
            if now.split(' ').any(|pod| before.contains(pod)) { Err(now) } else { Ok(()) }
        })
    })?;
    scene.kubectl(&format!("get pods -n {HOME}"))?;
    scene.note(&format!(
        "meanwhile {} writes of judged ConfigMaps: {accepted} accepted, {refused} refused as they should be, 0 failed",
        accepted + refused
    ))?;
    match accepted + refused {
        ENOUGH.. if refused > 0 => Ok(()),
        _ => Err(Failure::new("too few writes to show anything")),
    }
}
