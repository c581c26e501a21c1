//! The chart's rights are those that are used: none is missing, and none is for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use copyrator_certs::{Authority, CaSecret};
use serde_json::{Value, json};

use crate::bed::objects::{binding, condition, config_map, data, deployment, ours, pod, secret, uid};
use crate::bed::{Bed, Request, Story, eventually, private, same};

const CA: &str = "copyrator-webhook-ca";

/// Rights that no request shows, and why they are needed all the same. A line here has to say what would go wrong.
const UNSEEN: [(&str, &str); 1] = [(
    "override copyrator.dev/copies",
    "the policy copyrator-copies asks for it, inside of the API server: without it no copy could be changed",
)];

/// One verb on one kind of object, as a role of ours grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) account: String,
    /// Where; nothing: everywhere.
    pub(crate) namespace: Option<String>,
    verb: String,
    /// `GROUP/RESOURCE` or `GROUP/RESOURCE/PART`; `RESOURCE` alone of Kubernetes' core.
    resource: String,
    /// On which object; nothing: on any.
    name: Option<String>,
}

#[test]
fn each_account_uses_every_right_that_the_chart_gives_it_and_lacks_none() {
    let bed = private("rights");
    age_the_ca(&bed);
    let crew = bed.man();
    everything_is_done(&bed);

    let rights = rights(&bed);
    let accounts: BTreeSet<&str> = rights.iter().map(|right| &*right.account).collect();
    assert_eq!(accounts, ["copyrator-reconciler", "copyrator-webhook"].into(), "{rights:?}");
    let is_unseen = |right: &Right| UNSEEN.iter().any(|(what, _)| *what == right.brief());
    eventually("every right has been used", || {
        let requests = by_account(&bed);
        let unused = rights.iter().filter(|right| !is_unseen(right) && !right.is_used(&requests));
        let unused: Vec<String> = unused.map(|right| format!("\n    {right}")).collect();
        if unused.is_empty() { Ok(()) } else { Err(format!("rights that nothing uses:{}", unused.concat())) }
    });
    for (what, why) in UNSEEN {
        assert!(rights.iter().any(|right| right.brief() == what), "{what} is in no role any more ({why})");
    }

    let requests = by_account(&bed);
    let forbidden: Vec<&Request> = requests.values().flatten().filter(|it| it.is_forbidden()).collect();
    assert!(forbidden.is_empty(), "a right is missing: {forbidden:#?}");
    let of_webhook = &requests["copyrator-webhook"];
    let secrets = of_webhook.iter().filter(|it| it.resource == "secrets");
    let secrets: BTreeSet<_> = secrets.map(|it| (&*it.verb, &*it.namespace, &*it.name)).collect();
    assert_eq!(secrets, [("get", testbed::NAMESPACE, CA)].into(), "the webhook looked at other Secrets");
    // Nor at anybody's ConfigMaps: at what a role of ours names, if at all.
    let named: Vec<&Right> = rights.iter().filter(|right| right.name.is_some()).collect();
    let is_named = |it: &&Request| named.iter().any(|right| right.namespace.is_some() && right.allows(it));
    let looked: Vec<_> =
        of_webhook.iter().filter(|it| it.resource == "configmaps" && !is_named(it)).collect();
    assert!(looked.is_empty(), "the webhook looked at ConfigMaps: {looked:#?}");
    let written: BTreeSet<&str> = of_webhook
        .iter()
        .filter(|it| !["get", "list", "watch"].contains(&&*it.verb))
        .map(|it| &*it.resource)
        .collect();
    assert_eq!(written, ["subjectaccessreviews"].into(), "the webhook wrote");
    drop(crew);
}

