//! A template of five objects to many namespaces, created and changed: ours and a bare client, in turns, as in [`super::fan_out`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use copyrator::marks::{COPY_MANAGER, DIGEST, MARK};
use devcluster::Component;
use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, IN_FLIGHT};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, TEMPLATES, namespace, text};
use crate::processes::cpu;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::writes::{self, Prepared, create, merge, send_all};

/// The size that has a budget, and the budget (DESIGN §6).
const BUDGET: (usize, f64) = (1000, 1.3);
/// Kind, group and version, and plural of each object of the kit.
const KIT: [(&str, &str, &str); 5] = [
    ("ConfigMap", "v1", "configmaps"),
    ("ResourceQuota", "v1", "resourcequotas"),
    ("LimitRange", "v1", "limitranges"),
    ("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies"),
    ("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
];
const GRANTED: &str = "--copy-kinds=ResourceQuota,LimitRange,NetworkPolicy,PodDisruptionBudget";
/// What each run does.
const TASKS: [&str; 2] = ["created", "changed"];

/// What one kit in every namespace took.
#[derive(Clone, Copy, Debug)]
struct Measured {
    seconds: f64,
    server: Duration,
}

struct Field {
    arena: Arena,
    namespaces: Vec<String>,
    is_ours: bool,
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    let groups: BTreeSet<&str> = KIT.iter().map(|(_, version, _)| group(version)).collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    arena.grant("starter-kit", &groups, &KIT.map(|(.., plural)| plural)).await?;
    let mut granted = program.clone();
    granted.serve_flags.push(GRANTED);
    arena.restart_as(Role::Reconciler, &granted)?;
    let mut field = Field { arena, namespaces: Vec::new(), is_ours: true };
    let names = (0..sizes.namespaces).map(|number| format!("kit-{number:05}"));
    field.namespaces.extend(names);
    let objects = field.namespaces.iter().map(|name| namespace(name, &["kit"]));
    field.arena.create("/api/v1/namespaces", objects).await?;
    let mut figures = Figures::default();
    for pair in 0..sizes.pairs {
        let (ours, bare) = if pair % 2 == 0 {
            let ours = field.ours(pair).await?;
            (ours, field.bare(pair).await?)
        } else {
            let bare = field.bare(pair).await?;
            (field.ours(pair).await?, bare)
        };
        for (task, (ours, bare)) in TASKS.iter().zip(ours.into_iter().zip(bare)) {
            note(&mut figures, sizes.namespaces, task, ours, bare);
        }
    }
    Ok(figures)
}

fn group(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

fn note(figures: &mut Figures, size: usize, task: &str, ours: Measured, bare: Measured) {
    let about = format!("{size} × {} {task}", KIT.len());
    let budget = ((size, task) == (BUDGET.0, "created")).then(|| Budget::median(BUDGET.1)).flatten();
    figures.add_with(format!("{about}: ours ÷ bare"), "×", budget, ours.seconds / bare.seconds);
    figures.add(format!("{about}: ours"), "s", ours.seconds);
    figures.add(format!("{about}: bare"), "s", bare.seconds);
    let a_thousand = |time: Duration| time.as_secs_f64() * 1e6 / (size * KIT.len()) as f64;
    figures.add(
        format!("{about}: CPU for 1,000 writes, API server beside ours"),
        "ms",
        a_thousand(ours.server),
    );
    figures.add(
        format!("{about}: CPU for 1,000 writes, API server beside bare"),
        "ms",
        a_thousand(bare.server),
    );
}

/// The kit, another content for each round: every object of it differs.
fn kit(name: &str, round: u32) -> Vec<Value> {
    let spec = [
        ("data", json!({ "namespace": "${namespaceObject.metadata.name}", "round": round.to_string() })),
        ("spec", json!({ "hard": { "pods": (10 + round).to_string() } })),
        ("spec", json!({ "limits": [{ "type": "Container", "max": { "cpu": (1 + round).to_string() } }] })),
        (
            "spec",
            json!({ "podSelector": {}, "policyTypes": ["Ingress"],
                "ingress": [{ "ports": [{ "port": 8000 + round, "protocol": "TCP" }] }] }),
        ),
        ("spec", json!({ "maxUnavailable": 1 + round, "selector": { "matchLabels": { "app": "web" } } })),
    ];
    let object = |((kind, version, plural), (field, content)): ((&str, &str, &str), (&str, Value))| {
        let template =
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, field: content });
        json!({ "id": plural, "template": template })
    };
    KIT.into_iter().zip(spec).map(object).collect()
}

