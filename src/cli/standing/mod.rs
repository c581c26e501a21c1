//! The state of rules, monitors and policies according to their statuses, read from the cluster, worst first.

pub(super) mod copies;
pub(super) mod restarts;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, ListParams},
    core::Object,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::{copies::CopyStatus, restarts::RestartRow};
use super::{
    operator::ReadScope,
    survey::Survey,
    terminal::{Exit, aligned, refused::words},
};
use crate::{
    api::{
        ConfigMonitor, ConfigMonitorStatus, ConfigPolicy, ConfigPolicySpec, ConfigPolicyStatus,
        CopyratorRule, CopyratorRuleStatus, ExistingViolation, Problem, WhileInUse, speaks_of,
    },
    names::{Kind, NamespacedName},
    plan::copy::rule_status,
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The API server refused for lack of a right.
    #[error("cannot list {plural} {scope}: {message}{hint}")]
    Refused {
        /// The resource to list.
        plural: String,
        /// In which namespace, or in all, in words.
        scope: String,
        /// The API server's message.
        message: String,
        /// What may work instead.
        hint: &'static str,
    },
    /// The API server did not answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

impl ReadError {
    /// The exit code of the command.
    pub(super) fn exit(&self) -> Exit {
        if matches!(self, Self::Unreachable(_)) { Exit::Unreachable } else { Exit::Findings }
    }
}

/// A row of one object and its state.
#[derive(Debug, Serialize)]
pub(super) struct ObjectRow {
    /// The rule that the row is of, or that the source declares.
    #[serde(skip)]
    rule: Option<NamespacedName>,
    /// Whether its status is about an earlier spec, or absent.
    #[serde(skip)]
    is_behind: bool,
    kind: &'static str,
    namespace: String,
    name: String,
    ready: String,
    reason: String,
    /// The numbers of its status, in words.
    summary: String,
    message: String,
    degraded: bool,
    problems: Vec<Problem>,
    /// For a rule: every copy, the worst first; absent where the caller may not read them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<Vec<CopyStatus>>,
    /// The monitor that the row is of.
    #[serde(skip)]
    monitor: Option<NamespacedName>,
    /// For a monitor: every workload, the worst first; absent where the caller may not read them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    workloads: Option<Vec<RestartRow>>,
}

impl ObjectRow {
    /// Whether something is not as declared.
    pub(super) fn is_worrying(&self) -> bool {
        self.ready != "True"
            || self.degraded
            || self.copies.iter().flatten().any(CopyStatus::is_worrying)
            || self.workloads.iter().flatten().any(RestartRow::is_worrying)
    }

    /// Whether a command that waits waits for it.
    pub(super) fn is_unsettled(&self) -> bool {
        self.is_behind || self.ready != "True" || self.degraded
    }

    /// What is not as declared, in one line.
    pub(super) fn in_short(&self) -> String {
        let name = [self.namespace.as_str(), self.name.as_str()].join("/");
        let state = match (self.is_behind, self.ready == "True" && self.degraded) {
            (true, _) => "its status does not speak of its spec yet".to_owned(),
            (false, true) => "Degraded".to_owned(),
            (false, false) => format!("Ready is {}", self.ready),
        };
        let problem = self.problems.first();
        let (reason, message) = match problem.filter(|_| self.ready == "True") {
            Some(problem) => (&problem.reason, &problem.message),
            None => (&self.reason, &self.message),
        };
        format!("{} {}: {state}, {reason}: {message}", self.kind, name.trim_start_matches('/'))
    }

    /// Kind and name, for `-o name`.
    pub(super) fn kind_and_name(&self) -> (&'static str, &str) {
        (self.kind, &self.name)
    }

    /// Its namespace; empty for a policy.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sets the workloads of a monitor.
    pub(super) fn give_workloads(&mut self, workloads: Option<&[RestartRow]>) {
        if let (Some(monitor), Some(workloads)) = (&self.monitor, workloads) {
            self.workloads = Some(workloads.iter().filter(|row| row.is_of(monitor)).cloned().collect());
        }
    }

    /// Sets the copies of a rule.
    pub(super) fn give(&mut self, copies: &[CopyStatus]) {
        if let Some(rule) = &self.rule {
            let is_ours = |copy: &&CopyStatus| copy.rule.as_ref() == Some(rule);
            self.copies = Some(copies.iter().filter(is_ours).cloned().collect());
        }
    }
}

/// Reads every rule and monitor of one namespace or all, and every policy, the worst first. Also returns
/// whether some namespace may not be read.
pub(super) async fn read(
    client: &Client,
    read_scope: &ReadScope,
    namespace: Option<&str>,
    labels: Option<&str>,
) -> Result<(Vec<ObjectRow>, bool), ReadError> {
    let scopes = read_scope.scopes(namespace);
    let (rules, no_rules) = list::<CopyratorRule, _>(client, read_scope, &scopes, labels).await?;
    let mut rows: Vec<ObjectRow> = rules.into_iter().map(of_rule).collect();
    let (monitors, no_monitors) =
        list::<ConfigMonitor, ConfigMonitorStatus>(client, read_scope, &scopes, labels).await?;
    for monitor in monitors {
        let status = monitor.status.clone().unwrap_or_default();
        let mut summary = format!("{} of {} workloads", status.up_to_date, status.workloads);
        for (count, word) in
            [(status.restarting, "restarting"), (status.waiting, "waiting"), (status.failed, "failed")]
        {
            if count > 0 {
                summary = format!("{summary}, {count} {word}");
            }
        }
        let name = NamespacedName::new(monitor.namespace().unwrap_or_default(), monitor.name_any());
        let row = standing("ConfigMonitor", &monitor, summary, &status.conditions, status.problems);
        rows.push(ObjectRow { monitor: Some(name), ..row });
    }
    // Where Copyrator looks at some namespaces only, no policy is in force.
    if scopes.contains(&None) {
        let resource = ApiResource::erase::<ConfigPolicy>(&());
        let policies: Vec<Reported<ConfigPolicyStatus>> =
            items(Api::all_with(client.clone(), &resource), &resource, &Scope::Cluster, labels).await?;
        for policy in policies {
            let status = policy.status.clone().unwrap_or_default();
            let spec = serde_json::from_value(policy.spec.clone()).unwrap_or_default();
            let summary = match status.violation_count {
                Some(count) if count > 0 => format!("{}; violations {count}", demands(&spec)),
                _ => demands(&spec),
            };
            let problems = status.problems.into_iter().chain(status.violations.into_iter().map(violation));
            rows.push(standing("ConfigPolicy", &policy, summary, &status.conditions, problems.collect()));
        }
    }
    Ok((rows, no_rules || no_monitors))
}

/// Reads the rules of other namespaces whose copies land in this one.
pub(super) async fn read_rules(
    client: &Client,
    read_scope: &ReadScope,
    labels: Option<&str>,
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Result<Vec<ObjectRow>, ReadError> {
    let (mut rules, _) =
        list::<CopyratorRule, _>(client, read_scope, &read_scope.scopes(None), labels).await?;
    rules.retain(|rule| is_wanted(&rule.namespace().unwrap_or_default(), &rule.name_any()));
    Ok(rules.into_iter().map(of_rule).collect())
}

/// Sorts the worst first.
pub(super) fn sort(rows: &mut [ObjectRow]) {
    rows.sort_by_key(|row| {
        let worst_first = (row.ready == "True", !row.is_worrying());
        (worst_first, row.kind, row.namespace.clone(), row.name.clone())
    });
}

fn of_rule(rule: Reported<CopyratorRuleStatus>) -> ObjectRow {
    let status = rule.status.clone().unwrap_or_default();
    let summary = format!("{} of {} copies", status.current, status.desired);
    let name = NamespacedName::new(rule.namespace().unwrap_or_default(), rule.name_any());
    let row = standing("CopyratorRule", &rule, summary, &status.conditions, status.problems);
    ObjectRow { rule: Some(name), ..row }
}

/// The sources with annotations that declare these rules. They have no status, so it is computed here.
pub(super) fn of_annotations(survey: &Survey, is_wanted: impl Fn(&NamespacedName) -> bool) -> Vec<ObjectRow> {
    let wanted = survey.world.rules().keys().filter(|rule| is_wanted(rule));
    let row = |rule: &NamespacedName| {
        let source = rule.annotated()?;
        let status = rule_status(&survey.world, rule, survey.now)?;
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready")?;
        Some(ObjectRow {
            rule: Some(rule.clone()),
            is_behind: false,
            kind: match source.kind {
                Kind::ConfigMap => "ConfigMap",
                Kind::Secret => "Secret",
            },
            namespace: source.namespace.to_string(),
            name: source.name.to_string(),
            ready: ready.status.clone(),
            reason: ready.reason.clone(),
            summary: format!("{} of {} copies, by annotation", status.current, status.desired),
            message: ready.message.clone(),
            degraded: status.conditions.iter().any(|one| one.type_ == "Degraded" && one.status == "True"),
            problems: status.problems,
            copies: None,
            monitor: None,
            workloads: None,
        })
    };
    wanted.filter_map(row).collect()
}

/// The workloads without a monitor, for machines; people find them in the table of workloads.
pub(super) fn of_workloads(workloads: &[RestartRow]) -> Vec<ObjectRow> {
    let alone = workloads.iter().filter(|row| row.monitors.is_empty());
    let row = |row: &RestartRow| ObjectRow {
        rule: None,
        is_behind: false,
        kind: match &*row.kind {
            "Deployment" => "Deployment",
            "StatefulSet" => "StatefulSet",
            _ => "DaemonSet",
        },
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        ready: if row.is_worrying() { "False".into() } else { "True".into() },
        reason: row.reason.clone(),
        summary: if row.by_annotation { "by annotation".into() } else { String::new() },
        message: row.message.clone(),
        degraded: false,
        problems: Vec::new(),
        copies: None,
        monitor: None,
        workloads: Some(vec![row.clone()]),
    };
    alone.map(row).collect()
}

/// A violation by an existing object, as a problem of the policy.
fn violation(found: ExistingViolation) -> Problem {
    let ExistingViolation { kind, namespace, name, rule, key, message } = found;
    let key = key.map(|key| format!(", key {key}")).unwrap_or_default();
    let message = format!("{kind:?}, rule {rule}{key}: {message}");
    Problem { namespace, name, reason: "Violation".into(), message }
}

/// The number of demands of a policy, in words.
fn demands(spec: &ConfigPolicySpec) -> String {
    let labels = spec.labels.as_ref().map_or(0, |labels| labels.required.len() + labels.patterns.len());
    let defaults = spec.defaults.as_ref().map_or(0, |given| given.labels.len() + given.annotations.len());
    let counts = [
        (spec.data.len(), "data"),
        (labels, "labels"),
        (spec.validations.len(), "CEL"),
        (usize::from(spec.limits.is_some()), "limits"),
        (usize::from(spec.warn_above.is_some()), "warnAbove"),
        (usize::from(spec.while_in_use == WhileInUse::Refuse), "whileInUse"),
        (defaults, "defaults"),
    ];
    let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{word} {count}"));
    words.collect::<Vec<_>>().join(", ")
}

/// An object of ours whose spec may be of a newer version: only its status is shown.
type Reported<Status> = Object<Value, Status>;

/// The scope of a list.
enum Scope<'s> {
    /// A single namespace.
    One(&'s str),
    /// A single namespace that Copyrator does not look at.
    Unserved(&'s str),
    /// All namespaces.
    All,
    /// The cluster, for a kind without namespaces.
    Cluster,
}

impl Scope<'_> {
    /// The scope in words.
    fn said(&self) -> String {
        match self {
            Self::One(namespace) | Self::Unserved(namespace) => format!("in namespace {namespace}"),
            Self::All => "in all namespaces".into(),
            Self::Cluster => "in the cluster".into(),
        }
    }

    /// What may work for a user who may not list in this scope.
    fn hint(&self) -> &'static str {
        match self {
            Self::One(_) => {
                "; a Role in it does that lets you list copyratorrules and configmonitors (copyrator.dev)"
            }
            Self::Unserved(_) => "; this Copyrator does not look at it (--namespaces)",
            Self::All => "; one namespace may do: copyrator status -n NAMESPACE",
            Self::Cluster => {
                "; it takes a ClusterRole that lets you list configpolicies (copyrator.dev), which one namespace does \
                 without: copyrator status -n NAMESPACE"
            }
        }
    }
}

/// The objects in these namespaces, and whether some namespace may not be read and was left out.
async fn list<K, Status>(
    client: &Client,
    read_scope: &ReadScope,
    scopes: &[Option<&str>],
    labels: Option<&str>,
) -> Result<(Vec<Reported<Status>>, bool), ReadError>
where
    K: Resource<DynamicType = ()>,
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for scope in scopes {
        let (api, scope) = match scope {
            Some(namespace) => {
                let is_served = read_scope.namespaces().is_none_or(|places| places.contains(*namespace));
                let scope = if is_served { Scope::One(namespace) } else { Scope::Unserved(namespace) };
                (Api::namespaced_with(client.clone(), namespace, &resource), scope)
            }
            None => (Api::all_with(client.clone(), &resource), Scope::All),
        };
        match items(api, &resource, &scope, labels).await {
            Ok(items) => all.extend(items),
            Err(error @ ReadError::Refused { .. }) => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    match refused.pop() {
        Some(error) if refused.len() + 1 == scopes.len() => Err(error),
        last => Ok((all, last.is_some())),
    }
}

async fn items<Status>(
    api: Api<Reported<Status>>,
    resource: &ApiResource,
    scope: &Scope<'_>,
    labels: Option<&str>,
) -> Result<Vec<Reported<Status>>, ReadError>
where
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let refused = |message: String, hint| ReadError::Refused {
        plural: resource.plural.clone(),
        scope: scope.said(),
        message,
        hint,
    };
    let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    match api.list(&params).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(refused(status.message, scope.hint())),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(refused(
            "the cluster does not know this kind".into(),
            "; is Copyrator installed? copyrator crds | kubectl apply --server-side -f -",
        )),
        Err(kube::Error::Api(status)) => Err(refused(words(&status), "")),
        Err(error) => Err(ReadError::Unreachable(Box::new(error))),
    }
}