impl Right {
    pub(crate) fn brief(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    pub(crate) fn is_used(&self, requests: &BTreeMap<String, Vec<Request>>) -> bool {
        requests.get(&self.account).is_some_and(|all| all.iter().any(|request| self.allows(request)))
    }

    fn allows(&self, request: &Request) -> bool {
        let group = if request.group.is_empty() { String::new() } else { format!("{}/", request.group) };
        let part =
            if request.subresource.is_empty() { String::new() } else { format!("/{}", request.subresource) };
        let resource = format!("{group}{}{part}", request.resource);
        // An apply that makes an object takes both rights.
        let is_made = request.verb == "patch" && request.code == 201;
        let is_verb = request.verb == self.verb || (is_made && self.verb == "create");
        is_verb
            && !request.is_forbidden()
            && resource == self.resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.namespace.as_deref().unwrap_or("all namespaces");
        let name = self.name.as_deref().unwrap_or("any object");
        write!(f, "{}: {} {name} in {place}", self.account, self.brief())
    }
}

/// What roles are bound to accounts in our namespace, and what they grant: as it is in the cluster, whatever the chart's
/// templates are.
pub(crate) fn rights(bed: &Bed) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for binding in ["ClusterRoleBinding", "RoleBinding"].iter().flat_map(|kind| bed.admin.list(kind, "", ""))
    {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let ours =
            subjects.filter(|it| it["kind"] == "ServiceAccount" && it["namespace"] == testbed::NAMESPACE);
        let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        let namespace = binding["metadata"]["namespace"].as_str();
        for account in ours {
            let at = if kind == "Role" { namespace.unwrap_or_default() } else { "" };
            let role = bed.admin.get(kind.as_str().expect("a kind"), at, name.as_str().expect("a name"));
            for rule in role.expect("the role is there")["rules"].as_array().into_iter().flatten() {
                rights.extend(granted(account["name"].as_str().expect("a name"), namespace, rule));
            }
        }
    }
    rights
}

fn granted(account: &str, namespace: Option<&str>, rule: &Value) -> Vec<Right> {
    let list = |key: &str| -> Vec<String> {
        let texts = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let names: Vec<Option<String>> = match list("resourceNames") {
        none if none.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            assert!(
                !group.contains('*') && !resource.contains('*'),
                "{account} has a right without bounds: {rule}"
            );
            let resource = if group.is_empty() { resource } else { format!("{group}/{resource}") };
            for verb in list("verbs") {
                assert_ne!(verb, "*", "{account} has a right without bounds: {rule}");
                rights.extend(names.iter().map(|name| Right {
                    account: account.to_owned(),
                    namespace: namespace.map(str::to_owned),
                    verb: verb.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                }));
            }
        }
    }
    rights
}

/// Rights on kinds of these groups, or on these kinds as [`Right`] has them, that no account of ours has used so far.
pub(crate) fn unused_on(bed: &Bed, of: &[&str]) -> Vec<String> {
    let requests = by_account(bed);
    let is_of = |right: &Right| {
        let group = right.resource.split_once('/').map(|(group, _)| group);
        of.contains(&&*right.resource) || group.is_some_and(|group| of.contains(&group))
    };
    let rights = rights(bed);
    let unused = rights.iter().filter(|right| is_of(right) && !right.is_used(&requests));
    unused.map(Right::to_string).collect()
}

/// Requests of our accounts so far.
pub(crate) fn by_account(bed: &Bed) -> BTreeMap<String, Vec<Request>> {
    let ours = format!("system:serviceaccount:{}:", testbed::NAMESPACE);
    let mut found: BTreeMap<String, Vec<Request>> = BTreeMap::new();
    for request in bed.requests() {
        if let Some(account) = request.user.strip_prefix(&ours) {
            found.entry(account.to_owned()).or_default().push(request);
        }
    }
    found
}

/// A CA that is due to be renewed, as after most of a year.
fn age_the_ca(bed: &Bed) {
    let day = Duration::from_secs(24 * 3600);
    let issued = Authority::issue("copyrator webhook CA", SystemTime::now() - 300 * day, 365 * day);
    let ca = CaSecret::new(issued.expect("a CA")).to_data();
    let ca: BTreeMap<String, String> =
        ca.into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
    let mut held = secret(testbed::NAMESPACE, CA, []);
    held["data"] = json!(ca);
    bed.admin.create(&held).ok();
}