impl Field {
    /// A template is created, then changed; Copyrator does the rest.
    async fn ours(&mut self, pair: usize) -> Outcome<[Measured; 2]> {
        if !self.is_ours {
            self.arena.come_back().await?;
            self.is_ours = true;
        }
        let name = format!("ours-{pair}");
        let for_each =
            json!({ "namespaces": [{ "namespaceSelector": { "matchLabels": { "kit": "yes" } } }] });
        let template = json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
            "metadata": { "name": name, "namespace": HOME }, "spec": { "forEach": for_each, "objects": kit(&name, 0) } });
        let created = self.spread(create(TEMPLATES, &template)?, &name).await?;
        let patch = json!({ "spec": { "objects": kit(&name, 1) } });
        let changed = self.spread(merge(&format!("{TEMPLATES}/{name}"), &patch)?, &name).await?;
        Ok([created, changed])
    }

    /// The same objects under another name, by the bare client.
    async fn bare(&mut self, pair: usize) -> Outcome<[Measured; 2]> {
        let like: Vec<Value> = self.stored("ours-0").await?;
        if self.is_ours {
            self.arena.leave().await?;
            self.is_ours = false;
        }
        let name = format!("bare-{pair}");
        let created = self.time_bare(self.bare_writes(&like, &name, None)?, &name).await?;
        let mut versions = BTreeMap::new();
        for (_, version, plural) in KIT {
            let path = format!("{}/{plural}?fieldSelector=metadata.name%3D{name}", root(version));
            let list: Value = self.arena.admin.request(http::Request::get(path).body(Vec::new())?).await?;
            for object in list["items"].as_array().into_iter().flatten() {
                let meta = &object["metadata"];
                let place = meta["namespace"].as_str().unwrap_or_default().to_owned();
                versions.insert((plural, place), meta["uid"].clone());
            }
        }
        let changed = self.time_bare(self.bare_writes(&like, &name, Some(&versions))?, &name).await?;
        Ok([created, changed])
    }

    /// Writes to the template and waits for all of its objects: from the API server's receipt of the one to its answer to the
    /// last of the others.
    async fn spread(&mut self, write: Prepared, name: &str) -> Outcome<Measured> {
        self.arena.settle().await?;
        let before = self.server()?;
        let begun = Timestamp::now();
        writes::send(&self.arena.admin, write).await?;
        self.until_all(name, begun, before).await
    }

    async fn time_bare(&mut self, writes: Vec<Prepared>, name: &str) -> Outcome<Measured> {
        let before = self.server()?;
        let begun = Timestamp::now();
        send_all(&self.arena.account, writes, IN_FLIGHT).await?;
        self.until_all(name, begun, before).await
    }

    /// Waits until every object of this name was written.
    async fn until_all(&mut self, name: &str, begun: Timestamp, before: Duration) -> Outcome<Measured> {
        let is_it = |request: &Request| {
            request.is_done_write()
                && Arena::is_ours(request)
                && request.name == name
                && KIT.iter().any(|(.., plural)| *plural == request.resource)
        };
        let wanted = self.namespaces.len() * KIT.len();
        let (mut written, mut last) = (BTreeSet::new(), begun);
        while written.len() < wanted {
            for request in self.arena.collect(name, 1, is_it).await? {
                last = last.max(request.finished);
                written.insert((request.resource, request.namespace));
            }
        }
        let server = self.server()?.saturating_sub(before);
        Ok(Measured { seconds: last.duration_since(begun).as_secs_f64(), server })
    }

    /// As long as Copyrator's writes, part by part, with content and proofs of their own.
    fn bare_writes(
        &self,
        like: &[Value],
        name: &str,
        versions: Option<&BTreeMap<(&str, String), Value>>,
    ) -> Outcome<Vec<Prepared>> {
        let round = u32::from(versions.is_some());
        let mut writes = Vec::new();
        for place in &self.namespaces {
            for ((like, (_, version, plural)), fresh) in like.iter().zip(KIT).zip(kit(name, round)) {
                let mut body = fresh["template"].clone();
                if let Some(written) = body.pointer_mut("/data/namespace") {
                    *written = json!(place);
                }
                for part in ["labels", "annotations"] {
                    body["metadata"][part] = like["metadata"][part].clone();
                }
                for proof in [DIGEST, MARK] {
                    let length = like["metadata"]["annotations"][proof].as_str().map_or(0, str::len);
                    body["metadata"]["annotations"][proof] = json!(text(length, place));
                }
                body["metadata"]["namespace"] = json!(place);
                match versions {
                    None => body["metadata"]["resourceVersion"] = json!("1"),
                    Some(versions) => {
                        let uid = versions.get(&(plural, place.clone())).ok_or("an object is missing")?;
                        body["metadata"]["uid"] = uid.clone();
                    }
                }
                let path = format!("{}/namespaces/{place}/{plural}/{name}", root(version));
                writes.push(writes::apply(&path, COPY_MANAGER, &body)?);
            }
        }
        Ok(writes)
    }

    /// The kit of the first namespace.
    async fn stored(&self, name: &str) -> Outcome<Vec<Value>> {
        let mut kit = Vec::new();
        for (_, version, plural) in KIT {
            let path = format!("{}/namespaces/{}/{plural}/{name}", root(version), self.namespaces[0]);
            kit.push(self.arena.admin.request(http::Request::get(path).body(Vec::new())?).await?);
        }
        Ok(kit)
    }

    fn server(&self) -> Outcome<Duration> {
        cpu(self.arena.component(Component::ApiServer)?)
    }
}

fn root(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}
