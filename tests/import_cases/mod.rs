//! Imports as data: manifests in (`NAME.yaml`), rules, templates, monitors and findings out (`NAME.out`, without the steps at the top).
//! `UPDATE_CASES=1` writes what came out into the files. Whatever comes out must be what we take.

use std::{fs, path::Path};

use copyrator::{
    api::{ConfigMonitor, CopyratorRule, CopyratorTemplate},
    import::{ImportInput, Imported, Made, Options, import, json, yaml},
    validate::{CompiledMonitor, CompiledRule, CompiledTemplate, Instance, Rendering},
};
use serde_json::{Value, json};

/// Every value of the cases that must not come out.
const SECRET: &str = "c2VjcmV0";

fn read(text: &str) -> ImportInput {
    let mut found = ImportInput::default();
    for document in serde_saphyr::from_multiple::<Value>(text).unwrap() {
        found.take(document, None);
    }
    found
}

/// The options that a case's first line says.
fn options(text: &str) -> Options {
    let said = text.lines().next().and_then(|line| line.strip_prefix("# --source-namespace "));
    Options { source_namespace: said.map(str::to_owned), home: said.map(str::to_owned) }
}

/// What comes out below the steps at its top.
fn body(text: &str) -> &str {
    text.find("---\n").or_else(|| text.find("#\n# Without a rule")).map_or("", |at| &text[at..])
}

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    let update = std::env::var_os("UPDATE_CASES").is_some();
    let mut cases: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    cases.sort();
    assert!(cases.len() >= 6, "cases are missing in {folder:?}");
    let mut wrong = Vec::new();
    for path in cases {
        let text = fs::read_to_string(&path).unwrap();
        let imported = import(&read(&text), &options(&text));
        let out = yaml(&imported).unwrap();
        is_what_we_take(&path, &imported, &out);
        let verdict = if imported.lacks_something() { "exit code 1" } else { "exit code 0" };
        let out = format!("{verdict}\n{}", body(&out));
        let expected = path.with_extension("out");
        if update {
            fs::write(&expected, out).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != out {
            wrong.push(format!("{}:\n{out}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The output is read as `kubectl apply` would read it: the same rules, suspended, which the one validator accepts, and
/// nothing besides.
fn is_what_we_take(path: &Path, imported: &Imported, out: &str) {
    let at = path.display();
    let documents: Vec<Value> = serde_saphyr::from_multiple(out).unwrap();
    let documents: Vec<&Value> = documents.iter().filter(|one| !one.is_null()).collect();
    assert_eq!(documents.len(), imported.made().count(), "{at}");
    for (document, made) in documents.into_iter().zip(imported.made()) {
        let read = document.clone();
        assert!(document.get("status").is_none() && document["spec"]["suspend"] == true, "{at}: {document}");
        let checked = match made {
            Made::Rule(rule) => {
                let read: CopyratorRule = serde_json::from_value(read).unwrap();
                assert_eq!((&read.spec, &read.metadata), (&rule.spec, &rule.metadata), "{at}");
                CompiledRule::compile(&read.spec, &Default::default()).map(drop)
            }
            Made::Template(template) => {
                let read: CopyratorTemplate = serde_json::from_value(read).unwrap();
                assert_eq!((&read.spec, &read.metadata), (&template.spec, &template.metadata), "{at}");
                CompiledTemplate::compile_served(&read.spec).map(drop)
            }
            Made::Monitor(monitor) => {
                let read: ConfigMonitor = serde_json::from_value(read).unwrap();
                assert_eq!((&read.spec, &read.metadata), (&monitor.spec, &monitor.metadata), "{at}");
                CompiledMonitor::compile(&read.spec).map(drop)
            }
        };
        checked.unwrap_or_else(|problems| panic!("{at}: {problems:?}"));
    }
    assert!(!out.contains(SECRET), "{at}: a Secret's value came out");
    let machines = json(imported);
    let listed = |what: &str| machines[what].as_array().unwrap().len();
    let all = (listed("rules"), listed("templates"), listed("monitors"));
    assert_eq!(all, (imported.rules(), imported.templates(), imported.monitors()), "{at}");
    assert!(!machines.to_string().contains(SECRET), "{at}: a Secret's value came out");
}

#[test]
fn the_steps_come_first_and_nothing_found_is_nothing_printed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    let text = fs::read_to_string(folder.join("seed.yaml")).unwrap();
    let out = yaml(&import(&read(&text), &Options::default())).unwrap();
    let steps: Vec<_> =
        ["Apply these rules", "copyrator plan", "Stop the other tool", "Unsuspend", "copyrator status"]
            .iter()
            .map(|step| out.find(step).unwrap_or_else(|| panic!("{step} is missing in {out}")))
            .collect();
    assert!(steps.is_sorted() && steps[4] < out.find("---\n").unwrap(), "{out}");
    assert_eq!(yaml(&import(&ImportInput::default(), &Options::default())).unwrap(), "");
}

/// The other tool of copies is stopped first, that of restarts last: each import says its own order, and only its own.
#[test]
fn the_steps_are_those_of_the_tools_that_were_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    let read_case = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (copies, restarts) = (read_case("seed.yaml"), read_case("seed-monitor.yaml"));
    let steps = |text: &str| json(&import(&read(text), &Options::default()))["next"].to_string();
    let of_restarts = steps(&restarts);
    let order: Vec<_> = ["Apply these monitors", "Unsuspend", "stop the other tool", "annotations from"]
        .iter()
        .map(|step| of_restarts.find(step).unwrap_or_else(|| panic!("{step} is missing in {of_restarts}")))
        .collect();
    assert!(order.is_sorted() && !of_restarts.contains("rules"), "{of_restarts}");
    assert!(!steps(&copies).contains("monitors"), "{}", steps(&copies));
    let both = steps(&format!("{copies}\n---\n{restarts}"));
    assert!(both.contains("Apply these rules") && both.contains("Apply these monitors"), "{both}");
}

/// What the templates of a case with a `.rendered` beside it are rendered for, where they choose it: a Namespace, and the objects in it
/// that a `.given` lists after it.
fn given(case: &Path) -> Vec<Value> {
    match fs::read_to_string(case.with_extension("given")) {
        Ok(text) => serde_saphyr::from_str(&text).unwrap(),
        Err(_) => vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a",
            "labels": {"team": "blue", "stage": "prod", "network": "closed", "multitenant": "true", "example.com/pods": "7"},
            "annotations": {"example.com/owner": "alice", "starter": "yes", "tier": "gold", "gigabytes": "4"}}})],
    }
}