/// Something of everything that we do.
fn everything_is_done(bed: &Bed) {
    // Somebody who is asked about: an administrator is too.
    let story = Story::new(bed, "exercised");
    let target = story.target("a");
    for place in [&story.home, &target] {
        bed.admin.create(&binding(place, "bob", "edit")).ok();
    }
    copies(&story, &target);
    replaced(&story, &target);
    templates(&story, &target);
    restarts(&story);
    pods(&story);
    policies(&story);
}

/// What a template declares, and its status.
fn templates(story: &Story<'_>, target: &str) {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "declared" }, "data": { "k": "v" } });
    let spec = json!({ "forEach": { "namespaces": [{ "names": [target] }] }, "objects": [{ "id": "a", "template": object }] });
    story.admin().create(&ours("CopyratorTemplate", &story.home, "template", spec)).ok();
    story.until("ConfigMap", target, "declared", [("k", "v")]);
    story.until_condition("CopyratorTemplate", "template", "Ready", "True", "AllRendered");
}

/// Made, changed, repaired and removed, of both kinds; and by annotation.
pub(crate) fn copies(story: &Story<'_>, target: &str) {
    let make = |kind: &str, value: &str| match kind {
        "Secret" => secret(&story.home, "copied", [("k", value)]),
        _ => config_map(&story.home, "copied", [("k", value)]),
    };
    for kind in ["ConfigMap", "Secret"] {
        let name = kind.to_lowercase();
        let mut rule = story.rule(kind, &["copied"]);
        rule["metadata"]["name"] = json!(name);
        rule["spec"]["targets"] = json!([{ "names": [target] }]);
        story.admin().apply(&make(kind, "1")).ok();
        eventually("bob writes a rule", || match story.bed.bob.create(&rule) {
            answer if answer.code < 300 => Ok(()),
            answer => Err(answer.refused()),
        });
        story.until(kind, target, "copied", [("k", "1")]);
        story.admin().apply(&make(kind, "2")).ok();
        story.until(kind, target, "copied", [("k", "2")]);
        story.admin().delete(kind, target, "copied").ok();
        story.until(kind, target, "copied", [("k", "2")]);
        story.until_condition("CopyratorRule", &name, "Ready", "True", "AllCopied");
        story.admin().delete("CopyratorRule", &story.home, &name).ok();
        story.until_gone(kind, target, "copied");
    }
    let mut asking = config_map(&story.home, "asking", [("k", "v")]);
    asking["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": target });
    asking["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    story.admin().create(&asking).ok();
    story.until("ConfigMap", target, "asking", [("k", "v")]);
}

/// Deleted and created anew, where a quota counts the old object.
fn replaced(story: &Story<'_>, target: &str) {
    let frozen = |value: &str| {
        let mut source = config_map(&story.home, "frozen", [("k", value)]);
        source["immutable"] = json!(true);
        source
    };
    let mut rule = story.rule("ConfigMap", &["frozen"]);
    rule["metadata"]["name"] = json!("frozen");
    rule["spec"]["targets"] = json!([{ "names": [target] }]);
    rule["spec"]["deletionGrace"] = json!("1h");
    story.admin().create(&frozen("1")).ok();
    story.admin().create(&rule).ok();
    story.until("ConfigMap", target, "frozen", [("k", "1")]);
    let mut quota = ours("ResourceQuota", target, "full", json!({ "hard": { "count/configmaps": "0" } }));
    quota["apiVersion"] = json!("v1");
    let count = || {
        let quota = story.admin().get("ResourceQuota", target, "full").ok_or("it is gone")?;
        let used = quota["status"]["used"]["count/configmaps"].as_str();
        used.map(str::to_owned).ok_or_else(|| quota.to_string())
    };
    story.admin().create(&quota).ok();
    let used = eventually("the quota counts", count);
    story
        .admin()
        .merge("ResourceQuota", target, "full", &json!({ "spec": { "hard": { "count/configmaps": used } } }))
        .ok();
    eventually("the quota is full", || {
        let quota = story.admin().get("ResourceQuota", target, "full").ok_or("it is gone")?;
        same(quota["status"]["hard"]["count/configmaps"].clone(), json!(used))
    });
    story.admin().delete("ConfigMap", &story.home, "frozen").ok();
    story.admin().create(&frozen("2")).ok();
    story.until("ConfigMap", target, "frozen", [("k", "2")]);
    story.admin().delete("ResourceQuota", target, "full").ok();
}

