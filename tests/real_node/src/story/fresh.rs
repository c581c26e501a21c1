//! An application answers with what the source says, after it changed, by a real restart.

use std::time::Instant;

use crate::failure::Failure;
use crate::http;
use crate::scene::Scene;

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("Content changes, and the application says so")?;
    scene.cat("tests/real_node/manifests/greeter.yaml")?;
    scene.kubectl("apply -f tests/real_node/manifests/greeter.yaml")?;
    scene.kubectl("rollout status deployment/greeter -n shop --timeout=90s")?;
    let address = address(scene)?;
    scene.eventually("the application's first answer", |_| said(&address, "Hello"))?;
    scene.note(&format!("GET http://{address}/ answers: {}", http::get(&address).map_err(Failure::new)?))?;
    let before = pods(scene)?;
    scene.kubectl("get pods -n shop")?;
    scene.kubectl("wait --for=condition=Ready configmonitor/greeter -n shop --timeout=30s")?;

    let begin = Instant::now();
    scene.kubectl(
        "patch configmap greeting -n platform --type=merge -p '{\"data\":{\"GREETING\":\"Good evening\"}}'",
    )?;
    let (mut asked, mut lost) = (0, Vec::new());
    scene.eventually("the application's new answer", |_| {
        asked += 1;
        if let Err(error) = http::get(&address) {
            lost.push(error);
        }
        said(&address, "Good evening")
    })?;
    scene.note(&format!(
        "GET http://{address}/ answers after {:.1} s: {}",
        begin.elapsed().as_secs_f64(),
        http::get(&address).map_err(Failure::new)?
    ))?;
    let lost =
        if lost.is_empty() { "each answered".to_owned() } else { format!("{} not: {lost:?}", lost.len()) };
    scene.note(&format!("meanwhile asked {asked} times, {lost}"))?;
    scene.kubectl("rollout status deployment/greeter -n shop --timeout=90s")?;
    scene.eventually("the old pod to be gone", |scene| {
        let now = scene.ask(PODS)?;
        if now.split(' ').any(|pod| before.split(' ').any(|old| old == pod)) { Err(now) } else { Ok(()) }
    })?;
    scene.kubectl("get pods -n shop")?;
    scene.kubectl("get events -n shop --field-selector reason=Restarted")?.says("Restarted")?;
    scene.kubectl("get configmonitors -n shop")?.says("True")
}

const PODS: &str = "get pods -n shop -l app=greeter -o jsonpath={.items[*].metadata.uid}";

fn pods(scene: &Scene) -> Result<String, Failure> {
    scene.ask(PODS).map_err(Failure::new)
}

/// Of its Service, which kube-proxy turns into a pod's.
pub(super) fn address(scene: &Scene) -> Result<String, Failure> {
    let address =
        scene.ask("get service greeter -n shop -o jsonpath={.spec.clusterIP}").map_err(Failure::new)?;
    Ok(format!("{address}:80"))
}

fn said(address: &str, expected: &str) -> Result<(), String> {
    let answer = http::get(address)?;
    if answer == expected { Ok(()) } else { Err(answer) }
}