/// `NAME.rendered` says, written by hand, what the other tool makes for what is given: the templates give the same, in their order.
#[test]
fn templates_render_what_the_other_tool_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    for name in ["kyverno", "kyverno-objects", "namespace-config"] {
        let case = folder.join(name);
        let text = fs::read_to_string(case.with_extension("yaml")).unwrap();
        let imported = import(&read(&text), &options(&text));
        let given = given(&case);
        let namespace = &given[0];
        let mut rendered = Vec::new();
        for made in imported.made() {
            let Made::Template(template) = made else { continue };
            let compiled = CompiledTemplate::compile_served(&template.spec).unwrap();
            let home = template.metadata.namespace.as_deref().unwrap();
            for one in given.iter().filter(|one| compiled.selects(home, one, namespace)) {
                for object in &compiled.objects {
                    let of_object = compiled.instance_kind().is_some().then_some(one);
                    let instance =
                        Instance { namespace: Some(namespace), object: of_object, ..Instance::default() };
                    match compiled.render(object, &instance).unwrap_or_else(|fault| panic!("{name}: {fault}"))
                    {
                        Rendering::Object(object) => rendered.push(object.body),
                        Rendering::Excluded => {}
                        other => panic!("{name}: {other:?}"),
                    }
                }
            }
        }
        let expected = fs::read_to_string(case.with_extension("rendered")).unwrap();
        let expected: Vec<Value> = serde_saphyr::from_str(&expected).unwrap();
        assert_eq!(rendered, expected, "{name}: {}", json!(rendered));
    }
}

/// A policy may hold the Secret that it makes.
#[test]
fn no_value_of_a_secret_is_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    for name in ["kyverno-none.yaml", "kyverno-objects-none.yaml", "namespace-config-none.yaml"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.contains(SECRET) && !format!("{:?}", read(&text)).contains(SECRET), "{name}");
    }
}

/// What is needed of the chart, and how Kyverno is to let go, stands among the steps.
#[test]
fn the_steps_name_what_the_templates_need() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_cases");
    let text = fs::read_to_string(folder.join("kyverno.yaml")).unwrap();
    let next = json(&import(&read(&text), &options(&text)))["next"].to_string();
    for part in [
        "copies.kinds: [NetworkPolicy, ResourceQuota, RoleBinding]; copies.bind: [admin]; templates.kinds: [{apiVersion: cert-manager.io/v1",
        "Apply these templates",
        "Remove the generate rules from Kyverno",
        "kubectl patch copyratortemplate NAME",
    ] {
        assert!(next.contains(part), "{part} is missing in {next}");
    }
    assert!(!next.contains("scale deployment"), "{next}");
    let text = fs::read_to_string(folder.join("kyverno-objects.yaml")).unwrap();
    let next = json(&import(&read(&text), &options(&text)))["next"].to_string();
    for part in [
        "{apiVersion: apps/v1, kind: Deployment, resource: deployments, use: [forEach]}",
        "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, resource: PLURAL, use: [forEach]}",
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, resource: horizontalpodautoscalers, use: [render]}",
        "kubectl api-resources has the plural",
        "copies.kinds: [NetworkPolicy, PodDisruptionBudget, Service, ServiceAccount]",
    ] {
        assert!(next.contains(part), "{part} is missing in {next}");
    }
}