/// Rollouts of each kind, one of them by eviction.
pub(crate) fn restarts(story: &Story<'_>) {
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let kinds = ["Deployment", "StatefulSet", "DaemonSet"];
    for kind in kinds {
        let uses = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
        let mut workload = deployment(&story.home, &kind.to_lowercase(), uses);
        workload["kind"] = kind.into();
        if kind != "Deployment" {
            workload["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
        }
        if kind == "DaemonSet" {
            workload["spec"].as_object_mut().expect("a spec").remove("replicas");
        }
        story.admin().create(&workload).ok();
    }
    let before = kinds.map(|kind| until_all_run(story, kind));
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"]["maxConcurrent"] = 3.into();
    story.admin().create(&monitor).ok();
    for kind in kinds {
        eventually(&format!("{kind} is marked with its content"), || {
            let workload = story.admin().get(kind, &story.home, &kind.to_lowercase()).ok_or("it is gone")?;
            let labels = &workload["metadata"]["labels"];
            if labels["copyrator.dev/applied"].is_string() { Ok(()) } else { Err(labels.to_string()) }
        });
    }
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    for (kind, before) in kinds.iter().zip(before) {
        eventually(&format!("every pod of the {kind} is another"), || {
            let pods: Vec<String> = story.pods(&kind.to_lowercase()).iter().map(uid).collect();
            let is_done = pods.len() == before.len() && !pods.iter().any(|uid| before.contains(uid));
            if is_done { Ok(()) } else { Err(format!("{pods:?}")) }
        });
    }
}

/// The cluster has two nodes.
fn until_all_run(story: &Story<'_>, kind: &str) -> Vec<String> {
    let wanted = if kind == "DaemonSet" { 2 } else { 1 };
    eventually(&format!("{wanted} pods of the {kind} run"), || {
        let pods = story.pods(&kind.to_lowercase());
        let run = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        if (pods.len(), run) == (wanted, wanted) {
            Ok(pods.iter().map(uid).collect())
        } else {
            Err(format!("{run}"))
        }
    })
}

/// Deleted, by a monitor and its ConfigMap.
pub(crate) fn pods(story: &Story<'_>) {
    story.admin().apply(&config_map(&story.home, "of-pods", [("k", "1")])).ok();
    story.admin().create(&pod(&story.home, "bare", &data([("app", "bare")]))).ok();
    story.until_pods("bare", &["bare"]);
    story.until_older_than_now();
    let mut monitor =
        story.monitor(&["of-pods"], json!({ "podSelector": { "matchLabels": { "app": "bare" } } }));
    monitor["metadata"]["name"] = "pods".into();
    monitor["spec"]["strategy"] = json!({ "type": "Delete" });
    story.admin().create(&monitor).ok();
    eventually("the monitor knows what the pods run with", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "pods").ok_or("it is gone")?;
        if monitor["status"]["podsApplied"].is_string() { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
    story.admin().apply(&config_map(&story.home, "of-pods", [("k", "2")])).ok();
    story.until_pods("bare", &[]);
}

/// Both webhook configurations change for them, and each has a status.
fn policies(story: &Story<'_>) {
    let spec = json!({
        "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "match": {}, "failurePolicy": "Fail",
        "defaults": { "labels": { "team": "unknown" } },
    });
    story.admin().create(&story.policy(&["ConfigMap", "Secret"], spec)).ok();
    eventually("the policy has a status", || {
        let policy = story.admin().get("ConfigPolicy", "", "exercised").ok_or("it is gone")?;
        condition(&policy, "Ready").map(drop).ok_or_else(|| policy["status"].to_string())
    });
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        eventually(&format!("the {kind} has an entry for it"), || {
            let hooks = story.admin().get(kind, "", "copyrator").ok_or("it is gone")?["webhooks"].to_string();
            let wanted =
                if kind.starts_with('V') { "exercised.policies-fail" } else { "defaults.copyrator.dev" };
            if hooks.contains(wanted) { Ok(()) } else { Err(hooks) }
        });
    }
}