fn standing<K: ResourceExt>(
    kind: &'static str,
    object: &K,
    summary: String,
    conditions: &[Condition],
    problems: Vec<Problem>,
) -> ObjectRow {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let generation = object.meta().generation.unwrap_or_default();
    ObjectRow {
        rule: None,
        is_behind: !speaks_of(conditions, "Ready", generation),
        kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        ready: ready.map_or_else(|| "Unknown".into(), |condition| condition.status.clone()),
        reason: ready.map_or_else(|| "NotSeenYet".into(), |condition| condition.reason.clone()),
        message: ready.map(|condition| condition.message.clone()).unwrap_or_default(),
        degraded: conditions
            .iter()
            .any(|condition| condition.type_ == "Degraded" && condition.status == "True"),
        summary,
        problems,
        copies: None,
        monitor: None,
        workloads: None,
    }
}

/// A table for people: a line for each object, and below it what is wrong.
pub(super) fn table(rows: &[ObjectRow]) -> String {
    if rows.is_empty() {
        return "no rules, monitors or policies\n".into();
    }
    let header = ["KIND", "NAMESPACE", "NAME", "READY", "REASON", "SUMMARY"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        [
            row.kind.to_owned(),
            if row.namespace.is_empty() { "-".into() } else { row.namespace.clone() },
            row.name.clone(),
            if row.ready == "True" && row.degraded { "Degraded".into() } else { row.ready.clone() },
            row.reason.clone(),
            row.summary.clone(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(cells).collect();
    let mut text = String::new();
    for (index, line) in aligned(&lines).iter().enumerate() {
        text.push_str(line);
        text.push('\n');
        if let Some(row) = index.checked_sub(1).and_then(|row| rows.get(row)) {
            if row.ready != "True" && !row.message.is_empty() {
                text.push_str(&format!("    {}\n", row.message));
            }
            for problem in &row.problems {
                let at = [problem.namespace.as_str(), problem.name.as_str()].join("/");
                text.push_str(&format!(
                    "    {} {}: {}\n",
                    problem.reason,
                    at.trim_matches('/'),
                    problem.message
                ));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_list_is_told_what_lets_him_list_there() {
        let said = |scope: &Scope<'_>, plural: &str| {
            let (plural, message) = (plural.to_owned(), "forbidden".to_owned());
            ReadError::Refused { plural, scope: scope.said(), message, hint: scope.hint() }.to_string()
        };
        assert_eq!(
            said(&Scope::One("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; a Role in it does that lets you list copyratorrules \
             and configmonitors (copyrator.dev)"
        );
        assert_eq!(
            said(&Scope::Unserved("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; this Copyrator does not look at it (--namespaces)"
        );
        assert_eq!(
            said(&Scope::All, "copyratorrules"),
            "cannot list copyratorrules in all namespaces: forbidden; one namespace may do: copyrator status -n NAMESPACE"
        );
        assert_eq!(
            said(&Scope::Cluster, "configpolicies"),
            "cannot list configpolicies in the cluster: forbidden; it takes a ClusterRole that lets you list configpolicies \
             (copyrator.dev), which one namespace does without: copyrator status -n NAMESPACE"
        );
    }
}
