//! What people have by the time that they upgrade: something of everything, and something pending.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, condition, config_map, deployment, label, ours, secret, uid, version};
use crate::bed::{Bed, Story, eventually, same};

/// Copies that are to come with [`Estate::found`], by kind and name.
const COPIES: [(&str, &str); 4] =
    [("ConfigMap", "app"), ("Secret", "tls"), ("ConfigMap", "told"), ("ConfigMap", "old")];
/// The source whose annotations name a namespace.
pub const TOLD: &str = "told";
const GRANT: &str = "copyrator.dev/authorized";
const COPIED: &str = "app.kubernetes.io%2Fmanaged-by%3Dcopyrator";

/// Rules, monitors, policies, sources, copies and workloads of one story.
pub struct Estate<'a> {
    /// Where they are.
    pub story: Story<'a>,
    /// A namespace with copies.
    pub blue: String,
}

impl<'a> Estate<'a> {
    /// Makes it all, and waits until everything is as it stays: copies are there, one of them about to go; workloads
    /// are known, one restarted, and one waits for an hour to be restarted again.
    pub fn found(bed: &'a Bed, name: &'static str) -> Estate<'a> {
        let story = Story::new(bed, name);
        let blue = story.target("blue");
        let create = |object: &Value| bed.admin.create(object).ok();
        create(&config_map(&story.home, "app", [("k", "1")]));
        create(&secret(&story.home, "tls", [("k", "1")]));
        create(&config_map(&story.home, "idle", [("k", "1")]));
        create(&config_map(&story.home, "old", [("k", "1")]));
        let mut told = config_map(&story.home, "told", [("k", "1")]);
        // Named literally, so that the grant ends with that namespace.
        told["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": blue });
        told["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
        create(&told);
        for (name, kind, source, more) in [
            ("app", "ConfigMap", "app", json!({ "excludeTargets": ["*-green"] })),
            ("tls", "Secret", "tls", json!({})),
            ("idle", "ConfigMap", "idle", json!({ "suspend": true })),
            ("old", "ConfigMap", "old*", json!({ "deletionGrace": "1h" })),
        ] {
            let mut rule = story.rule(kind, &[source]);
            rule["metadata"]["name"] = name.into();
            json_patch::merge(&mut rule["spec"], &more);
            create(&rule);
        }
        create(&story.policy(
            &["ConfigMap"],
            json!({ "match": {}, "data": [{ "name": "url", "keys": ["url"], "format": "url" }] }),
        ));
        for (kind, name) in COPIES {
            story.until(kind, &blue, name, [("k", "1")]);
        }
        bed.admin.delete("ConfigMap", &story.home, "old").ok();
        story.until_leaving("ConfigMap", &blue, "old");

        for name in ["web", "slow", "marked"] {
            create(&config_map(&story.home, name, [("k", "1")]));
        }
        for (name, pause) in [("web", "0s"), ("slow", "1h")] {
            let spec = json!({
                "watch": [{ "kind": "ConfigMap", "names": [name] }],
                "pace": { "quietPeriod": "0s", "minInterval": pause },
            });
            create(&ours("ConfigMonitor", &story.home, name, spec));
        }
        let from = |name: &str| json!({ "envFrom": [{ "configMapRef": { "name": name } }] });
        let mut marked = deployment(&story.home, "marked", from("marked"));
        marked["metadata"]["annotations"] = json!({ "copyrator.dev/restart": "true" });
        create(&marked);
        for name in ["web", "slow"] {
            create(&deployment(&story.home, name, from(name)));
        }
        let estate = Estate { story, blue };
        for name in ["web", "slow", "marked"] {
            estate.story.until_running(name);
            estate.story.until_adopted(name);
        }
        estate.restarts(["web", "slow"], "2");
        estate.change("ConfigMap", "slow", "3");
        estate.until_in_order();
        estate
    }

    /// Changes a source.
    pub fn change(&self, kind: &str, name: &str, value: &str) {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        self.story.admin().merge(kind, &self.story.home, name, &json!({ field: { "k": value } })).ok();
    }

    /// Changes what these workloads use, which restarts each of them once.
    pub fn restarts<const N: usize>(&self, names: [&str; N], value: &str) {
        let before = names.map(|name| (self.story.until_running(name), self.story.rollouts(name)));
        self.story.until_older_than_now();
        for name in names {
            self.change("ConfigMap", name, value);
        }
        for (name, (pod, rollouts)) in names.iter().zip(before) {
            self.story.until_restarted(name, &pod);
            assert_eq!(self.story.rollouts(name), rollouts + 1, "{name}");
        }
    }

    /// Waits until every status says what it is to say, of whichever version it is.
    pub fn until_in_order(&self) {
        for (kind, name, reason) in [
            ("CopyratorRule", "app", "AllCopied"),
            ("CopyratorRule", "tls", "AllCopied"),
            ("CopyratorRule", "idle", "Suspended"),
            ("CopyratorRule", "old", "NoSource"),
            ("ConfigMonitor", "web", "Watching"),
            ("ConfigMonitor", "slow", "Watching"),
        ] {
            self.story.until_condition(kind, name, "Ready", "True", reason);
        }
        eventually("one restart is due, in an hour", || {
            let monitor = self.story.admin().get("ConfigMonitor", &self.story.home, "slow").ok_or("gone")?;
            let status = &monitor["status"];
            let is_due = status["waiting"] == 1 && status["nextRestartTime"].is_string();
            if is_due { Ok(()) } else { Err(status.to_string()) }
        });
        eventually("the policy is in force", || {
            let policy = self.story.admin().get("ConfigPolicy", "", &self.name()).ok_or("gone")?;
            same(condition(&policy, "Ready"), Some(("True".into(), "InForce".into())))
        });
        let bad = config_map(&self.blue, "probe", [("url", "nonsense")]);
        eventually("the policy judges", || {
            let answer = self.story.admin().try_create(&bad);
            let said = answer.body.to_string();
            let is_refused = answer.code == 403 && said.contains(&format!("policy {}", self.name()));
            if is_refused { Ok(()) } else { Err(said) }
        });
    }

    fn name(&self) -> String {
        self.story.home.trim_end_matches("-home").to_owned()
    }

    /// What nobody has touched stays: our kinds as they were written, copies and their sources to the letter, workloads
    /// with their pods.
    pub fn inventory(&self) -> BTreeMap<String, Value> {
        let (admin, home) = (self.story.admin(), &self.story.home);
        let mut found = BTreeMap::new();
        let mut note = |object: &Value, what: Value| {
            let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
            let key = format!("{} {}/{}", object["kind"], part("namespace"), part("name"));
            found.insert(key, json!({ "uid": uid(object), "what": what }));
        };
        let written = |object: &Value| json!([object["metadata"]["generation"], object["spec"]]);
        for (kind, names) in
            [("CopyratorRule", &["app", "tls", "idle", "old"][..]), ("ConfigMonitor", &["web", "slow"])]
        {
            for name in names {
                let object = admin.get(kind, home, name).unwrap_or_else(|| panic!("{kind} {name} is gone"));
                note(&object, written(&object));
            }
        }
        let policy = admin.get("ConfigPolicy", "", &self.name()).expect("the policy");
        note(&policy, written(&policy));
        for (kind, name) in [("ConfigMap", "app"), ("Secret", "tls")] {
            let source = admin.get(kind, home, name).expect("a source");
            note(&source, version(&source).into());
        }
        let mut told = self.told();
        told["metadata"]["annotations"][GRANT] = Value::Null;
        let metadata = &told["metadata"];
        note(&told, json!([told["data"], metadata["labels"], metadata["annotations"]]));
        for kind in ["ConfigMap", "Secret"] {
            for mut copy in admin.list(kind, &self.blue, COPIED) {
                copy["kind"] = kind.into();
                note(&copy, version(&copy).into());
            }
        }
        for name in ["web", "slow", "marked"] {
            let workload = admin.get("Deployment", home, name).expect("a workload");
            let pods: Vec<String> = self.story.pods(name).iter().map(uid).collect();
            let applied = label(&workload, "copyrator.dev/applied");
            let template = &workload["spec"]["template"];
            note(&workload, json!([workload["metadata"]["generation"], applied, template, pods]));
        }
        found
    }

    /// That the author of annotations that name a namespace was allowed: each version asks for itself.
    pub fn grant(&self) -> String {
        annotation(&self.told(), GRANT).unwrap_or_default().to_owned()
    }

    fn told(&self) -> Value {
        self.story.admin().get("ConfigMap", &self.story.home, TOLD).expect("a source")
    }

    /// The copy that is about to go says when.
    pub fn leaves_at(&self) -> String {
        let copy = self.story.admin().get("ConfigMap", &self.blue, "old").expect("it has gone too early");
        annotation(&copy, "copyrator.dev/remove-after").expect("it stays after all").to_owned()
    }

    /// Everything works: changes of sources arrive, namespaces that appear get copies, what is excluded does not, and a
    /// change restarts its workload once.
    pub fn lives(&self, value: &str) {
        self.change("ConfigMap", "app", value);
        self.change("Secret", "tls", value);
        self.change("ConfigMap", "told", value);
        for (kind, name) in &COPIES[..3] {
            self.story.until(kind, &self.blue, name, [("k", value)]);
        }
        let (new, green) =
            (self.story.target(&format!("new-{value}")), self.story.target(&format!("{value}-green")));
        self.story.until("ConfigMap", &new, "app", [("k", value)]);
        self.story.until("Secret", &green, "tls", [("k", value)]);
        assert!(self.story.admin().get("ConfigMap", &green, "app").is_none(), "{green} was excluded");
        self.restarts(["web", "marked"], value);
    }
}
