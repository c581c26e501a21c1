//! Uninstalled: what Copyrator made for people stays, and nothing of its own is left in the way.

use serde_json::Value;

use super::appear::OURS;
use super::{HOME, fresh};
use crate::failure::Failure;
use crate::http;
use crate::scene::Scene;

/// What an operator can leave in everybody's way.
const CLUSTERWIDE: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,\
    validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,clusterroles,\
    clusterrolebindings,flowschemas,prioritylevelconfigurations,priorityclasses";
const FINALIZED: &str = "configmaps,secrets,deployments,pods,services,leases,copyratorrules,configmonitors,\
    configpolicies,copyratortemplates";

pub(super) fn act(scene: &mut Scene) -> Result<(), Failure> {
    scene.heading("Uninstall")?;
    let copies = format!("get configmaps,secrets --all-namespaces -l {OURS} -o json");
    let before = contents(&ask(scene, &copies)?);
    scene.helm(&format!("uninstall copyrator -n {HOME} --wait --timeout 3m"))?;
    scene.eventually("hooks, policies and roles to be gone", |scene| {
        let left = left(scene, CLUSTERWIDE)?;
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    })?;
    scene.note("no hook, admission policy, role or flow schema is left")?;
    let finalized = finalized(&ask(scene, &format!("get {FINALIZED} --all-namespaces -o json"))?);
    if !finalized.is_empty() {
        return Err(Failure::new(format!("these have finalizers: {finalized:?}")));
    }
    scene.note("nothing has a finalizer")?;
    scene.kubectl(&format!("get configmaps,secrets --all-namespaces -l {OURS}"))?;
    let after = contents(&ask(scene, &copies)?);
    if before.len() != 2 || before != after {
        return Err(Failure::new(format!("the copies were {before:#?}, and are {after:#?}")));
    }
    scene.note("the copies are what they were")?;
    // Nobody judges any more, and nobody is held up.
    scene.kubectl("create configmap app-unjudged -n shop --from-literal=url=nonsense")?.says("created")?;
    let address = fresh::address(scene)?;
    let answer = http::get(&address).map_err(Failure::new)?;
    scene.note(&format!("GET http://{address}/ still answers: {answer}"))?;

    scene.heading("And everything else goes, when people want it to")?;
    scene.kubectl("get copyratorrules,configmonitors --all-namespaces")?.says("greeting")?;
    scene.kubectl(
        "delete crd copyratorrules.copyrator.dev configmonitors.copyrator.dev configpolicies.copyrator.dev \
         copyratortemplates.copyrator.dev --timeout=60s",
    )?;
    scene.kubectl(&format!("delete namespace shop platform {HOME} --timeout=120s"))?;
    scene.eventually("everything to be gone", |scene| {
        let left = left(scene, &format!("{CLUSTERWIDE},crds,apiservices,namespaces"))?;
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    })?;
    scene.note("nothing that is called copyrator is left in the cluster")
}

/// What of these kinds is called after us.
fn left(scene: &Scene, kinds: &str) -> Result<Vec<String>, String> {
    let names = scene.ask(&format!("get {kinds} -o name"))?;
    Ok(names.lines().filter(|name| name.contains("copyrator")).map(str::to_owned).collect())
}

fn ask(scene: &Scene, line: &str) -> Result<Value, Failure> {
    let answer = scene.ask(line).map_err(Failure::new)?;
    serde_json::from_str(&answer).map_err(Failure::at("read the answer of kubectl", line.as_ref()))
}

/// Identity, data and marks of each: without versions, so that what Kubernetes itself notes beside them does not count.
fn contents(list: &Value) -> Vec<Value> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| {
            let metadata = &item["metadata"];
            Value::from(vec![
                metadata["namespace"].clone(),
                metadata["name"].clone(),
                metadata["uid"].clone(),
                metadata["annotations"].clone(),
                metadata["labels"].clone(),
                item["data"].clone(),
            ])
        })
        .collect()
}

fn finalized(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter(|item| item["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()))
        .map(|item| format!("{} {}", item["kind"], item["metadata"]["name"]))
        .collect()
}
